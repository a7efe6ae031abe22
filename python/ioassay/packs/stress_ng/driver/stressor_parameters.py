"""What a study wants of stress-ng, checked against what the installed one offers, its arguments, and what it takes.

Parameters are stress-ng's own options without their dashes. `stressor`, `workers` and `timeout` are the lab's; options
that would take the output, the choice of stressors or the place of files out of its hands are refused.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from ioassay import units
from ioassay.errors import StudyError
from ioassay.hints import suggestion
from ioassay.pack import words
from ioassay.roles import DISK, FILES, INODES, MEMORY, OF_FREE, OF_TOTAL, PROCESSES, TERMINALS, Demand, Need

DEFAULT_S = 10
"""Without a timeout stress-ng runs for a day."""
LONGEST_S = 3600
"""Of a trial that ends after a number of operations and has no timeout."""
MOST_WORKERS = 4096
"""stress-ng's own limit (STRESS_PROCS_MAX)."""
_OURS = ("stressor", "workers", "timeout")
_OUTPUT = "the lab reads stress-ng's output and asks for what it needs"
_CHOICE = "one stressor a trial: use stressor and workers, and a suite or a factor for several"
_PLACE = "files go to the study's target: use [target] kind = 'folder'"
_REFUSED = {
    **dict.fromkeys(words("yaml metrics metrics-brief times verbose quiet log-brief log-file log-lockless"), _OUTPUT),
    **dict.fromkeys(words("stdout syslog timestamp sn skip-silent dry-run"), _OUTPUT),
    **dict.fromkeys(words("help version stressors verifiable job"), _OUTPUT),
    **dict.fromkeys(words("all parallel random sequential class exclude with permute"), _CHOICE),
    **dict.fromkeys(("temp-path", "keep-files"), _PLACE),
    "ignite-cpu": "it changes the kernel's controls and the lab could not put them back",
}
_COUNTS = ("N", "P", "L", "Q", "W", "X", "Y")
"""What the help calls a value that is a number; other letters are words too."""
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?[A-Za-z%]{0,2}")
_REAL_TIME = ("fifo", "rr")
"""Policies whose threads nothing ordinary interrupts (sched(7)); the kernel itself bounds 'deadline'."""
_BINARY_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTPkmgtp])iB")


@dataclass(frozen=True)
class Settings:
    """One point as stress-ng will see it."""

    stressor: str
    workers: int
    timeout_s: int | None
    """None: it ends after its operations."""
    options: Mapping[str, str | bool]
    """Option -> its value; True for a flag."""

    @property
    def expected_s(self) -> float:
        return float(self.timeout_s or DEFAULT_S)

    @property
    def longest_s(self) -> float:
        """After this the lab ends it: stress-ng waits for its workers, which may be slow to stop."""
        return LONGEST_S if self.timeout_s is None else 2 * self.timeout_s + 60

    @property
    def counted(self) -> bool:
        """Whether the load ends after a number of operations."""
        return f"{self.stressor}-ops" in self.options

    @property
    def forced(self) -> bool:
        """Whether the study says that harm is accepted."""
        return self.options.get("pathological") is True

    def no_room(self, processors: int) -> str:
        """Why its real-time workers would keep all processors from the lab; '' where one is left."""
        if self.options.get("sched") not in _REAL_TIME:
            return ""
        with suppress(ValueError):  # taskset takes other words than lists
            if len(units.parse_processors(str(self.options.get("taskset", "")))) < processors:
                return ""
        if 0 < self.workers < processors:
            return ""
        many = f"{self.workers} workers" if self.workers else "a worker on each processor"
        return f"{many} under sched = '{self.options['sched']}' would leave no CPU of {processors} for ioassay"

    def argv(self) -> list[str]:
        made = [f"--{self.stressor}", str(self.workers)]
        made += [f"--{name}" if value is True else f"--{name}={value}" for name, value in self.options.items()]
        return made + ([f"--timeout={self.timeout_s}"] if self.timeout_s is not None else [])


