"""What guests do with the drive: connect, make a filesystem, write, read back in another mount, compare, let go.

Lines that begin with GUEST are for the tests. A command that fails ends the script.
"""

from __future__ import annotations

from typing import Any

from .machine import HOST

PROGRAMS = ("nvme", "dd", "blkdiscard")
"""Of the host: nvme-cli, coreutils and util-linux, for what busybox cannot do."""

_WAIT = """
wait_for() {
    for turn in $(seq 600); do
        [ -e "$1" ] && return 0
        sleep 0.1
    done
    echo "GUEST: $1 does not appear"
    dmesg | tail -20
    return 1
}
"""

_USE = """
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
"""

HOST_NAME = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001"
"""Of the guest, as a host of NVMe over fabrics."""
_NETWORK = f"""
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
for turn in $(seq 60); do
    ping -c 1 -W 1 {HOST} >/dev/null 2>&1 && break
    sleep 0.5
done
connect() {{ # Linux gives up when two SYN packets have no answer in 3 s, which a busy host may take
    of_nvme connect "$@"
}}
of_nvme() {{
    for turn in 1 2 3; do
        nvme "$@" 2>/tmp/why && return
        grep -q "timed out" /tmp/why || break
    done
    cat /tmp/why
    return 1
}}
mkdir -p /etc/nvme
echo {HOST_NAME} >/etc/nvme/hostnqn
echo 00000000-0000-4000-8000-000000000001 >/etc/nvme/hostid
wait_for /dev/nvme-fabrics
"""

_PLACE = f"-t tcp -a {HOST} -s"


def _connect(told: dict[str, Any], options: str = "") -> str:
    port = told["nvme_tcp"].rpartition(":")[2]
    return f"connect {_PLACE} {port} -n {told['nqn']} {options}\n"


def _disconnect(told: dict[str, Any]) -> str:
    return f"nvme disconnect -n {told['nqn']} >/dev/null\n"


def nvme_tcp(small: dict[str, Any], large: dict[str, Any], brief: dict[str, Any]) -> str:
    """Drives by NVMe over TCP, of blocks of 512 bytes and of 4096: discovery, digests, several queues, what nvme-cli
    asks of a drive, an idle host that only keeps its connection alive, a drive that wears out, and a host that may not
    use the small one.

    They are what the drives said of themselves.
    """
    another = f"--hostnqn={HOST_NAME[:-1]}2"
    port = small["nvme_tcp"].rpartition(":")[2]
    return f"""{_WAIT}{_USE}{_NETWORK}
for port in {port} {large["nvme_tcp"].rpartition(":")[2]}; do
    nvme discover {_PLACE} $port | sed -n 's/^subnqn: */GUEST: discovered /p'
done
{_connect(large, "--keep-alive-tmo=5")}
wait_for /dev/nvme0n1
idle_from=$(cut -d. -f1 /proc/uptime)
{_connect(small, "--nr-io-queues=2 --hdr-digest --data-digest")}
wait_for /dev/nvme1n1
echo "GUEST: queues $(cat /sys/class/nvme/nvme1/queue_count)"
{_ASKING}
of_queue nvme1n1
use /dev/nvme1n1
zero /dev/nvme1n1
{_disconnect(small)}{_connect(small, "--nr-io-queues=1 --nr-write-queues=1 --nr-poll-queues=1")}
wait_for /dev/nvme1n1
echo "GUEST: queues to write, read and poll $(cat /sys/class/nvme/nvme1/queue_count)"
zero /dev/nvme1n1
idle_s=$(($(cut -d. -f1 /proc/uptime) - idle_from))
[ $idle_s -gt 8 ] || sleep $((8 - idle_s))
dmesg | grep 'nvme.*\\(keep-alive\\|error\\|econnect\\|timeout\\)' | grep -v 'timeout set' >/tmp/trouble || true
cat /tmp/trouble
echo "GUEST: interrupted $(wc -l </tmp/trouble)"
of_queue nvme0n1
use /dev/nvme0n1
zero /dev/nvme0n1
{_disconnect(small)}{_disconnect(large)}
of_nvme connect-all {_PLACE} {brief["nvme_tcp"].rpartition(":")[2]} >/dev/null
sed 's/^/GUEST: connected to all: /' /sys/class/nvme/nvme*/subsysnqn
{_disconnect(brief)}{_connect(brief)}
wait_for /dev/nvme0n1
{_WEARING}{_disconnect(brief)}
echo "GUEST: another host discovers $(nvme discover {_PLACE} {port} {another} | grep -c ^subnqn)"
{_connect(small, another).strip()} || echo "GUEST: another host is refused"
dmesg | sed -n 's/.*Connect for subsystem .* is not allowed.*/GUEST: Linux says that it is not allowed/p'
"""


_WEARING = """
dd if=/dev/urandom of=/tmp/random bs=1M count=4 2>/dev/null
echo "GUEST: ro $(cat /sys/block/nvme0n1/ro)"
for turn in $(seq 100); do
    [ "$(cat /sys/block/nvme0n1/ro)" = 0 ] || break
    /sbin/dd if=/tmp/random of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null || true
done
for turn in $(seq 100); do # the notice comes a moment after the refusal
    [ "$(cat /sys/block/nvme0n1/ro)" = 0 ] || break
    sleep 0.1
done
echo "GUEST: ro $(cat /sys/block/nvme0n1/ro)"
/sbin/dd if=/dev/nvme0n1 of=/tmp/back bs=64k iflag=direct 2>/dev/null
"""

