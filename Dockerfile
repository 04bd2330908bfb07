# syntax=docker/dockerfile:1
# Compilers stay in the first stages. The demo checkpoint is inside; serve another one with
#   docker build -t noised .
#   docker run --read-only -v "$PWD/runs/books:/model:ro" -v "$PWD/keys:/keys:ro" -p 127.0.0.1:8080:8080 \
#       noised --host 0.0.0.0 --api-key-file /keys/keys      # of the container's user: chown -R 10001 keys, chmod 600 keys/keys
# The trainer on many machines, which deploy/mpijob.yaml runs, is a target of its own:
#   docker build -t noised-train-mpi --target noised-train-mpi .
FROM debian:bookworm-slim AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc make libc6-dev \
    libcjson-dev libmicrohttpd-dev libopenblas-openmp-dev libpcre2-dev libssl-dev libunistring-dev libpng-dev libsystemd-dev \
    zlib1g-dev libzstd-dev && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Makefile ./
COPY scripts scripts
COPY base base
COPY tokenizer tokenizer
COPY model model
COPY weights weights
COPY trainer trainer
COPY server server
RUN make -s -j"$(nproc)" all && strip build/noised build/noised-train build/noised-weights

FROM build AS build-mpi
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libopenmpi-dev openmpi-bin && \
    rm -rf /var/lib/apt/lists/*
RUN make -s -j"$(nproc)" build/noised-train-mpi && strip build/noised-train-mpi

# What Kubeflow's MPI operator asks of an image: mpirun reaches workers by sshd, which runs as the user it trains as and
# has its keys mounted, at a port that needs no privilege.
FROM debian:bookworm-slim AS noised-train-mpi
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libcjson1 libgomp1 libopenblas0-openmp libpcre2-8-0 \
    libssl3 libunistring2 zlib1g libzstd1 openmpi-bin openssh-client openssh-server && \
    rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* && useradd --create-home --uid 1000 mpiuser
COPY --from=build-mpi /src/build/noised-train-mpi /usr/local/bin/
COPY --from=build-mpi /src/scripts/train_on_hosts.sh /usr/local/bin/
RUN printf 'Host *\n    Port 2222\n    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n' \
        >/etc/ssh/ssh_config.d/mpi.conf && \
    printf 'Port 2222\nPidFile /home/mpiuser/sshd.pid\nHostKey /home/mpiuser/.ssh/id_rsa\nStrictModes no\n' \
        >/home/mpiuser/.sshd_config
USER mpiuser
WORKDIR /home/mpiuser

FROM debian:bookworm-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libcjson1 libgomp1 libmicrohttpd12 libopenblas0-openmp \
    libpcre2-8-0 libssl3 libunistring2 libpng16-16 libsystemd0 zlib1g libzstd1 && rm -rf /var/lib/apt/lists/* && useradd --system --uid 10001 noised
COPY --from=build /src/build/noised /src/build/noised-train /src/build/noised-weights /usr/local/bin/
COPY weights/demo /model
USER noised
EXPOSE 8080
# Of the port that noised takes by default: with another --port comes a --health-cmd of your own, or none.
HEALTHCHECK --interval=10s --timeout=6s CMD ["noised", "--probe", "http://127.0.0.1:8080/health"]
# On loopback inside the container, so nobody is let in by accident. `--host 0.0.0.0` opens it to the container's network
# and needs `--api-key-file FILE`, or `--insecure`.
ENTRYPOINT ["noised", "--model", "/model"]
