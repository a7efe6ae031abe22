"""Checks of the disk under the path: its file system, its queue, its drive, and who else uses it."""

from __future__ import annotations

import re
import shlex

from ioassay import units
from ioassay.host.doctor.fact_lookup import Facts, Said, devices, drives, fact, mount_point, names, on_each, option

LEAST_FREE_BYTES = 2 << 30
LEAST_FREE_SHARE = 0.10
"""Drives and file systems slow down when they are nearly full: both look for free places."""

_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_NETWORK = (
    "nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "fuse.ceph", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs",
    "glusterfs", "lustre", "afs", "gfs2", "ocfs2", "beegfs",
)  # fmt: skip
_LAYERS = {"crypt": "encryption", "lvm": "LVM", "loop": "a loop device", "zram": "memory (zram)", "ram": "memory",
           "nbd": "the network (nbd)", "mpath": "multipath"}  # fmt: skip
_READ_AHEAD_KB = range(1, 1025)
_OTHERS_REQUESTS_PER_S = 20
_HOT_NVME_C, _HOT_C = 70, 55
_WORKING = ("resync", "recover", "check", "repair", "reshape")


def low_free_space(facts: Facts) -> Said:
    """A test file has to fit, with a margin."""
    free = fact(facts, "disk", "free_bytes")
    if free is None or free >= LEAST_FREE_BYTES or memory_filesystem(facts):
        return None
    return (
        f"only {units.format_size(free)} are free on {mount_point(facts)}",
        "free some space, or make the test file smaller: ioassay run STUDY --set target.size=256MiB",
    )


def nearly_full(facts: Facts) -> Said:
    """Nearly full is slower than half empty."""
    free, size = fact(facts, "disk", "free_bytes"), fact(facts, "disk", "size_bytes")
    if free is None or not size or free >= LEAST_FREE_SHARE * size or not devices(facts):
        return None
    return (
        f"{mount_point(facts)} is nearly full ({free / size:.1%} free); drives and file systems are slower then",
        f"free some space, then tell the drive: sudo fstrim --verbose {mount_point(facts)}",
    )


def memory_filesystem(facts: Facts) -> Said:
    """tmpfs is memory, not a disk."""
    kind = fact(facts, "disk", "mount", "filesystem")
    if kind not in _MEMORY:
        return None
    return f"{mount_point(facts)} is {kind}: memory, not a disk", "name a path on a disk; they are: findmnt --real"


def overlay_filesystem(facts: Facts) -> Said:
    """A container's own file system copies a file when it is first written."""
    if fact(facts, "disk", "mount", "filesystem") not in ("overlay", "aufs"):
        return None
    return (
        f"{mount_point(facts)} is a container's layered file system, which copies files at their first write",
        "give the container a volume and name that: docker run --volume /data:/data …",
    )


def network_filesystem(facts: Facts) -> Said:
    """The network and a server's cache are measured too."""
    kind = fact(facts, "disk", "mount", "filesystem")
    if kind not in _NETWORK:
        return None
    source = fact(facts, "disk", "mount", "source")
    return (
        f"{mount_point(facts)} is {kind} from {source}: the network and the server's cache are measured too",
        "name a path on a local disk; they are: findmnt --real",
    )


def compressing_filesystem(facts: Facts) -> Said:
    """Compressible data would look faster than it is."""
    kind = fact(facts, "disk", "mount", "filesystem")
    given = [name for name in fact(facts, "disk", "mount", "options") or () if name.startswith("compress")]
    if kind != "zfs" and not (given and kind in ("btrfs", "f2fs", "bcachefs")):
        return None
    remedy = (
        "zfs set compression=off DATASET"
        if kind == "zfs"
        else f"chattr +m {shlex.quote(str(fact(facts, 'disk', 'path')))}"
    )
    return f"{mount_point(facts)} ({kind}) may compress what is written{f' ({given[0]})' if given else ''}", remedy


def access_times(facts: Facts) -> Said:
    """Every read writes, unless the access time is left alone or only rarely updated (mount(8))."""
    if fact(facts, "disk", "mount") is None or not devices(facts) or option(facts, "noatime", "relatime", "ro"):
        return None
    return (
        f"{mount_point(facts)} is mounted strictatime: every read also writes the time of access",
        f"sudo mount -o remount,relatime {mount_point(facts)}",
    )


def discard_on_delete(facts: Facts) -> Said:
    """Deleting a test file then sends discards in the middle of the next trial."""
    if option(facts, "discard", "discard=sync") is None:
        return None
    point = mount_point(facts)
    return (
        f"{point} is mounted with 'discard': deleting a file keeps the drive busy afterwards",
        f"sudo mount -o remount,nodiscard {point} (and fstrim.timer instead)",
    )


def write_back_cache(facts: Facts) -> Said:
    """Writes are acknowledged from a cache that a power cut empties."""
    found = [drive for drive in drives(facts) if fact(drive, "queue", "write_cache") == "write back"]
    if not found:
        return None
    return (
        f"{names(found)} has a write-back cache: short bursts of writes are answered from it, before they are durable",
        "to measure durable writes: ioassay run STUDY --set params.fsync=1",
    )


def scheduler(facts: Facts) -> Said:
    """A scheduler that costs more than it gives (block/…-iosched in the kernel's documentation)."""
    found = [(drive, better) for drive in drives(facts) if (better := _better_scheduler(drive))]
    if not found:
        return None
    seen = ", ".join(
        f"{drive['name']} uses {fact(drive, 'queue', 'scheduler')}, expected {name}" for drive, name in found
    )
    remedy = "; ".join(f"echo {name} | sudo tee /sys/block/{drive['name']}/queue/scheduler" for drive, name in found)
    return f"the I/O scheduler does not fit the drive: {seen}", remedy


