"""What guests do with the drive: connect, make a filesystem, write, read back in another mount, compare, let go."""

from __future__ import annotations

from .machine import HOST

_WAIT = """
wait_for() {
    for turn in $(seq 100); do
        [ -e "$1" ] && return 0
        sleep 0.1
    done
    echo "GUEST: $1 does not appear"
    dmesg | tail -20
    return 1
}
"""

_FILESYSTEM = """
use() {
    mke2fs -b 4096 $1 >/dev/null
    mount -t ext4 $1 /mnt
    dd if=/dev/urandom of=/mnt/file bs=64k count=128 conv=fsync 2>/dev/null
    for number in $(seq 50); do echo "small $number" >/mnt/small$number; done
    sha256sum /mnt/file /mnt/small* >/tmp_sums
    umount /mnt
    echo 3 >/proc/sys/vm/drop_caches
    mount -t ext4 $1 /mnt
    sha256sum -c /tmp_sums >/dev/null
    umount /mnt
    echo "GUEST: compared $(wc -l </tmp_sums) files on $1"
    blkdiscard $1
    dd if=$1 bs=1M count=4 2>/dev/null | cmp -n 4194304 - /dev/zero
    echo "GUEST: discarded $1"
}
"""

_NETWORK = """
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
"""


_DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
_HOST_ID = "00000000-0000-4000-8000-000000000001"


def nvme_tcp(port: int, nqn: str, options: str = "") -> str:
    """Connects by NVMe over TCP: to the discovery service, then twice to the drive: plainly, and with `options` such as
    digests."""
    place = f"transport=tcp,traddr={HOST},trsvcid={port}"
    host = f"hostnqn=nqn.2014-08.org.nvmexpress:uuid:{_HOST_ID},hostid={_HOST_ID}"
    discovery = f"""
echo "{place},nqn={_DISCOVERY},{host}" >/dev/nvme-fabrics
echo "GUEST: a $(cat /sys/class/nvme/nvme0/cntrltype) controller is $(cat /sys/class/nvme/nvme0/state)"
echo 1 >/sys/class/nvme/nvme0/delete_controller
"""
    address = f"{place},nqn={nqn},{host}"
    connect = "\n".join(
        f"""
echo "{address}{extra}" >/dev/nvme-fabrics
wait_for /dev/nvme0n1
cat /sys/class/nvme/nvme0/model /sys/class/nvme/nvme0/queue_count
use /dev/nvme0n1
echo 1 >/sys/class/nvme/nvme0/delete_controller
"""
        for extra in ("", options)
    )
    return f"{_WAIT}{_FILESYSTEM}{_NETWORK}wait_for /dev/nvme-fabrics\n{discovery}{connect}"


def nvme_pci() -> str:
    """Uses a PCI drive that the machine emulates over NBD."""
    return f"{_WAIT}{_FILESYSTEM}wait_for /dev/nvme0n1\nuse /dev/nvme0n1\n"


def nbd_drive(socket: str) -> list[str]:
    """Arguments of the machine: an NVMe drive on PCI whose blocks are an NBD server's."""
    drive = f"file=nbd:unix:{socket},format=raw,if=none,id=drive,cache=none,discard=unmap"
    return ["-drive", drive, "-device", "nvme,drive=drive,serial=ioassay"]
