# Writes with FUA all the time, region after region, until its console reads `enough`; then compares it all. Meanwhile
# the drive may fail and come back. Each line that its console reads before that is answered when writes go on.
connect $port $nqn --nr-io-queues=2 --reconnect-delay=1 --ctrl-loss-tmo=600 --keep-alive-tmo=2 --data-digest
wait_for /dev/nvme0n1
dd if=/dev/urandom of=/tmp/random bs=64k count=16 2>/dev/null
region() { # each has other content: 64 blocks, from another one of 16 places in it
    echo "bs=4k count=64 skip=$(($1 % 12 * 16))"
}
write() {
    number=0
    until [ -e /tmp/enough ]; do
        /sbin/dd if=/tmp/random of=/dev/nvme0n1 $(region $number) seek=$((number * 64)) oflag=direct,dsync 2>/tmp/why ||
            cat /tmp/why >>/tmp/failed
        number=$((number + 1))
        echo $number >/tmp/number.new
        mv /tmp/number.new /tmp/number
    done
}
echo 0 >/tmp/number
write &
while echo "GUEST: listens" && read -r word && [ "$word" != enough ]; do
    from=$(cat /tmp/number)
    until [ $(cat /tmp/number) -gt $((from + 1)) ]; do sleep 0.1; done
    echo "GUEST: $word"
done
touch /tmp/enough
wait
[ ! -e /tmp/failed ] || { echo "GUEST: a write failed"; cat /tmp/failed; dmesg | tail -40; }
echo 3 >/proc/sys/vm/drop_caches
for number in $(seq 0 $(($(cat /tmp/number) - 1))); do
    /sbin/dd if=/dev/nvme0n1 bs=4k count=64 skip=$((number * 64)) iflag=direct of=/tmp/back 2>/dev/null
    /sbin/dd if=/tmp/random $(region $number) 2>/dev/null | cmp - /tmp/back || echo "GUEST: region $number differs"
done
echo "GUEST: compared $(cat /tmp/number) regions"
echo "GUEST: came back $(dmesg | grep -c 'nvme nvme0: Successfully reconnected') times"
disconnect $nqn
