#!/bin/sh
# namespaces.sh PREFIX RANKS COMMAND...: runs COMMAND under mpirun with a rank in each of RANKS network namespaces, which play
# hosts: a bridge joins them by veth, tc gives each link 1 ms and 100 Mbit/s, and nothing but TCP gets across. PREFIX
# begins the names of all that is made; it is gone behind the run. A kernel without netem gets the 100 Mbit/s alone.
# Status 77: this machine forbids it, with the reason.
set -u
prefix=$1 ranks=$2
shift 2
dir=$(mktemp -d)
trap 'clean; rm -rf "$dir"' EXIT

clean() {
    i=0
    while [ "$i" -lt "$ranks" ]; do
        ip netns del "$prefix$i" 2>/dev/null
        i=$((i + 1))
    done
    ip netns del "${prefix}b" 2>/dev/null
}

try() {
    "$@" >"$dir/said" 2>&1 && return
    echo "$*: $(head -1 "$dir/said")"
    exit 77
}

command -v ip >/dev/null && command -v tc >/dev/null || { echo "ip or tc is missing (package iproute2)"; exit 77; }
try ip netns add "${prefix}b"
try ip -n "${prefix}b" link add bridge type bridge
try ip -n "${prefix}b" link set bridge up
i=0
while [ "$i" -lt "$ranks" ]; do
    ns=$prefix$i
    try ip netns add "$ns"
    try ip -n "$ns" link set lo up
    try ip -n "$ns" link add eth0 type veth peer name "port$i" netns "${prefix}b"
    try ip -n "${prefix}b" link set "port$i" master bridge up
    try ip -n "$ns" addr add "10.77.0.$((i + 1))/24" dev eth0
    try ip -n "$ns" link set eth0 up
    tc -n "$ns" qdisc add dev eth0 root netem delay 1ms rate 100mbit 2>/dev/null ||
        { [ "$i" = 0 ] && echo "no delay of 1 ms: this kernel has no netem"
          try tc -n "$ns" qdisc add dev eth0 root tbf rate 100mbit burst 64kb latency 100ms; }
    echo "10.77.0.$((i + 1)) slots=1" >>"$dir/hosts"
    i=$((i + 1))
done

# How mpirun reaches a host: AGENT ADDRESS COMMAND, as ssh would be called. A host has a name of its own.
cat >"$dir/agent" <<END
#!/bin/sh
host=\$((\${1##*.} - 1))
shift
exec ip netns exec "$prefix\$host" unshare --uts sh -c "hostname $prefix\$host; \$*"
END
chmod +x "$dir/agent"
ip netns exec "${prefix}0" unshare --uts sh -c 'hostname "$0"; exec "$@"' "${prefix}0" \
    mpirun --allow-run-as-root --hostfile "$dir/hosts" --mca plm_rsh_agent "$dir/agent" --mca btl tcp,self \
    --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle 1 -np "$ranks" \
    -x OMP_NUM_THREADS=1 "$@"
