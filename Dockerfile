# syntax=docker/dockerfile:1
# Two stages: compilers stay in the first. The demo checkpoint is inside; serve another one with
#   docker build -t noised . && docker run --read-only -v "$PWD/runs/noiseformer-v2:/model:ro" -p 127.0.0.1:8080:8080 noised
FROM debian:bookworm-slim AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc make libc6-dev \
    libcjson-dev libpcre2-dev libssl-dev libunistring-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Makefile ./
COPY base base
COPY tokenizer tokenizer
COPY model model
COPY weights weights
COPY trainer trainer
COPY server server
RUN make -s -j"$(nproc)" all && strip build/noised build/noised-train build/noised-weights

FROM debian:bookworm-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libcjson1 libgomp1 \
    libpcre2-8-0 libssl3 libunistring2 && rm -rf /var/lib/apt/lists/* && useradd --system --uid 10001 noised
COPY --from=build /src/build/noised /src/build/noised-train /src/build/noised-weights /usr/local/bin/
COPY weights/demo /model
USER noised
EXPOSE 8080
# --insecure: the container's own network is the boundary; publish the port on loopback or put an API key file in.
HEALTHCHECK --interval=10s --timeout=6s CMD ["noised", "--probe", "http://127.0.0.1:8080/health"]
ENTRYPOINT ["noised", "--model", "/model", "--host", "0.0.0.0", "--port", "8080"]
CMD ["--insecure"]