_ASKING = """
dd if=/dev/urandom of=/tmp/block bs=4k count=2 2>/dev/null
dd if=/tmp/block of=/tmp/other bs=4k skip=1 2>/dev/null
blocks="-s 0 -c 7 -z 4096"
nvme write /dev/nvme1n1 $blocks -d /tmp/block --force-unit-access
nvme read /dev/nvme1n1 $blocks -d /tmp/back
cmp -n 4096 /tmp/block /tmp/back
nvme compare /dev/nvme1n1 $blocks -d /tmp/block
nvme compare /dev/nvme1n1 $blocks -d /tmp/other || echo "GUEST: it compares"
nvme verify /dev/nvme1n1 -s 0 -c 7
nvme flush /dev/nvme1n1
nvme write-zeroes /dev/nvme1n1 -s 0 -c 3
nvme dsm /dev/nvme1n1 -n 1 -d -s 4 -b 4
nvme read /dev/nvme1n1 $blocks -d /tmp/back
cmp -n 4096 /dev/zero /tmp/back
nvme read /dev/nvme1n1 -s 99999999 -c 7 -z 4096 -d /tmp/back || echo "GUEST: it refuses"
nvme smart-log /dev/nvme1 | sed -n 's/^\\(host_write_commands\\|num_err_log_entries\\)[^0-9]*/GUEST: \\1 /p'
nvme error-log /dev/nvme1 -e 1 | sed -n 's/^status_field.*(\\(.*\\):.*/GUEST: logged \\1/p'
nvme fw-log /dev/nvme1 | sed -n 's/^frs1.*(/GUEST: firmware (/p'
nvme get-feature /dev/nvme1 -f 0x0b | sed -n 's/.*value:/GUEST: tells events /p'
nvme format /dev/nvme1n1 --lbaf=0 --force 2>&1 | sed -n 's/.*status: \\([^(]*\\)(.*/GUEST: format: \\1/p'
nvme set-feature /dev/nvme1 -f 6 -v 0 >/dev/null
nvme get-feature /dev/nvme1 -f 6 | sed -n 's/.*value:/GUEST: write cache /p'
nvme write /dev/nvme1n1 $blocks -d /tmp/other
nvme compare /dev/nvme1n1 $blocks -d /tmp/other
nvme set-feature /dev/nvme1 -f 6 -v 1 >/dev/null
nvme reset /dev/nvme1
"""


def nvme_pci() -> str:
    """Uses PCI drives that the machine emulates over NBD."""
    return f"""{_WAIT}{_USE}
for drive in nvme0n1 nvme1n1; do
    wait_for /dev/$drive
    of_queue $drive
    use /dev/$drive
    zero /dev/$drive
done
"""


def nbd_drives(small: dict[str, Any], large: dict[str, Any]) -> list[str]:
    """Arguments of the machine: NVMe drives on PCI, of blocks of 512 and 4096 bytes, that are NBD servers' blocks."""
    arguments = ["-nic", "none"]
    for name, told, block_bytes in (("small", small, 512), ("large", large, 4096)):
        path = told["nbd"].partition("socket=")[2]
        drive = f"file=nbd:unix:{path},format=raw,if=none,id={name},cache=none,discard=unmap"
        device = f"nvme,drive={name},serial={name},logical_block_size={block_bytes},physical_block_size={block_bytes}"
        arguments += ["-drive", drive, "-device", device]
    return arguments


def nvme_tcp_interrupted(told: dict[str, Any]) -> str:
    """Writes with FUA all the time, region after region, until its console reads a line; then compares it all.

    Meanwhile the drive may fail and come back, as often as it likes. Each line that its console reads before
    `enough` is answered when writes go on.
    """
    return f"""{_WAIT}{_NETWORK}
{_connect(told, "--nr-io-queues=2 --reconnect-delay=1 --ctrl-loss-tmo=600 --keep-alive-tmo=2 --data-digest")}
wait_for /dev/nvme0n1
dd if=/dev/urandom of=/tmp/random bs=64k count=16 2>/dev/null
region() {{ # each has other content: 64 blocks, from another one of 16 places in it
    echo "bs=4k count=64 skip=$(($1 % 12 * 16))"
}}
write() {{
    number=0
    until [ -e /tmp/enough ]; do
        /sbin/dd if=/tmp/random of=/dev/nvme0n1 $(region $number) seek=$((number * 64)) oflag=direct,dsync 2>/tmp/why ||
            cat /tmp/why >>/tmp/failed
        number=$((number + 1))
        echo $number >/tmp/number.new
        mv /tmp/number.new /tmp/number
    done
}}
echo 0 >/tmp/number
write &
while echo "GUEST: listens" && read -r word && [ "$word" != enough ]; do
    from=$(cat /tmp/number)
    until [ $(cat /tmp/number) -gt $((from + 1)) ]; do sleep 0.1; done
    echo "GUEST: $word"
done
touch /tmp/enough
wait
[ ! -e /tmp/failed ] || {{ echo "GUEST: a write failed"; cat /tmp/failed; dmesg | tail -40; }}
echo 3 >/proc/sys/vm/drop_caches
for number in $(seq 0 $(($(cat /tmp/number) - 1))); do
    /sbin/dd if=/dev/nvme0n1 bs=4k count=64 skip=$((number * 64)) iflag=direct of=/tmp/back 2>/dev/null
    /sbin/dd if=/tmp/random $(region $number) 2>/dev/null | cmp - /tmp/back || echo "GUEST: region $number differs"
done
echo "GUEST: compared $(cat /tmp/number) regions"
echo "GUEST: came back $(dmesg | grep -c 'nvme nvme0: Successfully reconnected') times"
{_disconnect(told)}
"""
