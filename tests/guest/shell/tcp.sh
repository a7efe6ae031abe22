# Drives by NVMe over TCP, of blocks of 512 bytes and of 4096: discovery, digests, several queues, what nvme-cli asks of
# a drive, an idle host that only keeps its connection alive, a drive that wears out, and a host that may not use one.
# Needs: {small,large,brief}_{port,nqn}
for port in $small_port $large_port; do
    of_nvme discover $place $port | sed -n 's/^subnqn: */GUEST: discovered /p'
done
connect $large_port $large_nqn --keep-alive-tmo=10
wait_for /dev/nvme0n1
idle_from=$(cut -d. -f1 /proc/uptime)
connect $small_port $small_nqn --nr-io-queues=2 --hdr-digest --data-digest
wait_for /dev/nvme1n1
echo "GUEST: queues $(cat /sys/class/nvme/nvme1/queue_count)"

dd if=/dev/urandom of=/tmp/block bs=4k count=2 2>/dev/null
dd if=/tmp/block of=/tmp/other bs=4k skip=1 2>/dev/null
blocks="-s 0 -c 7 -z 4096"
nvme write /dev/nvme1n1 $blocks -d /tmp/block --force-unit-access
nvme read /dev/nvme1n1 $blocks -d /tmp/back
cmp -n 4096 /tmp/block /tmp/back
nvme compare /dev/nvme1n1 $blocks -d /tmp/block
nvme compare /dev/nvme1n1 $blocks -d /tmp/other || echo "GUEST: it compares"
nvme verify /dev/nvme1n1 -s 0 -c 7
nvme copy /dev/nvme1n1 --sdlba=64 --slbs=4,0 --blocks=3,3
nvme read /dev/nvme1n1 -s 64 -c 7 -z 4096 -d /tmp/back
{ dd if=/tmp/block bs=2k skip=1 count=1; dd if=/tmp/block bs=2k count=1; } 2>/dev/null | cmp -n 4096 - /tmp/back &&
    echo "GUEST: it copies"
nvme flush /dev/nvme1n1
nvme write-zeroes /dev/nvme1n1 -s 0 -c 3
nvme dsm /dev/nvme1n1 -n 1 -d -s 4 -b 4
nvme read /dev/nvme1n1 $blocks -d /tmp/back
cmp -n 4096 /dev/zero /tmp/back
nvme read /dev/nvme1n1 -s 99999999 -c 7 -z 4096 -d /tmp/back || echo "GUEST: it refuses"
nvme smart-log /dev/nvme1 | sed -n 's/^\(host_write_commands\|num_err_log_entries\)[^0-9]*/GUEST: \1 /p'
nvme error-log /dev/nvme1 -e 1 | sed -n 's/^status_field.*(\(.*\):.*/GUEST: logged \1/p'
nvme fw-log /dev/nvme1 | sed -n 's/^frs1.*(/GUEST: firmware (/p'
nvme get-feature /dev/nvme1 -f 0x0b | sed -n 's/.*value:/GUEST: tells events /p'
nvme format /dev/nvme1n1 --lbaf=0 --force 2>&1 | sed -n 's/.*status: \([^(]*\)(.*/GUEST: format: \1/p'
nvme set-feature /dev/nvme1 -f 6 -v 0 >/dev/null
nvme get-feature /dev/nvme1 -f 6 | sed -n 's/.*value:/GUEST: write cache /p'
nvme write /dev/nvme1n1 $blocks -d /tmp/other
nvme compare /dev/nvme1n1 $blocks -d /tmp/other
nvme set-feature /dev/nvme1 -f 6 -v 1 >/dev/null
nvme reset /dev/nvme1

of_queue nvme1n1
use /dev/nvme1n1
zero /dev/nvme1n1
disconnect $small_nqn
connect $small_port $small_nqn --nr-io-queues=1 --nr-write-queues=1 --nr-poll-queues=1
wait_for /dev/nvme1n1
echo "GUEST: queues to write, read and poll $(cat /sys/class/nvme/nvme1/queue_count)"
zero /dev/nvme1n1
idle_s=$(($(cut -d. -f1 /proc/uptime) - idle_from))
[ $idle_s -gt 13 ] || sleep $((13 - idle_s))
dmesg | grep 'nvme.*\(keep-alive\|error\|econnect\|timeout\)' | grep -v 'timeout set' >/tmp/trouble || true
cat /tmp/trouble
echo "GUEST: interrupted $(wc -l </tmp/trouble)"
of_queue nvme0n1
use /dev/nvme0n1
zero /dev/nvme0n1
disconnect $small_nqn
disconnect $large_nqn

of_nvme connect-all $place $brief_port >/dev/null
sed 's/^/GUEST: connected to all: /' /sys/class/nvme/nvme*/subsysnqn
disconnect $brief_nqn
connect $brief_port $brief_nqn
wait_for /dev/nvme0n1

dd if=/dev/urandom of=/tmp/random bs=1M count=4 2>/dev/null
echo "GUEST: ro $(cat /sys/block/nvme0n1/ro)"
for turn in $(seq 100); do
    [ "$(cat /sys/block/nvme0n1/ro)" = 0 ] || break
    /sbin/dd if=/tmp/random of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null || true
done
for turn in $(seq 1000); do # the notice comes a moment after the refusal
    [ "$(cat /sys/block/nvme0n1/ro)" = 0 ] || break
    sleep 0.1
done
echo "GUEST: ro $(cat /sys/block/nvme0n1/ro)"
/sbin/dd if=/dev/nvme0n1 of=/tmp/back bs=64k iflag=direct 2>/dev/null
disconnect $brief_nqn

echo "GUEST: another host discovers $(nvme discover $place $small_port --hostnqn=${host_name%1}2 | grep -c ^subnqn)"
connect $small_port $small_nqn --hostnqn=${host_name%1}2 || echo "GUEST: another host is refused"
dmesg | sed -n 's/.*Connect for subsystem .* is not allowed.*/GUEST: Linux says that it is not allowed/p'
