# Carries out each line that its console reads, until `enough`, and tells its number and whether it went well.
connect $port $nqn --nr-io-queues=2 --reconnect-delay=1 --ctrl-loss-tmo=600
wait_for /dev/nvme0n1
drive=/dev/nvme0n1
dd if=/dev/urandom of=/tmp/random bs=64k count=16 2>/dev/null
write() { # page, number of pages
    /sbin/dd if=/tmp/random of=$drive bs=4k seek=$1 count=$2 oflag=direct 2>/tmp/why
}
read_back() {
    /sbin/dd if=$drive of=/tmp/back bs=4k skip=$1 count=$2 iflag=direct 2>/tmp/why
}
same() {
    read_back $1 $2 && dd if=/tmp/random bs=4k count=$2 2>/dev/null | cmp - /tmp/back
}
time_out_after() { # milliseconds; of a path to the drive, where it may have several
    for timeout in /sys/block/nvme0*/queue/io_timeout; do
        echo $1 >$timeout || return 1
    done
}
kernel_says() {
    for turn in $(seq 1000); do
        dmesg | grep -q "$1" && return 0
        sleep 0.1
    done
    dmesg | tail -20
    return 1
}
number=0
echo "GUEST: listens"
while read -r line && [ "$line" != enough ]; do
    number=$((number + 1))
    if eval "$line"; then echo "GUEST: $number went well"; else echo "GUEST: $number failed $(cat /tmp/why)"; fi
done
disconnect $nqn
