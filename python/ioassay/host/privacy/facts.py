"""Host facts as a run stores them: what matters for performance as it is, what identifies as keyed hashes.

A plain hash of a host name or a serial number can be reversed by trying all likely ones. A keyed hash cannot, as long
as the key is unknown. The key is random, made on first use, and stays in the user's state folder. Takes facts of any
age: a run that was stored before this existed is read through the same function.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from ioassay.host.settings import restore_file

IDENTITY, HOSTS = "identity", "hosts"
_KERNEL_NAME = re.compile(r"/dev/(?!mapper/|disk/)[a-z]+[-_]?\d*[a-z]*\d*(?:p\d+)?|[a-z][a-z0-9]*")
"""Of a mount's source: a device by its kernel's name, or a file system without a device (`tmpfs`)."""
_HOME = re.compile(r"/(?:home|Users)/[^/]+|/root(?=/|$)")
_DISK_NAME = re.compile(r"(/dev/(?:disk/by-[a-z]+|mapper)/).+")
_MOUNT_FLAG = re.compile(r"[a-z][a-z0-9_-]*")
MOUNT_OPTIONS = frozenset(
    {
        "acdirmax", "acdirmin", "acregmax", "acregmin", "actimeo", "allocsize", "attr2", "barrier", "cache", "commit",
        "compress", "compress-force", "data", "discard", "errors", "fsc", "inode64", "inode_readahead_blks",
        "journal_ioprio", "lazytime", "local_lock", "logbsize", "logbufs", "lookupcache", "max_batch_time",
        "max_read", "min_batch_time", "mode", "namlen", "nconnect", "nr_inodes", "proto", "resgid", "resuid",
        "retrans", "rsize", "sec", "size", "space_cache", "stripe", "sunit", "swidth", "thread_pool", "timeo", "vers",
        "wsize",
    }
)  # fmt: skip
"""Options of mounts whose values change speed and name nobody; of all others (addr, username, lowerdir, …) the value
is hashed."""


def published(facts: Mapping[str, Any], pseudonyms: Pseudonyms | None = None) -> dict[str, Any]:
    """The facts without what identifies machine, drives and people; facts that are published already stay the same.

    `identity` says by which key the hashes were made, and has those of the machine: equal hashes of one key are equal
    machines. Each drive with a serial number has its own `identity`. The facts of each of several `hosts` are treated
    alike; their names, by which the study calls them, stay.
    """
    pseudonyms = pseudonyms or Pseudonyms.of_user()
    identity = facts.get(IDENTITY)
    is_published = isinstance(identity, Mapping) and "key" in identity
    table = dict(facts) if is_published else _Published(pseudonyms).of(facts)
    if isinstance(hosts := table.get(HOSTS), Mapping):
        table[HOSTS] = {
            name: published(own, pseudonyms) if isinstance(own, Mapping) else own for name, own in hosts.items()
        }
    return table


def shortened(path: str) -> str:
    """A path with `~` for the home folder, whoever's it is."""
    return _HOME.sub("~", path, count=1) if path.startswith("/") else path


