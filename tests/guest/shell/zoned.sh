# Uses a zoned drive: what Linux says of it, blkzone, nvme-cli's commands of zones, zonefs, and fio's zone mode.
# Needs: port nqn super_block (in base64)
connect $port $nqn --nr-io-queues=2
wait_for /dev/nvme0n1
drive=/dev/nvme0n1
for name in zoned nr_zones chunk_sectors zone_append_max_bytes; do
    echo "GUEST: $name $(cat /sys/block/nvme0n1/queue/$name)"
done
for name in max_open_zones max_active_zones; do # Linux 6.1 says it of the path alone
    echo "GUEST: $name $(cat /sys/block/nvme0c0n1/queue/$name)"
done
zone() { # its line in the report of zones, by its number
    blkzone report -o $(($1 * 2048)) -c 1 $drive | sed 's/, reset.*(/ (/; s/^ *//'
}
dd if=/dev/urandom of=/tmp/random bs=64k count=12 2>/dev/null
/sbin/dd if=/tmp/random of=$drive bs=64k count=4 oflag=direct 2>/dev/null
echo "GUEST: written $(zone 0)"
/sbin/dd if=/tmp/random of=$drive bs=64k count=1 seek=8 oflag=direct 2>/dev/null || echo "GUEST: it refuses"
/sbin/dd if=$drive of=/tmp/back bs=64k count=5 iflag=direct 2>/dev/null
cmp -n 262144 /tmp/random /tmp/back
dd if=/tmp/back bs=64k skip=4 2>/dev/null | cmp -n 65536 - /dev/zero
blkzone finish -o 0 -c 1 $drive
echo "GUEST: finished $(zone 0)"
blkzone open -o 2048 -c 1 $drive
echo "GUEST: opened $(zone 1)"
blkzone close -o 2048 -c 1 $drive
echo "GUEST: closed $(zone 1)"
blkzone reset $drive
echo "GUEST: empty $(blkzone report $drive | grep -c '(em)')"

nvme zns id-ns $drive | sed -n 's/^\(mar\|mor\|ozcs\) *: */GUEST: \1 /p'
nvme zns id-ctrl /dev/nvme0 | sed -n 's/^zasl *: */GUEST: zasl /p'
nvme zns zone-append $drive -s 2048 -z 4096 -d /tmp/random
nvme zns zone-append $drive -s 2048 -z 4096 -d /tmp/random | sed 's/^/GUEST: /'
nvme zns report-zones $drive -d 2 | sed -n 's/^SLBA: 0x800 */GUEST: reported /p'
nvme zns finish-zone $drive -s 2048 >/dev/null
nvme zns reset-zone $drive -s 4096 >/dev/null
nvme zns zone-append $drive -s 2048 -z 4096 -d /tmp/random 2>&1 | sed 's/^/GUEST: /'
nvme zns reset-zone $drive -a >/dev/null
nvme zns changed-zone-list /dev/nvme0 -n 1 | sed 's/^/GUEST: /'

echo $super_block | base64 -d >/tmp/super
dd if=/tmp/super of=/tmp/block bs=4096 conv=sync 2>/dev/null
/sbin/dd if=/tmp/block of=$drive bs=4096 oflag=direct 2>/dev/null
blkzone finish -o 0 -c 1 $drive
mount -t zonefs $drive /mnt
echo "GUEST: files of zones $(ls /mnt/seq | wc -l)"
append() { # asynchronous: synchronous direct writes to zonefs fail on any drive with Linux 6.1.192
    fio --name=append --filename=/mnt/seq/3 --ioengine=libaio --direct=1 --rw=write --bs=64k --file_append=1 \
        --create_on_open=0 --fallocate=none --unlink=0 --verify=crc32c "$@" >/tmp/why 2>&1
}
append --size=768k || { cat /tmp/why; dmesg | tail -5; }
echo "GUEST: appended $(stat -c %s /mnt/seq/3)"
cat /mnt/seq/3 >/tmp/file
/sbin/dd if=$drive of=/tmp/back bs=64k skip=64 count=12 iflag=direct 2>/dev/null
cmp /tmp/file /tmp/back
append --size=64k || echo "GUEST: the zone is full"
truncate -s 0 /mnt/seq/3
echo "GUEST: truncated $(stat -c %s /mnt/seq/3)"
append --size=512k
umount /mnt
echo "GUEST: kept $(zone 4)"
blkzone reset $drive

zbd() {
    fio --filename=$drive --zonemode=zbd --direct=1 --group_reporting --output-format=terse "$@" >/tmp/fio 2>&1 ||
        { echo "GUEST: fio failed"; cat /tmp/fio; }
}
zbd --name=ordered --ioengine=psync --rw=write --bs=64k --size=8z --verify=crc32c --do_verify=1
echo "GUEST: fio verified"
echo mq-deadline >/sys/block/nvme0c0n1/queue/scheduler # one write to a zone at a time
zbd --name=random --ioengine=libaio --iodepth=4 --rw=randwrite --bs=32k --size=16z --io_size=24m --max_open_zones=4
zbd --name=mixed --ioengine=psync --numjobs=2 --rw=randrw --bs=16k --size=8z --io_size=4m --max_open_zones=4
echo "GUEST: fio wrote"
dmesg | grep -i 'nvme.*\(error\|timeout\|invalid\)' | grep -v timeout.set | tail -5 || true
disconnect $nqn
