"""Any command under the witness: its claims set against what the kernel saw, and the verdict."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import api, formats, units
from ioassay.analysis import machine_conditions
from ioassay.errors import InputError, Interrupted, UsageError
from ioassay.formats import is_of_this_host, user_claims
from ioassay.formats.number_parsing import real, whole_number
from ioassay.formats.user_claims import KINDS, SOURCE
from ioassay.hints import nearest
from ioassay.narrative import conditions_text, explanation_text
from ioassay.process import supervisor
from ioassay.records import kernel_times
from ioassay.records.observation import BPF, EXPLAIN, OFF, SYSCALLS, Observation
from ioassay.records.record import PATTERNS, Claim
from ioassay.runner import conditions
from ioassay.verify import latency_parts
from ioassay.verify.evidence import classes
from ioassay.verify.judge import Twins, judge, overall
from ioassay.verify.verdict import CONTRADICTED, Verdict, compared, rank
from ioassay.verify.witness import observed_command, single_command
from ioassay.verify.witness.observed_command import AUTO, BACKENDS, CallListing
from ioassay.verify.witness.single_command import Observed, Watch

if TYPE_CHECKING:
    from ioassay.packs.witness.attachment import Attachment

LEVELS = ("counters", "block", "syscalls", "explain")
_SEEN = (
    *("backend", "asked", "layers", "why", "processes", "threads", "most_alive", "calls", "call_errors"),
    *("health", "counters", "disks", "cost"),
)
"""Of the observation, what `as_dict` has as it is."""


@dataclass(frozen=True)
class WitnessRun:
    """One run of the command, what it claims and what it printed."""

    watched: Observed
    claims: Sequence[Claim]
    stdout: str = ""
    stderr: str = ""

    @property
    def seen(self) -> Observation:
        """What the witness saw."""
        assert self.watched.seen is not None
        return self.watched.seen


class Judgement:
    """What a command claimed, what the kernel saw, and the verdict on each claim (docs/verdicts.md)."""

    def __init__(
        self,
        command: Sequence[str],
        runs: Sequence[WitnessRun],
        untraced: Sequence[WitnessRun] = (),
        attached: Attachment | None = None,
    ) -> None:
        """`untraced` are runs without the witness; `attached` is what ran already, and was watched in place of it."""
        self.command, self.runs, self.untraced, self.attached = tuple(command), tuple(runs), tuple(untraced), attached
        # What the witness may slow down: runs of the command a second.
        rates = [[1 / max(run.watched.outcome.duration_s, 1e-9) for run in each] for each in (runs, untraced)]
        twins = Twins("runs a second", *rates) if untraced else None
        judged = [
            judge(
                run.claims,
                run.seen,
                twins=twins,
                exit_ok=run.watched.outcome.exit_code == 0,
                contended=machine_conditions.contended(run.watched.environment),
            )
            for run in runs
        ]
        self.verdicts: list[Verdict] = max(judged, key=lambda verdicts: rank(overall(verdicts)))
        last, outcome = runs[-1], runs[-1].watched.outcome
        self.seen = last.seen
        """What the witness saw of the last run."""
        self.claims = list(last.claims)
        """The claims of the last run."""
        self.listing: CallListing | None = last.watched.listed
        """The calls on files, where `calls` asked for them; None too where they could not be listed (`seen.why`)."""
        self.exit_code = outcome.exit_code
        """The command's own, of the last run; None where a signal ended it."""
        self.stdout, self.stderr = last.stdout, last.stderr
        """What the last run printed."""
        self._overall = overall(self.verdicts, self.seen)
        self.verdict, self.reason = self._overall.category, self._overall.reason
        """The category of the worst verdict: 'CONFIRMED', 'CONTRADICTED', …, and a stable word for its cause or ''."""
        self.explanation = explanation_text.text(self._overall.explanation)
        """What was claimed, what the kernel saw and why they differ, in sentences."""
        self.contradicted = self.verdict == CONTRADICTED
        """Whether the kernel contradicts a claim."""

    def conditions(self) -> machine_conditions.Conditions | None:
        """What else used the machine; None where it was not measured."""
        environments = [run.watched.environment for run in self.runs if run.watched.environment is not None]
        return machine_conditions.summary("", environments) if environments else None

    def latency_parts(self) -> list[latency_parts.LatencyParts]:
        """Where the time of the last run's operations went; empty but at level explain."""
        return latency_parts.latency_parts(self.claims, self.seen)

    def kernel_times(self) -> list[kernel_times.KernelTimes]:
        """How long synchronisations of the last run took; empty where there were none, or the witness saw no calls."""
        return list(kernel_times.kernel_times(self.seen))

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay witness --json` prints of it; of several runs, what was seen is that of the last one."""
        rests_on = compared(self.verdicts)
        outcome, seen, whole, conditions = self.runs[-1].watched.outcome, self.seen, self._overall, self.conditions()
        moved = classes(self.claims, seen)
        return {
            "conditions": None if conditions is None else conditions_text.as_dict(conditions),
            "command": list(self.command),
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "seconds": outcome.duration_s,
            **{name: getattr(seen, name) for name in _SEEN},
            "ops": {name: calls.calls for name, calls in moved.items()},
            "bytes": {name: calls.bytes for name, calls in moved.items()},
            "operations": [*map(_operation, seen.operations)],
            "block": [*map(_operation, seen.block)],
            "latency_parts": [asdict(each) for each in self.latency_parts()],
            "metrics": {name: value for each in self.kernel_times() for name, value in each.metrics.items()},
            "entry_exit": asdict(seen.entry_exit) if seen.entry_exit else None,
            "lost": seen.health.get("lost", 0) + seen.health.get("dropped", 0),
            "missed": seen.health.get("missed", 0),
            "claim": asdict(whole.claim) if whole.claim else None,
            "verdict": whole.category,
            "reason": whole.reason,
            "explanation": self.explanation,
            "matched": [*rests_on.matched, *rests_on.latencies],
            "not_judged": [*rests_on.unjudged, *rests_on.unjudged_latencies],
            "claims": [asdict(claim) for claim in self.claims],
            "verdicts": [explanation_text.as_dict(verdict) for verdict in self.verdicts],
            "runs": len(self.runs),
            "listing": self.listing and self.listing.as_dict(),
        }

    def observations(self) -> list[dict[str, Any]]:
        """Claims and the whole observation of each run, as `--output` writes them."""
        return [{"claims": [asdict(claim) for claim in run.claims], "seen": run.seen.as_dict()} for run in self.runs]

    def __repr__(self) -> str:
        return f"<Judgement of {self.command[:1]}: {self.verdict}>"

    def _repr_html_(self) -> str:
        return api.section(f"{self.verdict}: {' '.join(self.command)}", [self.explanation])


def _operation(item: Any) -> dict[str, Any]:
    """One class without its histogram, which `observations` has."""
    return {key: value for key, value in asdict(item).items() if key != "latency"}


def witness(
    command: Sequence[str | Path] = (),
    *,
    level: str = "syscalls",
    backend: str = "auto",
    claims: Sequence[str] = (),
    claim_regex: str | None = None,
    twins: int = 0,
    pids: Sequence[int] = (),
    cgroup: str | None = None,
    container: str | None = None,
    seconds: float | None = None,
    calls: bool | str | Path = False,
) -> Judgement:
    """Run a command and set its claims against the kernel's counts.

        witness(["dd", "if=data", "of=/dev/null", "bs=1M"]).verdict

    Its output is kept (`stdout`, `stderr`) and its claims are read from it, by the parser of the tool or by the pattern
    `claim_regex`, unless `claims` states them (`"bytes=1MiB,kind=read"`). `level` is counters, block, syscalls, or
    explain (syscalls with the parts of each latency), `backend` auto, bpf, counters or strace. `twins` is the number of
    further runs with the witness and without it. What runs already is watched by `pids`, `cgroup` or `container`: for a
    time of `seconds`, or while `command`, its client, runs. With `calls` the calls on files are listed (`listing`),
    some of each file, or all of them to the file that it names: level syscalls by bpf, which requires root.
    UsageError for arguments that do not go together, ToolError where the command cannot be started or a
    backend cannot run, Interrupted at Ctrl-C among twins. Like a measuring trial it waits for those of other threads.
    """
    argv = single_command.words(command)
    if not (pids or cgroup or container):
        if not argv:
            raise UsageError("command is empty; expected a program and its arguments, or pids, cgroup or container")
    elif twins or (cgroup and container) or bool(argv) == (seconds is not None):
        raise UsageError(
            "what runs already is watched once: expected pids with cgroup or container, and either seconds or the "
            "command of a client"
        )
    setup = Setup(level, backend, claims, claim_regex, None if calls is False else "" if calls is True else str(calls))
    if pids or cgroup or container:
        return setup.attend(argv, pids, cgroup, container, math.inf if seconds is None else seconds)
    return setup.repeat(argv, twins)


@dataclass
class Setup:
    """How commands are watched, where their claims come from, and who looks on. UsageError for what does not fit."""

    level: str
    backend: str
    claims: Sequence[str]
    """What the user states, as `KEY=VALUE,…`."""
    claim_regex: str | None
    """What finds claims in the output."""
    calls: str | None
    """The file to list calls to; '' for a sample of each file, None for no listing."""
    watch: Watch = single_command.watch
    note: Callable[[str], object] = lambda text: None
    """Called with a line for people."""

    def __post_init__(self) -> None:
        if self.claims and self.claim_regex is not None:
            raise UsageError("--claim and --claim-regex exclude each other; leave one of them out")
        self._pattern = None if self.claim_regex is None else user_claims.claim_pattern(self.claim_regex)
        self._stated = [*map(stated_claim, self.claims)]
        known_of = {"level": (self.level, LEVELS), "backend": (self.backend, BACKENDS)}
        for option, (value, known) in known_of.items():
            if value not in known:
                hint = "; requests are recorded by: ioassay record" if value == "record" else nearest(value, known)
                raise UsageError(f"--{option} {value}: unknown; expected {', '.join(known)}{hint}")
        if self.calls is None:
            return
        if self.level not in (SYSCALLS, EXPLAIN):
            raise UsageError(f"--calls and --level {self.level}: calls are seen at level {SYSCALLS}")
        if self.backend not in (AUTO, BPF):
            why = f"calls are listed by {BPF}; strace has a listing of its own"
            raise UsageError(f"--calls and --backend {self.backend}: {why}")
        path = Path(self.calls).absolute()
        if self.calls and (path.is_dir() or not path.parent.is_dir()):
            raise UsageError(f"--calls={self.calls}: not a file in a folder that exists; make the folder first")
        self.calls = str(path) if self.calls else ""

    def repeat(self, argv: Sequence[str], twins: int = 0) -> Judgement:
        """The judgement of one run, or of `twins` runs with the witness and, in between, as many without it.

        Interrupted at Ctrl-C among twins.
        """
        if self.calls is not None and twins:
            raise UsageError("--calls and --twins: a listing is of one run; give one of them")
        if self.calls is None:
            observed_command.prepare(self.level, self.backend)
        if tool := formats.recognise(argv):
            formats.parser(tool)  # imported while the kernel verifies the programs
        runs: dict[bool, list[WitnessRun]] = {True: [], False: []}
        order = [traced for _ in range(twins) for traced in random.sample([True, False], 2)] or [True]
        for number, traced in enumerate(order, start=1):
            if twins:
                self.note(f"run {number} of {len(order)}, {'with' if traced else 'without'} the witness")
            run = self._run(argv, self.level if traced else OFF)
            if twins and run.watched.was_interrupted:
                raise Interrupted("interrupted; the runs are judged only together")
            runs[traced].append(run)
        return Judgement(argv, runs[True], runs[False])

    def attend(
        self,
        client: Sequence[str],
        pids: Sequence[int],
        cgroup: str | None,
        container: str | None,
        seconds: float,
        on_begin: Callable[[Attachment], object] = lambda attached: None,
    ) -> Judgement:
        """The judgement of what runs already: it is watched for a time, or while a client of it runs."""
        from ioassay.packs.witness.attachment import Attachment, attend, group_at, group_of, running

        group = group_at(cgroup) if cgroup else group_of(container) if container else None
        attached = Attachment(running(pids, group), self.level, self.backend, self.calls)
        if not client:
            watched = attend(attached, seconds, lambda: on_begin(attached))
            run = WitnessRun(watched, [_as_opened(one, watched.seen) for one in self._stated])
            return Judgement(client, [run], attached=attached)
        run = self._run(client, server=attached, servers=attached.names.values())
        # Servers of other hosts stay unwatched. Where the server used none of the files that a claim names, these are
        # the client's, and so are the engine and the flags by which it used them.
        opened = {file.path for file in run.seen.files}
        claims = [replace(one, servers=()) if all(map(is_of_this_host, one.servers)) else one for one in run.claims]
        claims = [
            replace(one, paths=(), engine="", direct=None) if one.paths and not opened & set(one.paths) else one
            for one in claims
        ]
        return Judgement(client, [replace(run, claims=claims)], attached=attached)

    def _run(self, argv: Sequence[str], level: str = "", **server: Any) -> WitnessRun:
        conditions.remove_leftovers()
        with supervisor.temporary_folder("ioassay-witness-") as folder:
            how = {"backend": self.backend, "listing": self.calls, "reads_output": not self._stated}
            watched = self.watch(argv, level, folder, **how, **server)
            stdout, stderr = (_text(folder / name) for name in ("stdout", "stderr"))
            return WitnessRun(watched, self._claims(argv, stdout, stderr, watched.seen), stdout, stderr)

    def _claims(self, argv: Sequence[str], stdout: str, stderr: str, seen: Observation | None) -> list[Claim]:
        """Those that the user states, else those of the output: by the user's pattern, or by the parser of the tool."""
        programs, claims = seen.programs if seen is not None else (), self._stated
        try:
            if self._pattern is not None:
                claims = user_claims.pattern_claims(self._pattern, f"{stdout}\n{stderr}")
            elif not claims:
                files = {name: _text(Path(name)) for name in formats.outputs(argv, programs) if Path(name).is_file()}
                return formats.read(argv, stdout, stderr, files, programs)
            return [_as_opened(claim, seen) for claim in claims]
        except InputError as error:
            self.note(f"warning: no claim could be read: {error}")
            return []


def _as_opened(claim: Claim, seen: Observation | None) -> Claim:
    """The claim with its files under the names by which they were opened: links lead to them as well."""
    opened = {(file.dev, file.inode): file.path for file in seen.files if file.path} if seen is not None else {}

    def name(path: str) -> str:
        try:
            found = os.stat(path)  # noqa: PTH116 (any text, also one that is no path)
        except (OSError, ValueError):
            return path
        return opened.get((f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}", found.st_ino), path)

    return replace(claim, paths=tuple(map(name, claim.paths)))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


# A claim that the user states: `bytes=64MiB,ops=16384,seconds=0.5`, for programs whose output nobody reads here. Sizes
# and durations are written as everywhere. Nothing is derived: a rate that does not fit its bytes and seconds is for the
# verdict to find.


def _size(value: str) -> int:
    return whole_number(units.parse_size(value), "size")


def _one_of(names: Sequence[str], what: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in names:
            raise ValueError(f"'{value}' is no {what}; expected {', '.join(names)}{nearest(value, names)}")
        return value

    return read


def _flag(value: str) -> bool:
    if value not in ("0", "1", "yes", "no"):
        raise ValueError(f"'{value}' is neither yes nor no")
    return value in ("1", "yes")


# Key -> the field of the claim, how its value is read, and an example.
_KEYS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "bytes": ("bytes", _size, "64MiB"),
    "ops": ("operations", lambda value: whole_number(value, "count"), "16384"),
    "seconds": ("seconds", units.parse_duration_s, "0.5"),
    "kind": ("kind", _one_of(KINDS, "kind"), "read"),
    "rate": ("rate_bytes_per_s", lambda value: float(_size(value.removesuffix("/s"))), "128MiB/s"),
    "latency": ("latency_ns", lambda value: {"mean": real(units.parse_duration_s(value) * 1e9, "latency")}, "61us"),
    "path": ("paths", lambda value: tuple(value.split(":")), "/data/file"),
    "record": ("record_bytes", _size, "4KiB"),
    "pattern": ("pattern", _one_of(PATTERNS, "pattern"), "random"),
    "working_set": ("working_set_bytes", _size, "16MiB"),
    "syncs": ("syncs", lambda value: whole_number(value, "count"), "1"),
    "direct": ("direct", _flag, "yes"),
    "engine": ("engine", str, "psync"),
    "test": ("test", str, "my-test"),
}
_JUDGED = {"bytes", "operations", "seconds", "rate_bytes_per_s", "latency_ns", "pattern", "working_set_bytes"}


def stated_claim(text: str) -> Claim:
    """The claim behind `key=value,key=value…`; UsageError names the key, the value and the keys that there are.

    Without `kind` it is of reads. At least one number, or a pattern, has to be there.
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or key not in _KEYS or not value:
            known = ", ".join(f"{name} ({example})" for name, (_, _, example) in _KEYS.items())
            expected = f"expected key=value with {known}{nearest(key, _KEYS)}"
            raise UsageError(f"--claim {text}: '{part}' is not understood; {expected}")
        field, read, example = _KEYS[key]
        if field in found:
            raise UsageError(f"--claim {text}: {key} is given twice")
        try:
            found[field] = read(value)
        except (ValueError, UsageError) as error:
            raise UsageError(f"--claim {text}: {key}={value}: {error}; an example: {key}={example}") from None
    if not found.keys() & _JUDGED:
        wanted = "bytes, ops, seconds, rate, latency, working_set, or pattern"
        raise UsageError(f"--claim {text}: claims no number; expected one of {wanted}")
    return Claim(**{"source": SOURCE, "kind": "read", **found})
