"""What guests do with the drive: connect, make a filesystem, write, read back in another mount, compare, let go.

Lines that begin with GUEST are for the tests. A command that fails ends the script.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from ioassay.targets.nvme_host import Subsystem

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


def nvme_tcp_namespaces(told: dict[str, Any]) -> str:
    """The three namespaces of a drive: what nvme-cli and Linux make of them, a filesystem on each of two while the
    others keep what they have, and what lies beyond their ends.
    """
    return f"""{_WAIT}{_USE}{_NETWORK}
{_connect(told, "--nr-io-queues=2 --data-digest")}
for number in 1 2 3; do wait_for /dev/nvme0n$number; done
echo "GUEST: namespaces $(nvme list-ns /dev/nvme0 | sed 's/.*://' | tr -d ' \\n')"
echo "GUEST: identifiers $(cat /sys/block/nvme0n*/uuid | sort -u | wc -l)"
for number in 1 2 3; do
    echo "GUEST: namespace $number has $(cat /sys/block/nvme0n$number/size) sectors"
    dd if=/dev/urandom of=/tmp/random$number bs=64k count=16 2>/dev/null
    /sbin/dd if=/tmp/random$number of=/dev/nvme0n$number bs=64k oflag=direct 2>/dev/null
done
same() {{
    /sbin/dd if=/dev/nvme0n$1 of=/tmp/back bs=64k count=16 iflag=direct 2>/dev/null
    cmp /tmp/back /tmp/random$1
    echo "GUEST: namespace $1 kept what it had"
}}
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
{_disconnect(told)}
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


def nvme_tcp_authenticated(told: dict[str, Any], secret: str, controller: str, wrong: str) -> str:
    """Connects with no secret, with wrong ones and with the right ones, and uses the drive with these."""
    queues, of_host, of_controller = "--nr-io-queues=2", "--dhchap-secret", "--dhchap-ctrl-secret"

    def refused(options: str, what: str) -> str:
        return f'{_connect(told, options).strip()} || echo "GUEST: refused with {what}"\n'

    def used(options: str, what: str) -> str:
        return f"""{_connect(told, options)}find_drive
use $drive
zero $drive
echo "GUEST: used with {what}"
{_disconnect(told)}"""

    return f"""{_WAIT}{_USE}{_NETWORK}
find_drive() {{ # numbers of hosts that were refused may be taken still
    for turn in $(seq 600); do
        for drive in /dev/nvme[0-9]*n1; do
            [ -e $drive ] && return 0
        done
        sleep 0.1
    done
    return 1
}}
{refused(queues, "no secret")}{refused(f"{of_host}={wrong}", "a wrong secret")}
{refused(f"{of_host}={secret} {of_controller}={wrong}", "another controller")}
{used(f"{queues} {of_host}={secret}", "a secret")}
{used(f"{queues} {of_host}={secret} {of_controller}={controller}", "both secrets")}
dmesg | sed -n 's/.*\\(qid [0-9]*: .*authenticated\\)/GUEST: \\1/p'
"""


ENGINES = {
    "psync": "--ioengine=psync",
    "libaio": "--ioengine=libaio --iodepth=4",
    "io_uring": "--ioengine=io_uring --iodepth=4",
    "io_uring fixed": "--ioengine=io_uring --iodepth=4 --fixedbufs=1 --registerfiles=1",
    "io_uring SQPOLL": "--ioengine=io_uring --iodepth=4 --sqthread_poll=1",
    "io_uring polled": "--ioengine=io_uring --iodepth=4 --hipri=1",
}
"""fio's engines of the kernel, as the study access-paths has them, on a block device."""


