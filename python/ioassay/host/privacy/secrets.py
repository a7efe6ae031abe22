"""The values that identify this machine and its people, read below an injected root: what must not be in a bundle.

Each has a strength, which says where it can be replaced without harm. A serial number is unmistakable. A host that is
called `data` cannot be told from the word, and is replaced only where a field or a prompt names it.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import pairwise
from pathlib import Path

from ioassay.host.privacy import facts

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
_LEAST_LETTERS = 4
_STRONG_LETTERS = 6
_SURE_LETTERS = 12
DISTINCT_LETTERS = 8
"""From here on a value is replaced inside of words as well."""
_PACKAGE = Path(__file__).parent.parent.parent
_NOBODY = frozenset(
    {"root", "nobody", "daemon", "bin", "sys", "localhost", "localdomain", "host", "none", "default", "unknown"}
    | {"to be filled by o.e.m.", "not specified", "system serial number"}
)
_FIRST_UID, _LAST_UID = 1000, 60000
"""Of people (login.defs(5))."""
_DMI = ("product_serial", "product_uuid", "board_serial", "chassis_serial", "product_asset_tag", "chassis_asset_tag")
_BLOCK = ("serial", "device/serial", "wwid", "device/wwid", "dm/uuid")
_WORD_PARTS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")
_EVERYWHERE = re.compile(
    r"(?i)[\d.]*|/dev/[a-z]+\d*|/[\w.-]+|--?[a-z][a-z-]*|[a-z0-9._-]+\.(?:target|service)|(?:part)?(?:uuid|label)|vmlinuz\S*"
)
"""Values of kernel parameters that tell nothing, such as numbers and names of devices."""
_VPD_HEADER_BYTES = 4  # SPC-5, 7.7.9: unit serial number page


class Strength(IntEnum):
    """Where a value is replaced."""

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
        if len(value) >= _SURE_LETTERS or (mixed and len(value) >= _STRONG_LETTERS):
            return Strength.SURE
        return Strength.WORD


def known(secrets: Iterable[Secret]) -> list[Secret]:
    """Each value once, without those that say nothing."""
    kept = {
        secret.value.lower(): secret
        for secret in reversed([*secrets])
        if len(secret.value.strip()) > 0 and secret.value.lower() not in _NOBODY and set(secret.value) - set("0.:-")
    }
    return sorted(kept.values(), key=lambda secret: (secret.kind, secret.value))


def of_host(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> list[Secret]:
    """Everything that this machine and its people are known by."""
    if environment is None:
        environment = os.environ if root == Path("/") else {}
    return known(
        [
            *_names(root),
            *_people(root, environment),
            *(Secret(UUID if "uuid" in name else SERIAL, _text(root / "sys/class/dmi/id" / name)) for name in _DMI),
            *_disks(root),
            *_network(root),
            *(Secret(BOOT, value) for value in hidden_values(_text(root / "proc/cmdline"))),
        ]
    )


def _names(root: Path) -> Iterator[Secret]:
    for path in ("proc/sys/kernel/hostname", "etc/hostname"):
        if name := _text(root / path):
            yield Secret(HOST, name)
            yield Secret(HOST, name.partition(".")[0])
    domain = _text(root / "proc/sys/kernel/domainname")
    if domain and domain != "(none)":
        yield Secret(HOST, domain)
    for path in ("etc/machine-id", "proc/sys/kernel/random/boot_id"):
        yield Secret(UUID, _text(root / path))


def _people(root: Path, environment: Mapping[str, str]) -> Iterator[Secret]:
    present = {environment[name] for name in ("USER", "LOGNAME", "SUDO_USER") if environment.get(name)}
    for line in _text(root / "etc/passwd").splitlines():
        name, _, uid, _, real_name, home, *_ = (*line.split(":"), *[""] * 7)
        if (uid.isdecimal() and _FIRST_UID <= int(uid) < _LAST_UID) or name in present:
            present.add(name)
            real_name = real_name.partition(",")[0]
            yield from (Secret(USER, part) for part in (real_name, *real_name.split()) if len(part) >= _LEAST_LETTERS)
            if is_private(home):
                yield Secret(HOME, home)
    yield from (Secret(USER, name) for name in sorted(present))
    if is_private(home := environment.get("HOME", "")):
        yield Secret(HOME, home.rstrip("/"))


def _disks(root: Path) -> Iterator[Secret]:
    for disk in _entries(root / "sys/class/block") + _entries(root / "sys/class/nvme"):
        for name in (*_BLOCK, "subsysnqn"):
            yield Secret(SERIAL, _text(disk / name))
        yield Secret(SERIAL, _scsi_serial(disk / "device/vpd_pg80"))
        yield Secret(DISK, _text(disk / "dm/name"))
    kinds = {"by-id": DISK, "by-uuid": UUID, "by-partuuid": UUID, "by-label": LABEL, "by-partlabel": LABEL}
    for folder, kind in kinds.items():
        for link in _entries(root / "dev/disk" / folder):
            yield Secret(kind, re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), link.name))


def _scsi_serial(path: Path) -> str:
    try:
        return path.read_bytes()[_VPD_HEADER_BYTES:].decode("ascii", "replace").strip("\0 ")
    except OSError:
        return ""


def _network(root: Path) -> Iterator[Secret]:
    for device in _entries(root / "sys/class/net"):
        yield Secret(MAC, _text(device / "address"))
    lines = _text(root / "proc/net/fib_trie").splitlines()
    for line, following in pairwise(lines):
        if "host LOCAL" in following:
            yield from _address(line.partition("-- ")[2])
    for line in _text(root / "proc/net/if_inet6").splitlines():
        digits = line.partition(" ")[0]
        yield from _address(":".join(re.findall("....", digits)))


def _address(text: str) -> Iterator[Secret]:
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return
    if not (address.is_loopback or address.is_unspecified):
        yield Secret(IP, str(address))


def hidden_values(cmdline: str) -> Iterator[str]:
    """Of a kernel's command line what can be looked for: no numbers, and no paths that every machine has."""
    for value in facts.hidden_values(cmdline):
        for part in dict.fromkeys((value, value.rstrip("="), *re.split(r"[:,;@=]", value))):
            if len(part) >= _LEAST_LETTERS and not _EVERYWHERE.fullmatch(part):
                yield part


def is_private(folder: str) -> bool:
    """Whether a folder's name says something about its owner; that of /root or /tmp does not."""
    return folder.startswith("/") and folder.rstrip("/") not in PUBLIC


PUBLIC = frozenset(
    {"", "/root", "/tmp", "/var", "/var/tmp", "/home", "/mnt", "/media", "/srv", "/data", "/opt", "/run", "/usr"}
    | {"/dev", "/dev/shm", "/nonexistent"}
)
"""Folders of every machine."""


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


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