def read(params: Mapping[str, Any], offer: Capabilities) -> Settings:
    """The settings in `params`; StudyError names the key that is wrong. An offer that was not asked checks less."""
    stressor, workers = params.get("stressor"), params.get("workers", 1)
    if not isinstance(stressor, str) or not re.fullmatch(r"[a-z0-9][a-z0-9-]*", stressor):
        raise _wrong("stressor", f"is {stressor!r}; expected the name of one stressor, such as 'cpu'; {_CHOICE}")
    if offer.stressors and stressor not in offer.stressors:
        hint = suggestion(stressor, offer.stressors, "'stress-ng --stressors' lists them")
        raise _wrong("stressor", f"this stress-ng has no stressor '{stressor}'; {hint}")
    given = {key.replace("_", "-"): (key, value) for key, value in params.items() if key not in _OURS}
    read_options = {name: _option(name, *one, offer) for name, one in given.items()}
    options = {name: value for name, value in read_options.items() if value is not False}
    if isinstance(workers, bool) or not isinstance(workers, int) or not 0 <= workers <= MOST_WORKERS:
        wanted = f"a whole number from 0 (one on each processor) to {MOST_WORKERS}"
        raise _wrong("workers", f"is {workers!r}; expected {wanted}")
    found = Settings(stressor, workers, _timeout_s(params, f"{stressor}-ops" in options), options)
    why = _stressors()["dangerous"].get(stressor) or (
        "may hang or reboot the machine" if stressor in offer.pathological else ""
    )
    if why and not found.forced:
        remedy = "where that is acceptable, add stress-ng's own flag: pathological = true"
        raise _wrong("stressor", f"'{stressor}' {why}; {remedy}")
    return found


def _wrong(key: str, message: str) -> StudyError:
    return StudyError(message, key=f"params.{key}")


def _timeout_s(params: Mapping[str, Any], counted: bool) -> int | None:
    if "timeout" not in params:
        return None if counted else DEFAULT_S
    value = params["timeout"]
    try:
        seconds = units.parse_duration_s(value) if isinstance(value, int | float | str) else -1.0
    except ValueError as error:
        raise _wrong("timeout", str(error)) from None
    if seconds < 1 or seconds != int(seconds) or isinstance(value, bool):
        raise _wrong("timeout", f"is {value!r}; stress-ng takes whole seconds, 1 or more")
    return int(seconds)


def _option(name: str, key: str, value: Any, offer: Capabilities) -> str | bool:
    """The value as stress-ng takes it; False where it is not to be given."""
    if name in _REFUSED:
        raise _wrong(key, f"cannot be set: {_REFUSED[name]}")
    if name in offer.stressors:
        raise _wrong(key, f"is a stressor; {_CHOICE}")
    if offer.options and name not in offer.options:
        hint = suggestion(name, offer.options, "'stress-ng --help' lists them")
        raise _wrong(key, f"this stress-ng has no option '{name}'; {hint}")
    placeholder = offer.options.get(name, "")
    if isinstance(value, bool):
        if value and (placeholder or name in offer.choices):
            raise _wrong(key, f"is true; expected a value ('stress-ng --help' calls it {placeholder or 'a word'})")
        return value
    if not isinstance(value, int | float | str):
        raise _wrong(key, f"is {value!r}; expected a number, a word, or true for a flag")
    text = _BINARY_SIZE.sub(r"\1\2", str(value))
    if placeholder in _COUNTS and name not in offer.choices and not _NUMBER.fullmatch(text):
        raise _wrong(key, f"is '{value}'; expected a number")
    known = offer.choices.get(name, ())
    for word in text.split(",") if known else ():
        if word not in known:
            hint = suggestion(word, known, "")
            raise _wrong(key, f"is '{text}'; {hint + ' ' if hint else ''}this stress-ng takes: {', '.join(known)}")
    return text


# What the installed stress-ng offers: stressors with their classes, options, choices, and what cannot run here. The
# probes ask stress-ng itself. Its --help has names that its own parser does not know and lacks others (0.15.06:
# `shm-segs` for `shm-objs`, no `qsort-method`), so the names come from the parser: getopt answers an abbreviation with
# all that it could mean (getopt_long(3)). Where a C library does not, the help serves.

_TRIED = ("netdev", "sockdiag", "ioport", "rdrand")
"""Stressors that may find out only at work that this kernel, processor or user cannot: one operation tells."""
_POLICIES = ("deadline", "fifo", "rr")
"""Scheduling policies that need a right."""
_SCHEDULED = [f"sched {name}" for name in _POLICIES]
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
    """The commands that `capabilities` wants the answers of. None loads the machine, and each ends at once."""
    asked: dict[str, Sequence[str]] = {"stressors": ["--stressors"], "help": ["--help"]}
    asked |= {f"options:{letter}": ["--dry-run", f"--{letter}"] for letter in ascii_lowercase}
    asked |= {f"class:{name}": ["--class", f"{name}?"] for name in listed("classes")}
    asked |= {f"choices:{name}": ["--dry-run", f"--{name}=?"] for name in listed("with_choices")}
    asked["dry"] = ["--dry-run", "--all", "1", "--timeout", "1"]
    asked |= {f"try:{name}": [f"--{name}", "1", f"--{name}-ops", "1", "--timeout", "1"] for name in _TRIED}
    asked |= {
        f"try:sched {name}": ["--sched", name, "--cpu", "1", "--cpu-ops", "1", "--timeout", "1"] for name in _POLICIES
    }
    return {name: ["stress-ng", *argv] for name, argv in asked.items()}