def engines(text: str, subsystem: Subsystem) -> str:
    """The kernel is connected by `text`, which `nvme_host` writes, and fio reads through each of its engines.

    It tells what `nvme_host` looks for in /sys, and disconnects as that does.
    """
    load = "--name=j --thread --direct=1 --rw=randread --bs=4k --size=8m --io_size=256k --output=/tmp/said"
    reads = "".join(
        f'fio {load} --filename=/dev/nvme0n1 {options} 2>/tmp/why && echo "GUEST: read by {name}" || cat /tmp/why\n'
        for name, options in ENGINES.items()
    )
    return f"""{_WAIT}{_NETWORK}
for turn in 1 2 3; do # Linux gives up when two SYN packets have no answer in 3 s, which a busy host may take
    echo '{text}' >/dev/nvme-fabrics && break
done
wait_for /dev/nvme0n1
wait_for /dev/ng0n1
for file in subsysnqn transport address; do
    echo "GUEST: $file $(cat /sys/class/nvme/nvme0/$file)"
done
for file in subsysnqn serial; do
    echo "GUEST: of the disk $file $(cat /sys/block/nvme0n1/device/$file)"
done
echo "GUEST: bytes $(($(cat /sys/block/nvme0n1/size) * 512)), wanted {subsystem.size_bytes}"
echo "GUEST: queues $(cat /sys/class/nvme/nvme0/queue_count)"
{reads}
fio {load} --filename=/dev/ng0n1 --ioengine=io_uring_cmd --cmd_type=nvme --iodepth=4 --direct=0 2>/tmp/why &&
    echo "GUEST: read by io_uring passthrough" || cat /tmp/why /tmp/said
echo 1 >/sys/class/nvme/nvme0/delete_controller
for turn in $(seq 600); do
    [ -e /sys/class/nvme/nvme0 ] || break
    sleep 0.1
done
[ -e /sys/class/nvme/nvme0 ] || echo "GUEST: disconnected"
"""


def nvme_tcp_told(told: dict[str, Any]) -> str:
    """Carries out each line that its console reads, until `enough`, and tells its number and whether it went well."""
    return f"""{_WAIT}{_NETWORK}
{_connect(told, "--nr-io-queues=2 --reconnect-delay=1 --ctrl-loss-tmo=600")}
wait_for /dev/nvme0n1
drive=/dev/nvme0n1
dd if=/dev/urandom of=/tmp/random bs=64k count=16 2>/dev/null
write() {{ # page, number of pages
    /sbin/dd if=/tmp/random of=$drive bs=4k seek=$1 count=$2 oflag=direct 2>/tmp/why
}}
read_back() {{
    /sbin/dd if=$drive of=/tmp/back bs=4k skip=$1 count=$2 iflag=direct 2>/tmp/why
}}
same() {{
    read_back $1 $2 && dd if=/tmp/random bs=4k count=$2 2>/dev/null | cmp - /tmp/back
}}
time_out_after() {{ # milliseconds; of a path to the drive, where it may have several
    for timeout in /sys/block/nvme0*/queue/io_timeout; do
        echo $1 >$timeout || return 1
    done
}}
kernel_says() {{
    for turn in $(seq 50); do
        dmesg | grep -q "$1" && return 0
        sleep 0.1
    done
    dmesg | tail -20
    return 1
}}
number=0
echo "GUEST: listens"
while read -r line && [ "$line" != enough ]; do
    number=$((number + 1))
    if eval "$line"; then echo "GUEST: $number went well"; else echo "GUEST: $number failed $(cat /tmp/why)"; fi
done
{_disconnect(told)}
"""


ZONED_PROGRAMS = (*PROGRAMS, "blkzone", "fio")
"""And of the host, for zoned drives: util-linux's blkzone, and fio."""


def zonefs_super_block() -> bytes:
    """The head of a zonefs super block (Linux, fs/zonefs/zonefs.h), as mkzonefs writes it. Debian 12 has no mkzonefs.

    What follows up to 4096 bytes is zero.
    """
    magic, label, identifier = 0x5A4F4653, b"ioassay", bytes(range(16))
    fields = struct.pack("<64s16sQIII", label, identifier, 0, 0, 0, 0)
    whole = struct.pack("<II", magic, 0) + fields
    checksum = ~zlib.crc32(whole.ljust(4096, b"\0")) & 0xFFFFFFFF  # the kernel's crc32 leaves out the last inversion
    return struct.pack("<II", magic, checksum) + fields


