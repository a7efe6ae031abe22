# The three namespaces of a drive: what nvme-cli and Linux make of them, a filesystem on each of two while the others
# keep what they have, and what lies beyond their ends.
connect $port $nqn --nr-io-queues=2 --data-digest
for number in 1 2 3; do wait_for /dev/nvme0n$number; done
echo "GUEST: namespaces $(nvme list-ns /dev/nvme0 | sed 's/.*://' | tr -d ' \n')"
echo "GUEST: identifiers $(cat /sys/block/nvme0n*/uuid | sort -u | wc -l)"
for number in 1 2 3; do
    echo "GUEST: namespace $number has $(cat /sys/block/nvme0n$number/size) sectors"
    dd if=/dev/urandom of=/tmp/random$number bs=64k count=16 2>/dev/null
    /sbin/dd if=/tmp/random$number of=/dev/nvme0n$number bs=64k oflag=direct 2>/dev/null
done
same() {
    /sbin/dd if=/dev/nvme0n$1 of=/tmp/back bs=64k count=16 iflag=direct 2>/dev/null
    cmp /tmp/back /tmp/random$1
    echo "GUEST: namespace $1 kept what it had"
}
for number in 1 2 3; do same $number; done
use /dev/nvme0n2
same 1
same 3
use /dev/nvme0n1
same 3
dd if=/dev/nvme0n2 bs=1M count=1 2>/dev/null | cmp -n 1048576 - /dev/zero
echo "GUEST: namespace 2 stays discarded"
nvme read /dev/nvme0n3 -s $(cat /sys/block/nvme0n3/size) -c 7 -z 4096 -d /tmp/back ||
    echo "GUEST: nothing is read beyond the end"
disconnect $nqn