class _Published:
    """One pass over the facts; remembers whether a hash was made."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._pseudonyms = pseudonyms
        self._is_keyed = False
        self._rules: dict[str, Callable[[str], str]] = {
            "kernel.cmdline": lambda text: shown_parameters(text, lambda value: self._short("parameter", value)),
            "disk.path": self._path,
            "disk.mount.point": shortened,
            "disk.mount.source": self._source,
            "disk.mount.options": self._option,
            "disk.devices.backing_file": shortened,
            "leftovers": shortened,
            "imported": shortened,
            "working_directory": shortened,
        }
        """Place of a fact, or of each of a list, to what is stored of it."""

    def of(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        identity: dict[str, str] = {}
        raw = {name: value for name, value in facts.items() if name != IDENTITY}
        if isinstance(known := facts.get(IDENTITY), Mapping) and known.get("machine_id"):
            identity["machine"] = self._pseudonym("machine", str(known["machine_id"]))
        if isinstance(kernel := raw.get("kernel"), Mapping) and "hostname" in kernel:
            raw["kernel"] = {name: value for name, value in kernel.items() if name != "hostname"}
            if kernel["hostname"]:
                identity["name"] = self._pseudonym("name", str(kernel["hostname"]))
        table: dict[str, Any] = self._mapped(raw, "")
        if self._is_keyed:
            table[IDENTITY] = {"key": self._pseudonyms.key_id, **identity}
        return table

    def _mapped(self, value: Any, place: str) -> Any:
        if isinstance(value, Mapping):
            table = {name: self._mapped(inner, f"{place}.{name}".lstrip(".")) for name, inner in value.items()}
            return self._without_serial(table) if place == "disk.devices" else table
        if isinstance(value, list):
            return [self._mapped(item, place) for item in value]
        return self._rules[place](str(value)) if place in self._rules and value is not None else value

    def _without_serial(self, device: dict[str, Any]) -> dict[str, Any]:
        names = [str(name) for name in (device.pop("serial", None), device.pop("wwid", None)) if name]
        return device | ({IDENTITY: self._pseudonym("drive", "\0".join(names))} if names else {})

    def _pseudonym(self, kind: str, value: str) -> str:
        self._is_keyed = True
        return self._pseudonyms.of(kind, value)

    def _short(self, kind: str, value: str) -> str:
        return f"#{self._pseudonym(kind, value)[:_HASH_DIGITS]}"

    def _path(self, path: str) -> str:
        """`~` for the home folder, a hash for the by-id, by-uuid or by-label name of a disk."""
        name = _DISK_NAME.match(path)
        return f"{name[1]}{self._short('source', path)}" if name else shortened(path)

    def _source(self, name: str) -> str:
        return name if not name or _KERNEL_NAME.fullmatch(name) else self._short("source", name)

    def _option(self, option: str) -> str:
        name, equals, value = option.partition("=")
        if not equals:
            return option if _MOUNT_FLAG.fullmatch(option) else self._short("option", option)
        return option if name in MOUNT_OPTIONS else f"{name}={self._short('option', value)}"


# The kernel's command line. The values of most parameters are replaced by keyed hashes, so that two runs can be
# compared and nothing can be read. What stands behind `--` is meant for init, and only counted.

SHOWN = {
    "flaws of the processor, and what is done about them": "mitigations spectre_* spec_* nospectre_* "
    "nospec_store_bypass_disable l1tf mds tsx tsx_async_abort mmio_stale_data retbleed srbds gather_data_sampling "
    "reg_file_data_sampling kvm*.nx_huge_pages pti nopti",
    "processors without other tasks, ticks, callbacks or interrupts": "isolcpus nohz nohz_full rcu_nocbs rcu_nocb_poll "
    "rcutree.* rcupdate.* irqaffinity threadirqs skew_tick",
    "number of processors": "nosmt maxcpus nr_cpus",
    "the scheduler": "preempt sched_* noautogroup",
    "huge pages": "hugepages hugepagesz default_hugepagesz hugetlb_* transparent_hugepage transparent_hugepage_* thp_*",
    "memory that is used or reserved": "mem memmap crashkernel movablecore kernelcore cma swiotlb",
    "pages: cleared, filled, their order, their nodes": "init_on_alloc init_on_free page_alloc.shuffle page_poison "
    "slab_* slub_* numa numa_balancing",
    "control groups, and pressure": "cgroup_disable cgroup_enable cgroup_no_v1 cgroup.memory "
    "systemd.unified_cgroup_hierarchy psi",
    "frequency and idle states": "intel_pstate intel_pstate.* amd_pstate amd_pstate.* cpufreq.* processor.max_cstate "
    "intel_idle.max_cstate cpuidle.* cpuidle_haltpoll.* haltpoll.* idle nohlt acpi_pad.disable",
    "the clock": "clocksource tsc hpet notsc no-kvmclock",
    "disks: scheduler, queues, polling, timeouts, power states": "elevator nvme.* nvme_core.* scsi_mod.* ahci.* "
    "libata.* dm_mod.* raid* virtio_blk.*",
    "the root file system, and a check in the background": "rootfstype fsck.mode",
    "links of devices, their transfers and addresses": "pcie_aspm pcie_aspm.policy pcie_bus_* pci iommu iommu.* "
    "intel_iommu amd_iommu",
    "checks and logs of each system call": "audit audit_backlog_limit apparmor selinux lsm security lockdown",
    "tracing, debugging and watchdogs cost time": "ftrace* trace_* debug* kasan* kfence.* lockdep* nmi_watchdog "
    "nowatchdog nosoftlockup watchdog*",
    "a slow console delays who prints": "console loglevel quiet",
    "nearly everywhere, and no secret": "BOOT_IMAGE splash ro rw nomodule nomodeset nokaslr kaslr random.trust_cpu "
    "panic reboot",
}
"""Why values are shown, and the names or patterns of names (Documentation/admin-guide/kernel-parameters.txt)."""
_PATTERNS = tuple(name.replace("-", "_") for names in SHOWN.values() for name in names.split())
"""`_` and `-` are the same to the kernel."""

_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_HARMLESS = re.compile(r"[\w.,:+@/%*!$#^~-]{0,256}", re.ASCII)
"""Characters of lists of processors, sizes and words: no spaces, no quotes."""
_IDENTIFYING = re.compile(
    r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-|(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|\d+\.\d+\.\d+\.\d+|/(?:home|root|dev/disk)\b|uuid"
)
_HASH_DIGITS = 8

_HIDDEN = re.compile(rf"(?:[a-z][a-z0-9_.-]*=)?#[0-9a-f]{{{_HASH_DIGITS}}}|init-arguments=\d+")


def _split(cmdline: str) -> tuple[list[str], list[str]]:
    """The kernel's parameters, and the arguments of init; quotes keep spaces together (next_arg() of lib/cmdline.c)."""
    every = _WORD.findall(cmdline)
    here = every.index("--") if "--" in every else len(every)
    return every[:here], every[here + 1 :]