def nvme_zoned(told: dict[str, Any]) -> str:
    """Uses a zoned drive: what Linux says of it, blkzone, nvme-cli's commands of zones, zonefs, and fio's zone mode."""
    super_block = base64.b64encode(zonefs_super_block()).decode()
    return f"""{_WAIT}{_NETWORK}
{_connect(told, "--nr-io-queues=2")}
wait_for /dev/nvme0n1
drive=/dev/nvme0n1
for name in zoned nr_zones chunk_sectors zone_append_max_bytes; do
    echo "GUEST: $name $(cat /sys/block/nvme0n1/queue/$name)"
done
for name in max_open_zones max_active_zones; do # Linux 6.1 says it of the path alone
    echo "GUEST: $name $(cat /sys/block/nvme0c0n1/queue/$name)"
done
zone() {{ # its line in the report of zones, by its number
    blkzone report -o $(($1 * 2048)) -c 1 $drive | sed 's/, reset.*(/ (/; s/^ *//'
}}
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

nvme zns id-ns $drive | sed -n 's/^\\(mar\\|mor\\|ozcs\\) *: */GUEST: \\1 /p'
nvme zns id-ctrl /dev/nvme0 | sed -n 's/^zasl *: */GUEST: zasl /p'
nvme zns zone-append $drive -s 2048 -z 4096 -d /tmp/random
nvme zns zone-append $drive -s 2048 -z 4096 -d /tmp/random | sed 's/^/GUEST: /'
nvme zns report-zones $drive -d 2 | sed -n 's/^SLBA: 0x800 */GUEST: reported /p'
nvme zns finish-zone $drive -s 2048 >/dev/null
nvme zns reset-zone $drive -s 4096 >/dev/null
nvme zns zone-append $drive -s 2048 -z 4096 -d /tmp/random 2>&1 | sed 's/^/GUEST: /'
nvme zns reset-zone $drive -a >/dev/null
nvme zns changed-zone-list /dev/nvme0 -n 1 | sed 's/^/GUEST: /'

echo {super_block} | base64 -d >/tmp/super
dd if=/tmp/super of=/tmp/block bs=4096 conv=sync 2>/dev/null
/sbin/dd if=/tmp/block of=$drive bs=4096 oflag=direct 2>/dev/null
blkzone finish -o 0 -c 1 $drive
mount -t zonefs $drive /mnt
echo "GUEST: files of zones $(ls /mnt/seq | wc -l)"
append() {{ # asynchronous: synchronous direct writes to zonefs fail on any drive with Linux 6.1.192
    fio --name=append --filename=/mnt/seq/3 --ioengine=libaio --direct=1 --rw=write --bs=64k --file_append=1 \\
        --create_on_open=0 --fallocate=none --unlink=0 --verify=crc32c "$@" >/tmp/why 2>&1
}}
append --size=768k || {{ cat /tmp/why; dmesg | tail -5; }}
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

zbd() {{
    fio --filename=$drive --zonemode=zbd --direct=1 --group_reporting --output-format=terse "$@" >/tmp/fio 2>&1 ||
        {{ echo "GUEST: fio failed"; cat /tmp/fio; }}
}}
zbd --name=ordered --ioengine=psync --rw=write --bs=64k --size=8z --verify=crc32c --do_verify=1
echo "GUEST: fio verified"
echo mq-deadline >/sys/block/nvme0c0n1/queue/scheduler # one write to a zone at a time
zbd --name=random --ioengine=libaio --iodepth=4 --rw=randwrite --bs=32k --size=16z --io_size=24m --max_open_zones=4
zbd --name=mixed --ioengine=psync --numjobs=2 --rw=randrw --bs=16k --size=8z --io_size=4m --max_open_zones=4
echo "GUEST: fio wrote"
dmesg | grep -i 'nvme.*\\(error\\|timeout\\|invalid\\)' | grep -v timeout.set | tail -5 || true
{_disconnect(told)}
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
