"""What the installed stress-ng offers: stressors with their classes, options, choices, and what cannot run here.

The probes ask stress-ng itself, and the answers are read here. Its --help has names that its own parser does not know
and lacks others (0.15.06: `shm-segs` for `shm-objs`, no `qsort-method`), so the names come from the parser: getopt
answers an abbreviation with all that it could mean (getopt_long(3)). Where a C library does not, the help serves.

Deliberately not here: whether a study may use what there is (`settings`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

CLASSES = (
    "cpu",
    "cpu-cache",
    "device",
    "filesystem",
    "gpu",
    "interrupt",
    "io",
    "memory",
    "network",
    "os",
    "pipe",
    "scheduler",
    "security",
    "vm",
)
_WITH_CHOICES = (
    *("cacheline-method", "cpu-method", "cyclic-method", "cyclic-policy", "dccp-domain", "dccp-opts", "dentry-order"),
    *("epoll-domain", "exec-fork-method", "exec-method", "filename-opts", "fp-method", "funccall-method"),
    *("funcret-method", "hash-method", "hdd-opts", "ioport-opts", "ipsec-mb-method", "l1cache-method", "list-method"),
    *("matrix-3d-method", "matrix-method", "memcpy-method", "memthrash-method", "misaligned-method", "opcode-method"),
    *("prefetch-method", "qsort-method", "race-sched-method", "rawdev-method", "revio-opts", "rotate-method", "sched"),
    *("sctp-domain", "sock-domain", "sock-opts", "sock-protocol", "sock-type", "sparsematrix-method", "str-method"),
    *("stream-madvise", "switch-method", "syscall-method", "touch-method", "touch-opts", "tree-method", "udp-domain"),
    *("udp-flood-domain", "vecfp-method", "vecshuf-method", "vm-addr-method", "vm-madvise", "vm-method"),
    *("wcs-method", "zlib-method"),
)
"""Options that answer '?' with the words that they take."""
_TRIED = ("netdev", "sockdiag", "ioport", "rdrand")
"""Stressors that may find out only at work that this kernel, processor or user cannot: one operation tells."""
_POLICIES = ("deadline", "fifo", "rr")
"""Scheduling policies that need a right."""
PREFIX = re.compile(r"stress-ng: (?P<level>\w+):\s+\[\d+\] (?P<said>.*)")
"""How each line of its log begins."""
_CHATTER = ("debug", "metrc")
_HELP_LINE = re.compile(r"^(?:-\w(?: \w)?,)?\s+--(?P<name>[a-z0-9][a-z0-9-]+)(?: (?P<takes>\S+))?(?:\s|$)")
_CHOICES = re.compile(r"(?:must be one of|options are|policies allowed are|methods are):\s*(?P<words>.*)")
_HOPELESS = re.compile(r"skip|cannot|not implemented|not supported|must not run|not permitted|denied", re.IGNORECASE)

_SUMMARY = re.compile(r"(?:skipped: (?:0|(?P<skipped>[1-9]\d*))|passed: \d|failed: \d|metrics.untrustworthy: \d)")


@dataclass(frozen=True)
class Capabilities:
    """What one stress-ng, on this machine and for this user, offers. Empty: not asked."""

    stressors: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    """Name -> what its help calls its value ('N', 'M'); '' where the help shows none."""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Class -> its stressors."""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Option -> the words that it takes."""
    pathological: Sequence[str] = ()
    """Stressors that stress-ng itself disables without --pathological."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Stressor (or 'sched deadline') -> why stress-ng will not run it here."""


def probes() -> dict[str, Sequence[str]]:
    """The commands that `read` wants the answers of. None loads the machine, and each ends at once."""
    asked: dict[str, Sequence[str]] = {"stressors": ["--stressors"], "help": ["--help"]}
    asked |= {f"options:{letter}": ["--dry-run", f"--{letter}"] for letter in ascii_lowercase}
    asked |= {f"class:{name}": ["--class", f"{name}?"] for name in CLASSES}
    asked |= {f"choices:{name}": ["--dry-run", f"--{name}=?"] for name in _WITH_CHOICES}
    asked["dry"] = ["--dry-run", "--all", "1", "--timeout", "1"]
    asked |= {f"try:{name}": [f"--{name}", "1", f"--{name}-ops", "1", "--timeout", "1"] for name in _TRIED}
    asked |= {
        f"try:sched {name}": ["--sched", name, "--cpu", "1", "--cpu-ops", "1", "--timeout", "1"] for name in _POLICIES
    }
    return {name: ["stress-ng", *argv] for name, argv in asked.items()}


