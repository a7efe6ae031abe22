"""What tells one machine and its people from others, and how it is kept out of what is published.

`published` makes of raw host facts those that a run stores: what matters for performance as it is, what identifies as
keyed hashes. A plain hash of a host name or a serial number can be reversed by trying all likely ones. A keyed hash
cannot, as long as the key is unknown: it is random, made on first use, and stays in the user's state folder. Facts may
be of any age: a run that was stored before this existed is read through the same function.

`of_host` gathers the values that identify this machine, and `Redaction` replaces them in any text, the same value
always by the same placeholder. Placeholders (`redacted-host-1`, `/redacted-folder-2`) are fit for names of files,
studies and factors, and need no escape in JSON, HTML or an address. Known values are found in every spelling in which
tools write them. What nobody knows beforehand is found by its shape: UUIDs, MAC and IP addresses, world-wide names,
names of disks, private folders. Writing bundles is `ioassay.store.bundle`.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import ipaddress
import json
import os
import re
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Self
from urllib.parse import quote, quote_plus

from ioassay.host import settings
from ioassay.host.block_devices import entries, scsi_serial, text_of

IDENTITY, HOSTS = "identity", "hosts"
_HASH_DIGITS = 8
_KERNEL_NAME = re.compile(r"/dev/(?!mapper/|disk/)[a-z]+[-_]?\d*[a-z]*\d*(?:p\d+)?|[a-z][a-z0-9]*")
"""Of a mount's source: a device by its kernel's name, or a file system without a device (`tmpfs`)."""
_HOME = re.compile(r"/(?:home|Users)/[^/]+|/root(?=/|$)")
_HOME_IN_TEXT = re.compile(r"(?<![\w.~-])/(?:home|Users)/[^/\s\"',;:)]+")
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
    table = dict(facts) if is_published else _published(facts, pseudonyms)
    if isinstance(hosts := table.get(HOSTS), Mapping):
        table[HOSTS] = {
            name: published(own, pseudonyms) if isinstance(own, Mapping) else own for name, own in hosts.items()
        }
    return table


def shortened(path: str) -> str:
    """A path with `~` for the home folder, whoever's it is."""
    return _HOME.sub("~", path, count=1) if path.startswith("/") else path


def without_homes(text: str) -> str:
    """Any text with `~` for the home folders in it, whoever's they are."""
    return _HOME_IN_TEXT.sub("~", text)


