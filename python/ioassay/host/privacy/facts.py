"""Host facts as a run stores them: what matters for performance as it is, what identifies as keyed hashes.

Takes facts of any age: a run that was stored before this existed is read through the same function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ioassay.host.privacy import boot
from ioassay.host.privacy.key import Pseudonyms

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
        self._identity: dict[str, str] = {}
        self._is_keyed = False

    def of(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        table = {name: value for name, value in facts.items() if name != IDENTITY}
        raw = facts.get(IDENTITY)
        if isinstance(raw, Mapping) and raw.get("machine_id"):
            self._identity["machine"] = self._pseudonym("machine", str(raw["machine_id"]))
        if isinstance(table.get("kernel"), Mapping):
            table["kernel"] = self._kernel(table["kernel"])
        if isinstance(table.get("disk"), Mapping):
            table["disk"] = self._disk(table["disk"])
        for name in ("leftovers", "imported"):
            if isinstance(table.get(name), list):
                table[name] = [shortened(str(path)) for path in table[name]]
        if "working_directory" in table:
            table["working_directory"] = shortened(str(table["working_directory"]))
        if self._is_keyed:
            table[IDENTITY] = {"key": self._pseudonyms.key_id, **self._identity}
        return table

    def _pseudonym(self, kind: str, value: str) -> str:
        self._is_keyed = True
        return self._pseudonyms.of(kind, value)

    def _short(self, kind: str, value: str) -> str:
        return f"#{self._pseudonym(kind, value)[: boot.HASH_DIGITS]}"

    def _kernel(self, kernel: Mapping[str, Any]) -> dict[str, Any]:
        table = dict(kernel)
        if hostname := table.pop("hostname", None):
            self._identity["name"] = self._pseudonym("name", str(hostname))
        if "cmdline" in table:
            table["cmdline"] = boot.shown(str(table["cmdline"]), lambda value: self._short("parameter", value))
        return table

    def _disk(self, disk: Mapping[str, Any]) -> dict[str, Any]:
        table = dict(disk)
        if "path" in table:
            table["path"] = self._path(str(table["path"]))
        if isinstance(table.get("mount"), Mapping):
            table["mount"] = self._mount(table["mount"])
        if isinstance(table.get("devices"), list):
            table["devices"] = [self._device(item) if isinstance(item, Mapping) else item for item in table["devices"]]
        return table

    def _path(self, path: str) -> str:
        """`~` for the home folder, a hash for the by-id, by-uuid or by-label name of a disk."""
        name = _DISK_NAME.match(path)
        return f"{name[1]}{self._short('source', path)}" if name else shortened(path)

    def _mount(self, mount: Mapping[str, Any]) -> dict[str, Any]:
        table = dict(mount)
        if "point" in table:
            table["point"] = shortened(str(table["point"]))
        source = str(table.get("source", ""))
        if source and not _KERNEL_NAME.fullmatch(source):
            table["source"] = self._short("source", source)
        if isinstance(table.get("options"), list):
            table["options"] = [self._option(str(option)) for option in table["options"]]
        return table

    def _option(self, option: str) -> str:
        name, equals, value = option.partition("=")
        if not equals:
            return option if _MOUNT_FLAG.fullmatch(option) else self._short("option", option)
        return option if name in MOUNT_OPTIONS else f"{name}={self._short('option', value)}"

    def _device(self, device: Mapping[str, Any]) -> dict[str, Any]:
        table = dict(device)
        if names := [str(table.pop(name)) for name in ("serial", "wwid") if table.get(name)]:
            table[IDENTITY] = self._pseudonym("drive", "\0".join(names))
        if "backing_file" in table:
            table["backing_file"] = shortened(str(table["backing_file"]))
        return table