def is_shown(word: str) -> bool:
    """Whether a parameter may be published as it stands."""
    name, _, value = word.strip('"').partition("=")
    name = name.replace("-", "_")
    known = any(fnmatchcase(name, pattern) for pattern in _PATTERNS)
    return known and bool(_HARMLESS.fullmatch(value)) and not _IDENTIFYING.search(value)


def shown_parameters(cmdline: str, pseudonym: Callable[[str], str]) -> str:
    """The command line as it is stored: `mitigations=off root=#1f09ac42 init-arguments=3`.

    `pseudonym` gives the hash of a value, `#` included. What is shown already stays the same.
    """
    parameters, of_init = _split(cmdline)
    counted = [f"init-arguments={len(of_init)}"] if of_init else []
    return " ".join([*(_shown(word, pseudonym) for word in parameters), *counted])


def hidden_values(cmdline: str) -> Iterator[str]:
    """What `shown_parameters` leaves out: values of parameters, words without a name, arguments of init."""
    parameters, of_init = _split(cmdline)
    for word in parameters:
        if not is_shown(word) and not _HIDDEN.fullmatch(word):
            name, value = _parts(word)
            yield value if name else word.strip('"')
    for word in of_init:
        yield word.partition("=")[2].strip('"') or word.strip('"')


def _shown(word: str, pseudonym: Callable[[str], str]) -> str:
    if is_shown(word) or _HIDDEN.fullmatch(word):
        return word
    name, value = _parts(word)
    return f"{name}{'=' if name else ''}{pseudonym(value or word)}"


def _parts(word: str) -> tuple[str, str]:
    """Name and value; no name where it may be a secret itself (a bare token, base64 that ends in `=`)."""
    name, equals, value = word.strip('"').partition("=")
    named = equals and value.strip('="') and _NAME.fullmatch(name)
    return (name, value.strip('"')) if named else ("", "")


# The user's key

NAME = "identity.key"
_KEY_BYTES = 32
_PSEUDONYM_DIGITS = 16
_ID_DIGITS = 8


class Pseudonyms:
    """Names for values that only the holder of the key can link to them; equal values have equal names."""

    def __init__(self, key: bytes | None = None, folder: Path | None = None) -> None:
        self._key = key
        self._folder = folder

    @classmethod
    def of_user(cls, root: Path = Path("/")) -> Self:
        """With the key in the state folder of this user; it is read, or made, when the first name is asked for."""
        try:
            return cls(folder=restore_file.lasting_folder(root))
        except RuntimeError:  # without a home folder
            return cls()

    @property
    def key_id(self) -> str:
        """Which key this is, without telling it: names made with different keys cannot be compared."""
        return hashlib.sha256(b"ioassay key " + self._secret()).hexdigest()[:_ID_DIGITS]

    def of(self, kind: str, value: str) -> str:
        """16 hexadecimal digits (HMAC-SHA-256, RFC 2104, cut short)."""
        text = f"{kind}\0{value}".encode(errors="surrogateescape")
        return hmac.new(self._secret(), text, hashlib.sha256).hexdigest()[:_PSEUDONYM_DIGITS]

    def _secret(self) -> bytes:
        if self._key is None:
            self._key = _read_or_make(self._folder)
        return self._key


def _read_or_make(folder: Path | None) -> bytes:
    """The key of a folder. Where none can be kept, one for this process alone: its names then match no other run."""
    fresh = secrets.token_bytes(_KEY_BYTES)
    if folder is None:
        return fresh
    path = folder / NAME
    if (known := _read(path)) is not None:
        return known
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, fresh)
    known = _read(path)
    return fresh if known is None else known


def _read(path: Path) -> bytes | None:
    """The key; None where there is none, or a damaged one."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None


def _write(path: Path, key: bytes) -> None:
    """Make the key durable for its owner alone. Of two processes that make one, the first wins."""
    mine = path.with_name(f".{NAME}.{os.getpid()}")
    descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        if path.exists():  # _read found it damaged
            mine.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(mine, path)
    finally:
        mine.unlink(missing_ok=True)