def capabilities(answers: Mapping[str, str]) -> Capabilities:
    """The offer behind the answers of `probes`; what an answer does not say is left out."""
    stressors = answers.get("stressors", "").split()
    shown = (_HELP_LINE.match(line) for line in answers.get("help", "").split("\n"))
    helped = {line["name"]: line["takes"] or "" for line in shown if line}
    named: set[str] = set()
    for letter in ascii_lowercase:  # the options behind an ambiguous abbreviation, but for the abbreviation itself
        possible = answers.get(f"options:{letter}", "").partition("possibilities:")[2]
        named.update(re.findall(r"'--([a-z0-9-]+)'", possible))
    if not named:  # no getopt of glibc
        named = set(helped)
    members = {name: answers.get(f"class:{name}", "").partition("stressors:") for name in listed("classes")}
    choices = {name: _CHOICES.search(answers.get(f"choices:{name}", "")) for name in listed("with_choices")}
    lines = log_messages(answers.get("dry", ""))
    disabled = [found[1] for line in lines if (found := re.match(r"disabled '([\w-]+)'", line))]
    # Of a dry run of all stressors: those that were neither started nor disabled, and why.
    started = next((line.partition(":")[2] for line in lines if line.startswith("dispatching hogs:")), "")
    begun = {entry.split()[-1] for entry in started.split(",")} if started else set(stressors)
    absent = [name for name in stressors if name not in begun and (name not in disabled or about(name, lines))]
    why_absent = {name: about(name, lines) or "stress-ng does not start it here" for name in absent}
    # Tries with one operation that did not come to a successful end, where stress-ng says why.
    tried = {name: log_messages(answers.get(f"try:{name}", ""), "info") for name in (*_TRIED, *_SCHEDULED)}
    failed = {name: why for name, said in tried.items() if (why := hopeless(said))}
    return Capabilities(
        stressors=stressors,
        options={name: "N" if name in stressors else helped.get(name, "") for name in sorted(named)},
        classes={name: names.split() if head.startswith("class") else [] for name, (head, _, names) in members.items()},
        choices={
            name: [word for word in re.split(r"[\s,]+", known["words"]) if word]
            for name, known in choices.items()
            if known
        },
        pathological=disabled,
        absent=why_absent | failed,
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


# What a stressor takes of its host: memory, processes, open files, pseudoterminals, disk space, inodes. Upper bounds,
# not measurements: a stressor that is not in stressors.toml takes little by itself, and whatever its `-bytes` or
# `-size` says. What the host has, and whether that is enough, is asked in `preflight`.

CONSENT = "pathological = true"
_MAXIMIZED_BYTES = 2.0**32
"""MAX_32 and MAXIMIZED_FILE_SIZE (stress-ng.h): what most sizes become under --maximize."""
_WORKER_BYTES = 4 * 2**20
_PROCESS_BYTES = 256 * 2**10
"""Of a process or thread that a worker starts: 170 KiB were measured for pipeherd's, 60 KiB for pthread's."""
_SCALES = {letter: 1024**power for power, letter in enumerate("bkmgtpe")}
_VALUE = re.compile(r"(?P<whole>\d+)(?P<fraction>\.\d+)?[A-Za-z]*?(?P<unit>[A-Za-z%]?)")
_LARGEST_CACHE_BYTES = 2.0**30
"""More than any processor's cache has."""
_RESOURCES = {
    "memory": MEMORY,
    "shared_memory": MEMORY,
    "disk": DISK,
    "shared_disk": DISK,
    "inodes": INODES,
    "processes": PROCESSES,
    "files": FILES,
    "terminals": TERMINALS,
}
"""Section of stressors.toml -> the resource."""


@dataclass(frozen=True)
class _Take:
    """How much of a resource: `unit` for each of what `option` counts, and of what `times` counts beside it."""

    resource: str
    option: str = ""
    default: float = 1
    unit: float = 1
    power: int = 1
    most: float = 0
    """What the option becomes under --maximize; 0: stays as it is."""
    times: tuple[str, float] = ("", 1.0)
    """An option and its default."""
    shared: bool = False
    """Whether the workers share it (`/= args->num_instances`); else each takes it."""
    of: str = ""
    when: Sequence[str] = ()
    """Flags without which nothing is taken."""


@cache
def _stressors() -> Mapping[str, Mapping[str, Any]]:
    """What is known of them beforehand: section -> stressor -> its row."""
    return tomllib.loads(Path(__file__).with_name("stressors.toml").read_text(encoding="utf-8"))


def listed(name: str) -> list[str]:
    return words(_stressors()["lists"][name])


def demand(wanted: Settings, makes_files: bool) -> Demand:
    """What one trial takes of the host; `makes_files`: sizes of unknown options are those of files.

    0 workers are one on each configured processor, as stress-ng counts them.
    """
    workers = wanted.workers or os.sysconf("SC_NPROCESSORS_CONF")
    said, remedy = f"'{wanted.stressor}'" + (f" ({workers} workers)" if workers > 1 else ""), "lower workers"
    needs = [
        Need(MEMORY, float(workers * _WORKER_BYTES), said, "params.workers", remedy),
        Need(PROCESSES, float(workers + 1), said, "params.workers", remedy),
    ]
    takes = []
    for section, resource in _RESOURCES.items():
        if wanted.stressor not in (rows := _stressors()[section]):
            continue
        shared, row = section.startswith("shared_"), dict(rows[wanted.stressor])
        for key in {"default", "unit", "most", "each"} & row.keys():
            row[key] = float(units.parse_size(row[key]) if isinstance(row[key], str) else row[key])
        each_bytes = row.pop("each", _PROCESS_BYTES)
        most = {"most": _MAXIMIZED_BYTES} if shared and "option" in row else {}
        takes.append(_Take(resource, **{**most, **row}, shared=shared))
        if resource == PROCESSES and not math.isinf(row["default"]):
            takes.append(_Take(MEMORY, **row, unit=each_bytes))
    known = {name for take in takes for name in (take.option, take.times[0])}
    for name in wanted.options:  # sizes of the stressor's own that the table has not
        if name not in known and re.fullmatch(rf"{re.escape(wanted.stressor)}-(bytes|size)", name):
            takes.append(_Take(DISK if makes_files else MEMORY, name))
    return Demand((*needs, *(need for take in takes for need in _needs(take, wanted, workers))), CONSENT, wanted.forced)


def _needs(take: _Take, wanted: Settings, workers: int) -> Iterator[Need]:
    """What the workers need of it, if anything."""
    if take.when and not any(wanted.options.get(flag) is True for flag in take.when):
        return
    options, of = wanted.options, take.of
    number = take.most if take.most and options.get("maximize") is True else take.default
    if take.option in options:
        number, is_share = _value(options[take.option])
        of = {MEMORY: OF_TOTAL, DISK: OF_FREE, INODES: OF_FREE}.get(take.resource, "") if is_share else take.of
        if is_share and not of:  # of open files: a share of what a process may have, which the default stands for
            number, of = number * take.default, take.of
    other, default = take.times
    others = _value(options[other])[0] if other in options else default
    if not number or not others:
        return
    amount = number**take.power * take.unit * others * (1 if take.shared else workers)
    counted = [name for name in (take.option, other) if name]
    named = [name for name in counted if name in options]
    said = [f"{name} = {options[name]}" for name in named] + ([f"{workers} workers"] if workers > 1 else [])
    cause = f"'{wanted.stressor}'" + (f" ({', '.join(said)})" if said else "")
    lowered = counted + (["workers"] if workers > 1 and not take.shared else [])
    remedy = f"lower {' or '.join(lowered)}" if lowered and (take.option or not math.isinf(amount)) else ""
    yield Need(take.resource, amount, cause, f"params.{[*named, 'stressor'][0]}", remedy, of)


def _value(said: str | bool) -> tuple[float, bool]:
    """A number as stress-ng reads it, and whether it is a share (core-parse-opts.c).

    Sizes are whole numbers with the scale of their last letter, whatever stands between; a fraction counts only in
    a percentage. What is no number is the name of a cache, such as `LLC`.
    """
    number = _VALUE.fullmatch(str(said).strip().lstrip("+"))
    if number is None:
        return _LARGEST_CACHE_BYTES, False
    if number["unit"] == "%":
        return float(number["whole"] + (number["fraction"] or "")) / 100, True
    return float(number["whole"]) * _SCALES.get(number["unit"].lower(), 1), False