def _better_scheduler(drive: Facts) -> str | None:
    name, used = str(drive.get("name")), fact(drive, "queue", "scheduler")
    offered = fact(drive, "queue", "schedulers") or ()
    rotational = fact(drive, "queue", "rotational")
    if name.startswith("nvme"):
        better = "none" if used not in ("none", "kyber") else None
    elif rotational is False:
        better = "none" if used == "bfq" else None
    else:  # a virtual disk calls itself rotational whatever it is
        better = "mq-deadline" if rotational and used == "none" and not name.startswith(("vd", "xvd")) else None
    return better if better in offered else None


def read_ahead(facts: Facts) -> Said:
    """Read-ahead decides what buffered sequential reads come to; it does nothing with direct=1."""
    found = [
        drive for drive in drives(facts)
        if (kb := fact(drive, "queue", "read_ahead_kb")) is not None and kb not in _READ_AHEAD_KB
    ]  # fmt: skip
    if not found:
        return None
    seen = ", ".join(f"{fact(drive, 'queue', 'read_ahead_kb')} KiB on {drive['name']}" for drive in found)
    return (
        f"read-ahead is {seen}; usual is 128 KiB. It changes buffered sequential reads, not direct ones",
        on_each("echo 128 | sudo tee /sys/block/{}/queue/read_ahead_kb", found),
    )


def disk_in_use(facts: Facts) -> Said:
    """Somebody else's requests to the same disk, while this program only looked."""
    seconds = fact(facts, "activity", "observed_s")
    requests = fact(facts, "activity", "disk_requests") or {}
    rates = {name: count / seconds for name, count in requests.items() if seconds}
    busy = [f"{name} ({rate:.0f}/s)" for name, rate in rates.items() if rate >= _OTHERS_REQUESTS_PER_S]
    if not busy:
        return None
    return f"others are using the disk: requests to {', '.join(busy)}", "sudo iotop --only (apt-get install iotop)"


def raid_working(facts: Facts) -> Said:
    """An array that checks or rebuilds itself shares its drives with that."""
    found = [device for device in devices(facts) if device.get("sync_action") in _WORKING]
    if not found:
        return None
    seen = ", ".join(f"{device['name']} ({device['sync_action']})" for device in found)
    return f"an array is working on itself: {seen}", on_each("echo idle | sudo tee /sys/block/{}/md/sync_action", found)


def drive_failing(facts: Facts) -> Said:
    """A drive that reports trouble is slow in ways that say nothing about its kind."""
    found = [
        drive for drive in drives(facts)
        if fact(drive, "health", "passed") is False or fact(drive, "health", "critical_warning")
        or fact(drive, "health", "media_errors")
    ]  # fmt: skip
    if not found:
        return None
    return f"the drive reports trouble: {names(found)}", on_each("sudo smartctl --all /dev/{}", found)


def drive_hot(facts: Facts) -> Said:
    """Drives slow down to cool down."""
    found = [drive for drive in drives(facts) if _is_hot(drive)]
    if not found:
        return None
    seen = ", ".join(f"{drive['name']} {fact(drive, 'health', 'temperature_c')} °C" for drive in found)
    return (
        f"the drive is hot and may slow itself down: {seen}",
        "let it cool between trials: ioassay run STUDY --set run.cooldown=30s",
    )


def _is_hot(drive: Facts) -> bool:
    limit_c = _HOT_NVME_C if str(drive.get("name")).startswith("nvme") else _HOT_C
    return bool((fact(drive, "health", "temperature_c") or 0) >= limit_c)


def slow_link(facts: Facts) -> Said:
    """A drive in the wrong slot is limited by its link."""
    seen = []
    for drive in drives(facts):
        speed, most = _gigatransfers(fact(drive, "link", "speed")), _gigatransfers(fact(drive, "link", "max_speed"))
        width, widest = fact(drive, "link", "width"), fact(drive, "link", "max_width")
        if (speed and most and speed < most) or (width and widest and width < widest):
            seen.append(f"{drive['name']} runs at {speed:g} GT/s x{width}, and could at {most:g} GT/s x{widest}")
    return (f"the PCI Express link is slower than the drive: {'; '.join(seen)}", "use another slot") if seen else None


def _gigatransfers(text: object) -> float:
    found = re.match(r"\d+(\.\d+)?", str(text or ""))
    return float(found[0]) if found else 0.0


def misaligned(facts: Facts) -> Said:
    """A partition that starts inside a physical block makes every write two."""
    sizes = [fact(drive, "queue", "physical_block_size") or 0 for drive in drives(facts)]
    block_bytes = max(sizes, default=0)
    found = [
        device for device in devices(facts)
        if device.get("alignment_offset_bytes") or (block_bytes and device.get("start_bytes", 0) % block_bytes)
    ]  # fmt: skip
    if not found:
        return None
    return (
        f"{names(found)} does not start at a physical block of {block_bytes} bytes: writes become reads and writes",
        "make the partition anew, aligned: parted --align optimal",
    )


def layers(facts: Facts) -> Said:
    """What lies between the path and the drive takes part in every request."""
    found = [device for device in devices(facts) if device.get("kind") not in ("disk", "partition", None)]
    if not found:
        return None
    seen = ", ".join(
        f"{device['name']} ({_LAYERS.get(str(device.get('kind')), device.get('kind'))})" for device in found
    )
    return f"between the path and the drive lies {seen}: it is measured too", "name a path on the drive itself"