def read(answers: Mapping[str, str]) -> Capabilities:
    """The offer behind the answers of `probes`; what an answer does not say is left out."""
    stressors = answers.get("stressors", "").split()
    helped = _helped(answers.get("help", ""))
    named = {name for letter in ascii_lowercase for name in _possibilities(answers.get(f"options:{letter}", ""))}
    if not named:  # no getopt of glibc
        named = set(helped)
    lines = log_messages(answers.get("dry", ""))
    disabled = [found[1] for line in lines if (found := re.match(r"disabled '([\w-]+)'", line))]
    return Capabilities(
        stressors=stressors,
        options={name: "N" if name in stressors else helped.get(name, "") for name in sorted(named)},
        classes={name: _members(answers.get(f"class:{name}", "")) for name in CLASSES},
        choices={name: words for name in _WITH_CHOICES if (words := _words(answers.get(f"choices:{name}", "")))},
        pathological=disabled,
        absent={**_undispatched(stressors, lines, disabled), **_failed_tries(answers)},
    )


def log_messages(text: str, *levels: str) -> list[str]:
    """What stress-ng's log says at these levels ('fail', 'error', 'warn', 'info'), by default all but the chatter."""
    found = (PREFIX.match(line) for line in text.split("\n"))
    lines = [line for line in found if line and (line["level"] in levels or not levels)]
    return [line["said"].strip() for line in lines if line["level"] in levels or line["level"] not in _CHATTER]


def hopeless(lines: Sequence[str]) -> str:
    """The first line that says that this machine, kernel or user cannot do it; '' where none does.

    Newer versions end with a summary, of which `skipped: 1: ioport (1)` is the last resort.
    """
    plain = (line for line in lines if not _SUMMARY.match(line) and _HOPELESS.search(line))
    summed = (line for line in lines if (found := _SUMMARY.match(line)) and found["skipped"])
    return next(plain, "") or next(summed, "")


def about(stressor: str, lines: Sequence[str]) -> str:
    """The first line that begins with a stressor's name, which may have '_' for '-'."""
    wanted = re.compile(rf"{'[-_]'.join(stressor.split('-'))}(?:\s|:)")
    return next((line for line in lines if wanted.match(line)), "")


def _possibilities(text: str) -> list[str]:
    """The options behind an ambiguous abbreviation, but for the abbreviation itself."""
    return re.findall(r"'--([a-z0-9-]+)'", text.partition("possibilities:")[2])


def _helped(text: str) -> dict[str, str]:
    found = (_HELP_LINE.match(line) for line in text.split("\n"))
    return {line["name"]: line["takes"] or "" for line in found if line}


def _members(text: str) -> list[str]:
    head, colon, names = text.partition("stressors:")
    return names.split() if colon and head.startswith("class") else []


def _words(text: str) -> list[str]:
    found = _CHOICES.search(text)
    return [word for word in re.split(r"[\s,]+", found["words"]) if word] if found else []


def _undispatched(stressors: Sequence[str], lines: Sequence[str], disabled: Sequence[str]) -> dict[str, str]:
    """Of a dry run of all stressors: those that were neither started nor disabled, and why."""
    started = next((line.partition(":")[2] for line in lines if line.startswith("dispatching hogs:")), "")
    if not started:
        return {}
    begun = {entry.split()[-1] for entry in started.split(",")}
    absent = [name for name in stressors if name not in begun and (name not in disabled or about(name, lines))]
    return {name: about(name, lines) or "stress-ng does not start it here" for name in absent}


def _failed_tries(answers: Mapping[str, str]) -> dict[str, str]:
    """Of the tries with one operation: those that did not come to a successful end, where stress-ng says why."""
    found = {}
    for name in (*_TRIED, *(f"sched {name}" for name in _POLICIES)):
        if why := hopeless(log_messages(answers.get(f"try:{name}", ""), "info")):
            found[name] = why
    return found