def _published(facts: Mapping[str, Any], pseudonyms: Pseudonyms) -> dict[str, Any]:
    hashed: list[str] = []

    def pseudonym(kind: str, value: str) -> str:
        hashed.append(pseudonyms.of(kind, value))
        return hashed[-1]

    def short(kind: str, value: str) -> str:
        return f"#{pseudonym(kind, value)[:_HASH_DIGITS]}"

    def mount_option(option: str) -> str:
        name, equals, value = option.partition("=")
        if not equals:
            return option if _MOUNT_FLAG.fullmatch(option) else short("option", option)
        return option if name in MOUNT_OPTIONS else f"{name}={short('option', value)}"

    # Place of a fact, or of each of a list, to what is stored of it.
    rules: dict[str, Callable[[str], str]] = {
        "kernel.cmdline": lambda text: shown_parameters(text, lambda value: short("parameter", value)),
        # `~` for the home folder, a hash for the by-id, by-uuid or by-label name of a disk.
        "disk.path": lambda path: (
            f"{name[1]}{short('source', path)}" if (name := _DISK_NAME.match(path)) else shortened(path)
        ),
        "disk.mount.source": lambda name: name if not name or _KERNEL_NAME.fullmatch(name) else short("source", name),
        "disk.mount.options": mount_option,
        **dict.fromkeys(("disk.mount.point", "disk.devices.backing_file"), shortened),
        **dict.fromkeys(("leftovers", "imported", "working_directory"), shortened),
    }

    def mapped(value: Any, place: str) -> Any:
        if isinstance(value, list):
            return [mapped(item, place) for item in value]
        if not isinstance(value, Mapping):
            return rules[place](str(value)) if place in rules and value is not None else value
        table = {name: mapped(inner, f"{place}.{name}".lstrip(".")) for name, inner in value.items()}
        numbers = ("serial", "wwid") if place == "disk.devices" else ()
        if names := [str(table.pop(name)) for name in numbers if table.get(name)]:
            table[IDENTITY] = pseudonym("drive", "\0".join(names))
        return table

    identity: dict[str, str] = {}
    raw = {name: value for name, value in facts.items() if name != IDENTITY}
    if isinstance(known := facts.get(IDENTITY), Mapping) and known.get("machine_id"):
        identity["machine"] = pseudonym("machine", str(known["machine_id"]))
    if isinstance(kernel := raw.get("kernel"), Mapping) and "hostname" in kernel:
        raw["kernel"] = {name: value for name, value in kernel.items() if name != "hostname"}
        if kernel["hostname"]:
            identity["name"] = pseudonym("name", str(kernel["hostname"]))
    table: dict[str, Any] = mapped(raw, "")
    return {**table, IDENTITY: {"key": pseudonyms.key_id, **identity}} if hashed else table


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
"""Quotes keep spaces together (next_arg() of lib/cmdline.c)."""
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_HARMLESS = re.compile(r"[\w.,:+@/%*!$#^~-]{0,256}", re.ASCII)
"""Characters of lists of processors, sizes and words: no spaces, no quotes."""
_IDENTIFYING = re.compile(
    r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-|(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|\d+\.\d+\.\d+\.\d+|/(?:home|root|dev/disk)\b|uuid"
)
_HIDDEN = re.compile(rf"(?:[a-z][a-z0-9_.-]*=)?#[0-9a-f]{{{_HASH_DIGITS}}}|init-arguments=\d+")
_EVERYWHERE = re.compile(
    r"(?i)[\d.]*|/dev/[a-z]+\d*|/[\w.-]+|--?[a-z][a-z-]*|[a-z0-9._-]+\.(?:target|service)|(?:part)?(?:uuid|label)|vmlinuz\S*"
)
"""Values of kernel parameters that tell nothing, such as numbers and names of devices."""
_LEAST_LETTERS = 4


def shown_parameters(cmdline: str, pseudonym: Callable[[str], str]) -> str:
    """The command line as it is stored: `mitigations=off root=#1f09ac42 init-arguments=3`.

    `pseudonym` gives the hash of a value, `#` included. What is shown already stays the same.
    """
    shown = []
    parameters, of_init = _parameters(cmdline)
    for word, name, value in parameters:
        shown.append(word if value is None else f"{name}{'=' if name else ''}{pseudonym(value or word)}")
    if of_init:
        shown.append(f"init-arguments={len(of_init)}")
    return " ".join(shown)


def hidden_values(cmdline: str) -> Iterator[str]:
    """What `shown_parameters` leaves out and can be looked for: no numbers, and no paths that every machine has."""
    parameters, of_init = _parameters(cmdline)
    hidden = [value if name else word.strip('"') for word, name, value in parameters if value is not None]
    hidden += [word.partition("=")[2].strip('"') or word.strip('"') for word in of_init]
    for value in hidden:
        for part in dict.fromkeys((value, value.rstrip("="), *re.split(r"[:,;@=]", value))):
            if len(part) >= _LEAST_LETTERS and not _EVERYWHERE.fullmatch(part):
                yield part


def _parameters(cmdline: str) -> tuple[list[tuple[str, str, str | None]], list[str]]:
    """Each parameter as it stands, its name, and the value that is hidden; None of one that may be published.

    No name where it may be a secret itself (a bare token, base64 that ends in `=`). The words for init are apart.
    """
    words: list[str] = _WORD.findall(cmdline)
    found: list[tuple[str, str, str | None]] = []
    end = words.index("--") if "--" in words else len(words)
    for word in words[:end]:
        name, equals, value = word.strip('"').partition("=")
        plain = name.replace("-", "_")
        is_known = any(fnmatchcase(plain, pattern) for pattern in _PATTERNS)
        is_shown = is_known and _HARMLESS.fullmatch(value) and not _IDENTIFYING.search(value)
        if is_shown or _HIDDEN.fullmatch(word):
            found.append((word, name, None))
        elif equals and value.strip('="') and _NAME.fullmatch(name):
            found.append((word, name, value.strip('"')))
        else:
            found.append((word, "", ""))
    return found, words[end + 1 :]


# The user's key

NAME = "identity.key"
_KEY_BYTES = 32
_PSEUDONYM_DIGITS = 16


@dataclass
class Pseudonyms:
    """Names for values that only the holder of the key can link to them; equal values have equal names.

    The key is that of a folder, read or made when the first name is asked for. Where none can be kept, it is one for
    this process alone: its names then match no other run.
    """

    _key: bytes | None = field(default=None, repr=False)
    folder: Path | None = None

    @classmethod
    def of_user(cls, root: Path = Path("/")) -> Self:
        try:
            return cls(folder=settings.lasting_folder(root))
        except RuntimeError:  # without a home folder
            return cls()

    @property
    def key_id(self) -> str:
        """Which key this is, without telling it: names made with different keys cannot be compared."""
        return hashlib.sha256(b"ioassay key " + self._secret()).hexdigest()[:_HASH_DIGITS]

    def of(self, kind: str, value: str) -> str:
        """16 hexadecimal digits (HMAC-SHA-256, RFC 2104, cut short)."""
        text = f"{kind}\0{value}".encode(errors="surrogateescape")
        return hmac.new(self._secret(), text, hashlib.sha256).hexdigest()[:_PSEUDONYM_DIGITS]

    def _secret(self) -> bytes:
        if self._key is None:
            path = self.folder / NAME if self.folder is not None else None
            fresh, kept = os.urandom(_KEY_BYTES), _read_key(path) if path is not None else None
            if path is not None and kept is None:
                with suppress(OSError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    _write_key(path, fresh)
                kept = _read_key(path)
            self._key = kept or fresh
        return self._key


def _read_key(path: Path) -> bytes | None:
    with suppress(OSError, ValueError):
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
        return key if len(key) == _KEY_BYTES else None
    return None


def _write_key(path: Path, key: bytes) -> None:
    """Make the key durable for its owner alone. Of two processes that make one, the first wins."""
    mine = path.with_name(f".{NAME}.{os.getpid()}")
    descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        if path.exists():  # it is damaged
            mine.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(mine, path)
    finally:
        mine.unlink(missing_ok=True)


# The values that identify this machine and its people. A serial number is unmistakable. A host that is called `data`
# cannot be told from the word, and is replaced only where a field or a prompt names it

HOST, USER, HOME, FOLDER = "host", "user", "home", "folder"
SERIAL, UUID, DISK, LABEL, MAC, IP, BOOT = "serial", "uuid", "disk", "label", "mac", "ip", "boot"
KINDS = {
    HOST: "host names",
    USER: "user names",
    HOME: "home folders",
    FOLDER: "other folders",
    SERIAL: "serial numbers and world-wide names",
    UUID: "UUIDs and machine-ids",
    DISK: "names of disks below /dev/disk and /dev/mapper",
    LABEL: "labels of file systems",
    MAC: "MAC addresses",
    IP: "IP addresses",
    BOOT: "values of kernel parameters",
}
_STRONG_LETTERS = 6
_SURE_LETTERS = 12
DISTINCT_LETTERS = 8
"""From here on a value is replaced inside of words as well."""
_PACKAGE = Path(__file__).parent.parent
_NOBODY = frozenset(
    {"root", "nobody", "daemon", "bin", "sys", "localhost", "localdomain", "host", "none", "default", "unknown"}
    | {"to be filled by o.e.m.", "not specified", "system serial number"}
)
_PEOPLE = range(1000, 60000)
"""Numbers of users who are people (login.defs(5))."""
_DMI = ("product_serial", "product_uuid", "board_serial", "chassis_serial", "product_asset_tag", "chassis_asset_tag")
_BLOCK = ("serial", "device/serial", "wwid", "device/wwid", "dm/uuid", "subsysnqn")
_LINKS = {"by-id": DISK, "by-uuid": UUID, "by-partuuid": UUID, "by-label": LABEL, "by-partlabel": LABEL}
_WORD_PARTS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")
PUBLIC = frozenset(
    {"", "/root", "/tmp", "/var", "/var/tmp", "/home", "/mnt", "/media", "/srv", "/data", "/opt", "/run", "/usr"}
    | {"/dev", "/dev/shm", "/nonexistent"}
)
"""Folders of every machine."""


class Strength(IntEnum):
    FIELD = 0
    """Only in fields that name it (`hostname: data`): it is short, a number, or a word that ioassay uses itself."""
    WORD = 1
    """As a whole word of any text."""
    SURE = 2
    """Anywhere."""


@dataclass(frozen=True)
class Secret:
    """One value, and what it is: a key of KINDS."""

    kind: str
    value: str

    def strength(self, vocabulary: Iterable[str] = ()) -> Strength:
        """`vocabulary` are the words that mean something in a run, such as the names of its factors."""
        value = self.value.lower()
        if self.kind in (HOME, FOLDER):
            return Strength.SURE
        if len(value) < _LEAST_LETTERS or value.isdecimal() or value in vocabulary or is_our_word(value):
            return Strength.FIELD
        mixed = any(letter.isdecimal() for letter in value) and any(letter.isalpha() for letter in value)
        sure = len(value) >= _SURE_LETTERS or (mixed and len(value) >= _STRONG_LETTERS)
        return Strength.SURE if sure else Strength.WORD


def known(secrets: Iterable[Secret]) -> list[Secret]:
    """Each value once, without those that say nothing."""
    kept = {
        secret.value.lower(): secret
        for secret in reversed([*secrets])
        if len(secret.value.strip()) > 0 and secret.value.lower() not in _NOBODY and set(secret.value) - set("0.:-")
    }
    return sorted(kept.values(), key=lambda secret: (secret.kind, secret.value))


def of_host(root: Path = Path("/")) -> list[Secret]:
    return known(Secret(kind, value) for kind, value in _values(root, os.environ if root == Path("/") else {}))


def _values(root: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path in ("proc/sys/kernel/hostname", "etc/hostname"):
        name = text_of(root / path)
        yield from ((HOST, name), (HOST, name.partition(".")[0]))
    yield HOST, text_of(root / "proc/sys/kernel/domainname").replace("(none)", "")
    for path in ("etc/machine-id", "proc/sys/kernel/random/boot_id"):
        yield UUID, text_of(root / path)
    for name in _DMI:
        yield UUID if "uuid" in name else SERIAL, text_of(root / "sys/class/dmi/id" / name)
    yield from _people(root, environment)
    for disk in entries(root / "sys/class/block") + entries(root / "sys/class/nvme"):
        yield from ((SERIAL, text_of(disk / name)) for name in _BLOCK)
        yield from ((SERIAL, scsi_serial(disk)), (DISK, text_of(disk / "dm/name")))
    for folder, kind in _LINKS.items():
        for link in entries(root / "dev/disk" / folder):
            yield kind, re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), link.name)
    for device in entries(root / "sys/class/net"):
        yield MAC, text_of(device / "address")
    lines = text_of(root / "proc/net/fib_trie").splitlines()
    addresses = [line.partition("-- ")[2] for line, following in pairwise(lines) if "host LOCAL" in following]
    for line in text_of(root / "proc/net/if_inet6").splitlines():
        addresses.append(":".join(re.findall("....", line.partition(" ")[0])))
    yield from ((IP, address) for address in map(_telling_address, addresses) if address)
    yield from ((BOOT, value) for value in hidden_values(text_of(root / "proc/cmdline")))


def _people(root: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    present = {environment[name] for name in ("USER", "LOGNAME", "SUDO_USER") if environment.get(name)}
    homes = [environment.get("HOME", "").rstrip("/")]
    for line in text_of(root / "etc/passwd").splitlines():
        name, _, uid, _, real_name, home, *_ = (*line.split(":"), *[""] * 7)
        if (uid.isdecimal() and int(uid) in _PEOPLE) or name in present:
            present.add(name)
            homes.append(home)
            real_name = real_name.partition(",")[0]
            yield from ((USER, part) for part in (real_name, *real_name.split()) if len(part) >= _LEAST_LETTERS)
    yield from ((USER, name) for name in sorted(present))
    yield from ((HOME, home) for home in homes if is_private(home))


def _telling_address(text: str) -> str:
    """An address of somebody; '' for this host's own loop, and for a time such as 12:34:56."""
    with suppress(ValueError):
        address = ipaddress.ip_address(text.strip())
        return "" if address.is_loopback or address.is_unspecified else str(address)
    return ""


def is_private(folder: str) -> bool:
    """Whether a folder's name says something about its owner; that of /root or /tmp does not."""
    return folder.startswith("/") and folder.rstrip("/") not in PUBLIC


@cache
def is_our_word(word: str) -> bool:
    """Whether ioassay itself uses a word: in results and on the page it can then mean something else."""
    text, sought = _our_text(), word.encode("utf-8", "surrogateescape")
    place = text.find(sought)
    while place >= 0:
        end = place + len(sought)
        if _WORD_PARTS.isdisjoint(text[max(place - 1, 0) : place] + text[end : end + 1]):
            return True
        place = text.find(sought, place + 1)
    return False


@cache
def _our_text() -> bytes:
    kinds = (".py", ".j2", ".css", ".js", ".toml")
    found = ((folder, name) for folder, _, names in os.walk(_PACKAGE) for name in names if name.endswith(kinds))
    return b"\n".join(Path(*parts).read_bytes() for parts in found).lower()


# Replacing

MARK = "redacted"
_REMEMBERED_LETTERS = 300
"""The strings of a run's JSON are few, and come again in every trial."""
_FIELDS = {
    HOST: "host|hostname|nodename",
    USER: "user|username|user_name|login|logname|owner",
    SERIAL: "serial|serial_number|serialnumber|sn|wwn|wwid",
    LABEL: "label|partlabel",
    DISK: "disk|device|dm_name",
    BOOT: "token|password|passwd|key|secret",
}
_SYSTEM = re.compile(
    r"/(?:usr|lib|lib32|lib64|libx32|bin|sbin|etc|proc|sys|dev|opt|run|snap|nix|boot|var/(?:lib|cache|run|log))(?:/|$)"
)
"""Folders that are alike on all machines."""
_PATH = re.compile(
    r"(?:(?<=://)|(?<![\w.~+@%/\\-]))/(?:[^\s/\"'<>|*?\\:;,=()&`$\[\]{}]+/)+[^\s/\"'<>|*?\\:;,=()&`$\[\]{}]*"
)
_SHAPES = [
    (DISK, re.compile(r"(/dev/(?:disk/by-[a-z]+|mapper)/(?!control\b))([^\s\"'<>\\:;,)&]+)")),
    (UUID, re.compile(r"(?i)()((?<![0-9a-f-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f]))")),
    (SERIAL, re.compile(r"(?i)()\b((?:eui|naa|t10)\.[\w.-]{8,}|nqn\.\d{4}-[\w.:-]+|0x5[0-9a-f]{15})\b")),
    (MAC, re.compile(r"(?i)()((?<![\w:-])[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\3[0-9a-f]{2}){4}(?![\w:-]))")),
    (IP, re.compile(r"()((?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-]))")),
    (IP, re.compile(r"(?i)()((?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:]))")),
]
"""Kind, and the pattern: what stays, and the value behind it."""


class Redaction:
    """`text` and `field` replace; `left_in` looks for what is left; `counts` says how often each kind was replaced.

    `vocabulary` are words that mean something in the run, which no host or user can be told from. `mild` is for the
    page: folders and addresses are left, but that `~` stands for a home folder. Below `root`, the run's own folder,
    names of folders and files are kept.
    """

    def __init__(
        self, secrets: Iterable[Secret], vocabulary: Iterable[str] = (), *, root: str = "", mild: bool = False
    ) -> None:
        self._mild = mild
        words = frozenset(word.lower() for word in vocabulary)
        self._placeholders: dict[tuple[str, str], str] = {}
        self.counts: Counter[str] = Counter()
        self._owners: dict[str, Secret] = {}
        self.weak: list[Secret] = []
        patterns: dict[Strength, dict[str, str]] = {Strength.SURE: {}, Strength.WORD: {}}
        for secret in known([*secrets, *([Secret(FOLDER, root)] if root else [])]):
            if (strength := secret.strength(words)) == Strength.FIELD:
                self.weak.append(secret)
                continue
            for spelling in spellings(secret.value):
                self._owners.setdefault(spelling.lower(), secret)
                patterns[strength][spelling] = _pattern(secret, strength, spelling)
        self._searches = []
        for of in patterns.values():
            longest_first = sorted(of, key=lambda spelling: (-len(spelling), spelling))
            alternatives = "|".join(of[spelling] for spelling in longest_first)
            self._searches.append(re.compile(alternatives or r"(?!)", re.IGNORECASE))
        self._fields = [(secret, _field(secret)) for secret in self.weak]
        self._rules: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
            (shape, partial(self._behind, kind, "")) for kind, shape in _SHAPES if not (mild and kind == IP)
        ]  # mild leaves addresses, since versions look alike
        self._rules += [] if mild else [(_PATH, self._path)]
        self._rules += [(search, partial(self._behind, one.kind, one.value)) for one, search in self._fields]
        self._run = self._placeholder(FOLDER, root) if root else ""
        self.counts.clear()
        self._memory: dict[str, tuple[str, Counter[str]]] = {}

    def text(self, text: str) -> str:
        """Any text: a tool's output, a string of JSON, a key, a name."""
        if len(text) > _REMEMBERED_LETTERS:
            return self._replaced(text)
        if text not in self._memory:
            before = self.counts.copy()
            clean = self._replaced(text)
            self._memory[text] = clean, self.counts - before
            return clean
        clean, counts = self._memory[text]
        self.counts += counts
        return clean

    def field(self, name: str, text: str) -> str:
        """The value that stands under a key of JSON or TOML: there even a short host name is one."""
        secret = self._named(name, text)
        return self._placeholder(secret.kind, secret.value) if secret else self.text(text)

    def is_named(self, name: str, text: str) -> bool:
        """Whether a value that is a common word or a number is a secret under this key."""
        return self._named(name, text) is not None

    def left_in(self, text: str) -> list[Secret]:
        """The known values that a text still holds, in any spelling."""
        found = {self._owner(hit[0]) for search in self._of_interest(text) for hit in search.finditer(text)}
        return [*found, *(secret for secret, search in self._fields if search.search(text))]

    def _named(self, name: str, text: str) -> Secret | None:
        for secret in self.weak:
            same = text.lower() == secret.value.lower()
            if same and re.fullmatch(_FIELDS.get(secret.kind, secret.kind), name, re.IGNORECASE):
                return secret
        return None

    def _of_interest(self, text: str) -> list[re.Pattern[str]]:
        """The searches, where a text has any of their words: looking for a plain string is a hundred times quicker."""
        folded = text.lower()
        return self._searches if any(spelling in folded for spelling in self._owners) else []

    def _owner(self, spelling: str) -> Secret:
        return self._owners.get(spelling.lower()) or next(
            # Some letters match without their case, and have no common lower case (the Turkish dotless i).
            secret
            for known, secret in self._owners.items()
            if re.fullmatch(re.escape(known), spelling, re.IGNORECASE)
        )

    def _replaced(self, text: str) -> str:
        def known(hit: re.Match[str]) -> str:
            secret = self._owner(hit[0])
            return self._placeholder(secret.kind, secret.value)

        for search in self._of_interest(text):
            text = search.sub(known, text)
        for pattern, replacement in self._rules:
            text = pattern.sub(replacement, text)
        return text

    def _behind(self, kind: str, known: str, hit: re.Match[str]) -> str:
        """What stays, and a placeholder for the value behind it: a known one, or what has the shape of its kind."""
        value = known or hit[2]
        if not known and (value.startswith(MARK) or (kind == IP and not _telling_address(value))):
            return hit[0]
        return hit[1] + self._placeholder(kind, value)

    def _path(self, hit: re.Match[str]) -> str:
        folder, _, name = hit[0].rpartition("/")
        if _SYSTEM.match(hit[0]) or not is_private(folder) or re.fullmatch(rf"/{MARK}-folder-\d+", folder):
            return hit[0]
        if self._run and f"{folder}/".startswith(f"{self._run}/"):
            return hit[0]
        return f"{self._placeholder(FOLDER, folder)}/{name}"

    def _placeholder(self, kind: str, value: str) -> str:
        self.counts[kind] += 1
        if self._mild and kind == HOME:
            return "~"
        family = FOLDER if kind == HOME else kind
        known = (family, value.lower())
        if known not in self._placeholders:
            number = sum(of == family for of, _ in self._placeholders) + 1
            self._placeholders[known] = f"{'/' if family == FOLDER else ''}{MARK}-{family}-{number}"
        return self._placeholders[known]


def folders_of(path: str) -> Iterator[Secret]:
    """The folder of a path, if its name says something."""
    folder = str(PurePosixPath(path).parent)
    if is_private(folder) and not _SYSTEM.match(folder) and not folder.startswith(f"/{MARK}-"):
        yield Secret(FOLDER, folder)


def spellings(value: str) -> set[str]:
    """A value as tools write it: plain, in JSON, HTML, an address, a shell's word, without the separators of a MAC."""
    found = {form for kind in ("NFC", "NFD") for form in (value, unicodedata.normalize(kind, value))}
    for form in list(found):
        plain = form.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        escaped, in_html = json.dumps(form)[1:-1], html.escape(form)
        found |= {escaped, json.dumps(form, ensure_ascii=False)[1:-1], json.dumps(escaped)[1:-1]}
        found |= {html.escape(form, quote=False), in_html, in_html.replace("&quot;", "&#34;")}
        found |= {in_html.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")}
        found |= {quote(form, errors="surrogateescape"), quote(form, safe="", errors="surrogateescape")}
        found |= {quote_plus(form, safe="/", errors="surrogateescape"), quote_plus(plain)}
        found |= {form.replace(" ", "\\ "), form.replace(" ", "\\040"), form.replace(":", "\\:")}
        found |= {form.replace("'", "'\"'\"'"), re.sub(r"[^\w.-]", lambda odd: f"\\x{ord(odd[0]):02x}", form)}
        with suppress(UnicodeEncodeError):
            found.add(form.encode("latin-1").decode("utf-8", "surrogateescape"))
    if re.fullmatch(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}", value):
        found |= {value.replace(":", ""), value.replace(":", "-")}
    if re.fullmatch(r"[0-9A-Fa-f]{8}(?:-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}", value):
        found |= {str(uuid.UUID(value)), uuid.UUID(value).hex}
    if re.fullmatch(r"(?:naa|eui)\.\w{8,}", value):
        found.add(value[4:])
    return {form for form in found if form}


def _pattern(secret: Secret, strength: Strength, spelling: str) -> str:
    escaped = re.escape(spelling)
    if secret.kind in (HOME, FOLDER):
        return rf"(?<![\w.~-]){escaped}(?![\w.~-])"
    # A whole word; `_` and `-` part words.
    short = strength == Strength.WORD or len(spelling) < DISTINCT_LETTERS
    return rf"(?<![^\W_]){escaped}(?![^\W_])" if short else escaped


def _field(secret: Secret) -> re.Pattern[str]:
    """Where a text names a value that is otherwise a common word: `hostname: a`, `user@a`, `Linux a 6.1`."""
    name = rf"\b(?:{_FIELDS.get(secret.kind, secret.kind)})[\"']?\s*[:=]\s*[\"']?"
    more = r"|\w@|\bLinux\s+(?=\S+\s+\d+\.\d)" if secret.kind == HOST else ""
    return re.compile(rf"({name}{more}){re.escape(secret.value)}(?![^\s\"',;:)&<])", re.IGNORECASE)
