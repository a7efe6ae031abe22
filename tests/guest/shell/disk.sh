# What the scripts of all guests call. Lines that begin with GUEST are for the tests; a command that fails ends a script.
wait_for() {
    for turn in $(seq 2400); do
        [ -e "$1" ] && return 0
        sleep 0.1
    done
    echo "GUEST: $1 does not appear"
    dmesg | tail -20
    return 1
}
use() {
    mke2fs -b 4096 $1 >/dev/null
    mount -t ext4 $1 /mnt
    dd if=/dev/urandom of=/mnt/file bs=64k count=96 conv=fsync 2>/dev/null
    for number in $(seq 50); do echo "small $number" >/mnt/small$number; done
    sha256sum /mnt/file /mnt/small* >/tmp/sums
    umount /mnt
    echo 3 >/proc/sys/vm/drop_caches
    mount -t ext4 $1 /mnt
    sha256sum -c /tmp/sums >/dev/null
    umount /mnt
    echo "GUEST: compared $(wc -l </tmp/sums) files on $1"
    blkdiscard $1
    dd if=$1 bs=1M count=4 2>/dev/null | cmp -n 4194304 - /dev/zero
    echo "GUEST: discarded $1"
}
zero() { # 1 MiB of random blocks, but for the first and the last 4 KiB of them
    dd if=/dev/urandom of=/tmp/random bs=64k count=16 2>/dev/null
    /sbin/dd if=/tmp/random of=$1 bs=64k oflag=direct 2>/dev/null
    /sbin/blkdiscard -z -o 4096 -l 1040384 $1
    /sbin/dd if=$1 of=/tmp/zeroed bs=64k count=16 iflag=direct 2>/dev/null
    cmp -n 4096 /tmp/zeroed /tmp/random
    dd if=/tmp/zeroed bs=4k skip=1 count=254 2>/dev/null | cmp -n 1040384 - /dev/zero
    dd if=/tmp/zeroed bs=4k skip=255 2>/dev/null >/tmp/rest
    dd if=/tmp/random bs=4k skip=255 2>/dev/null | cmp - /tmp/rest
    echo "GUEST: zeroed $1"
}
of_queue() {
    for name in logical_block_size physical_block_size write_cache fua; do
        echo "GUEST: $1 $name $(cat /sys/block/$1/queue/$name)"
    done
}
