# What guests have in common that reach drives by NVMe over TCP at $host, with the name $host_name of their own.
place="-t tcp -a $host -s"
network() {
    ip link set lo up
    ip addr add 10.0.2.15/24 dev eth0
    ip link set eth0 up
    for turn in $(seq 60); do
        ping -c 1 -W 1 $host >/dev/null 2>&1 && break
        sleep 0.5
    done
    mkdir -p /etc/nvme
    echo $host_name >/etc/nvme/hostnqn
    echo ${host_name##*:} >/etc/nvme/hostid
    wait_for /dev/nvme-fabrics
}
connect() { # port, name of the subsystem, options
    local port=$1 nqn=$2
    shift 2
    of_nvme connect $place $port -n $nqn "$@"
}
disconnect() {
    nvme disconnect -n $1 >/dev/null
}
of_nvme() { # Linux gives up when two SYN packets have no answer in 3 s, which a busy host may take
    for turn in 1 2 3; do
        nvme "$@" 2>/tmp/why && return
        grep -q "timed out" /tmp/why || break
    done
    cat /tmp/why
    return 1
}
