"""Any command under the witness: its claims set against what the kernel saw, and the verdict."""

from __future__ import annotations

import math
import os
import random
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import api, formats
from ioassay.errors import InputError, Interrupted, UsageError
from ioassay.formats import is_of_this_host, user_claims
from ioassay.hints import nearest
from ioassay.pack import listed
from ioassay.process import supervisor
from ioassay.records.observation import BPF, COUNTERS, EXPLAIN, OFF, SYSCALLS
from ioassay.verify import latency_parts
from ioassay.verify.evidence import classes
from ioassay.verify.verdict import CONTRADICTED, compared, rank

if TYPE_CHECKING:
    from ioassay.analysis.machine_conditions import Conditions
    from ioassay.formats.user_claims import UserPattern
    from ioassay.records.observation import Observation
    from ioassay.records.record import Claim
    from ioassay.verify.latency_parts import LatencyParts
    from ioassay.verify.verdict import Verdict
    from ioassay.verify.witness import Attachment, Observed
    from ioassay.verify.witness.observed_command import CallListing

LEVELS = ("counters", "block", "syscalls", "explain")
BACKENDS = ("auto", BPF, COUNTERS, *listed("observers", {}))
Note = Callable[[str], object]
"""Called with a line for people."""


Watch = Callable[..., "Observed"]
"""Runs a command under the witness as `watch_quietly` does; what it printed is in `folder` when its output is read."""


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


@dataclass(frozen=True)
class Stated:
    """What the user states: the claims themselves, or a pattern that finds them in the output."""

    claims: Sequence[Claim] = ()
    pattern: UserPattern | None = None

    @classmethod
    def of(cls, claims: Sequence[str], claim_regex: str | None) -> Stated:
        """Claims as `KEY=VALUE,…` and a pattern; UsageError for both, and for what is none."""
        if claims and claim_regex is not None:
            raise UsageError("--claim and --claim-regex exclude each other; leave one of them out")
        pattern = user_claims.claim_pattern(claim_regex) if claim_regex is not None else None
        return cls([user_claims.stated_claim(text) for text in claims], pattern)


class Judgement:
    """What a command claimed, what the kernel saw, and the verdict on each claim (docs/verdicts.md)."""

    def __init__(self, command: Sequence[str], runs: Sequence[WitnessRun], untraced: Sequence[WitnessRun]) -> None:
        self.command, self.runs, self.untraced = tuple(command), tuple(runs), tuple(untraced)
        self.verdicts: list[Verdict] = _judged(runs, untraced)

    @property
    def verdict(self) -> str:
        """The category of the worst verdict: 'CONFIRMED', 'CONTRADICTED', …"""
        return self._overall.category

    @property
    def reason(self) -> str:
        """A stable word for its cause; '' where there is nothing to add."""
        return self._overall.reason

    @property
    def explanation(self) -> str:
        """What was claimed, what the kernel saw and why they differ, in sentences."""
        from ioassay.narrative import explanation_text

        return explanation_text.text(self._overall.explanation)

    @property
    def contradicted(self) -> bool:
        """Whether the kernel contradicts a claim."""
        return self.verdict == CONTRADICTED

    @property
    def claims(self) -> list[Claim]:
        """The claims of the last run."""
        return list(self.runs[-1].claims)

    @property
    def seen(self) -> Observation:
        """What the witness saw of the last run."""
        return self.runs[-1].seen

    @property
    def listing(self) -> CallListing | None:
        """The calls on files, where `calls` asked for them; None too where they could not be listed (`seen.why`)."""
        return self.runs[-1].watched.listed

    @property
    def exit_code(self) -> int | None:
        """The command's own, of the last run; None where a signal ended it."""
        return self.runs[-1].watched.outcome.exit_code

    @property
    def stdout(self) -> str:
        """What the last run printed."""
        return self.runs[-1].stdout

    @property
    def stderr(self) -> str:
        """What it printed on standard error."""
        return self.runs[-1].stderr

    @property
    def _overall(self) -> Verdict:
        from ioassay.verify.judge import overall

        return overall(self.verdicts, self.seen)

    def conditions(self) -> Conditions | None:
        """What else used the machine; None where it was not measured."""
        from ioassay.analysis import machine_conditions

        environments = [run.watched.environment for run in self.runs if run.watched.environment is not None]
        return machine_conditions.summary("", environments) if environments else None

    def latency_parts(self) -> list[LatencyParts]:
        """Where the time of the last run's operations went; empty but at level explain."""
        return latency_parts.latency_parts(self.claims, self.seen)

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay witness --json` prints of it; of several runs, what was seen is that of the last one."""
        from ioassay.narrative import conditions_text, explanation_text

        rests_on = compared(self.verdicts)
        run, seen, whole, conditions = self.runs[-1], self.seen, self._overall, self.conditions()
        moved = classes(run.claims, seen)
        return {
            "conditions": None if conditions is None else conditions_text.as_dict(conditions),
            "command": list(self.command),
            "exit_code": run.watched.outcome.exit_code,
            "signal": run.watched.outcome.signal,
            "seconds": run.watched.outcome.duration_s,
            "backend": seen.backend,
            "asked": seen.asked,
            "layers": list(seen.layers),
            "why": seen.why,
            "ops": {name: calls.calls for name, calls in moved.items()},
            "bytes": {name: calls.bytes for name, calls in moved.items()},
            "operations": [*map(_operation, seen.operations)],
            "block": [*map(_operation, seen.block)],
            "latency_parts": [asdict(each) for each in self.latency_parts()],
            "entry_exit": asdict(seen.entry_exit) if seen.entry_exit else None,
            "processes": seen.processes,
            "threads": seen.threads,
            "most_alive": seen.most_alive,
            "calls": dict(seen.calls),
            "call_errors": dict(seen.call_errors),
            "lost": seen.health.get("lost", 0) + seen.health.get("dropped", 0),
            "missed": seen.health.get("missed", 0),
            "health": dict(seen.health),
            "counters": dict(seen.counters),
            "disks": {name: dict(counts) for name, counts in seen.disks.items()},
            "cost": dict(seen.cost),
            "claim": asdict(whole.claim) if whole.claim else None,
            "verdict": whole.category,
            "reason": whole.reason,
            "explanation": self.explanation,
            "matched": [*rests_on.matched, *rests_on.latencies],
            "not_judged": [*rests_on.unjudged, *rests_on.unjudged_latencies],
            "claims": [asdict(claim) for claim in run.claims],
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
    argv = words(command)
    stated = Stated.of(claims, claim_regex)
    check(level, backend)
    wanted = None if calls is False else "" if calls is True else str(calls)
    listing = destination(wanted, level, backend, twins)
    if not (pids or cgroup or container):
        if not argv:
            raise UsageError("command is empty; expected a program and its arguments, or pids, cgroup or container")
        traced, untraced = runs(argv, level, backend, stated, twins, watch_quietly, listing=listing)
        return Judgement(argv, traced, untraced)
    if twins or (cgroup and container) or bool(argv) == (seconds is not None):
        raise UsageError(
            "what runs already is watched once: expected pids with cgroup or container, and either seconds or the "
            "command of a client"
        )
    attached = attachment_to(pids, cgroup, container, level, backend, listing)
    run = attended(attached, argv, stated, math.inf if seconds is None else seconds, watch_quietly)
    return Judgement(argv, [run], [])


def attachment_to(
    pids: Sequence[int], cgroup: str | None, container: str | None, level: str, backend: str, listing: str | None
) -> Attachment:
    """What watches running processes, or a group of them; UsageError and ToolError where they cannot be watched."""
    from ioassay.host.cgroup import group_at, group_of
    from ioassay.verify.witness import Attachment, single_command

    group = group_at(cgroup) if cgroup else group_of(container) if container else None
    return Attachment(single_command.running(list(pids), group), level, backend=backend, listing=listing)


def words(command: Sequence[str | Path]) -> list[str]:
    """The words of a command, paths as text. UsageError for one text: nothing here goes through a shell."""
    if isinstance(command, str) or not all(isinstance(word, str | Path) for word in command):
        raise UsageError(f"command is {command!r}; expected a list of words, such as ['dd', 'if=data', 'of=/dev/null']")
    return list(map(str, command))


def destination(calls: str | None, level: str, backend: str, twins: int) -> str | None:
    """The absolute path of the file to list calls to; '' for a sample of each file, None for no listing.

    UsageError for what cannot be combined with a listing, and for a path that is no file of an existing folder.
    """
    if calls is None:
        return None
    if level not in (SYSCALLS, EXPLAIN):
        raise UsageError(f"--calls and --level {level}: calls are seen at level {SYSCALLS}")
    if backend not in (BACKENDS[0], BPF):
        raise UsageError(f"--calls and --backend {backend}: calls are listed by {BPF}; strace has a listing of its own")
    if twins:
        raise UsageError("--calls and --twins: a listing is of one run; give one of them")
    path = Path(calls).absolute()
    if calls and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--calls={calls}: not a file in a folder that exists; make the folder first")
    return str(path) if calls else ""


def check(level: str, backend: str) -> None:
    """UsageError for an unknown level or backend."""
    for option, value, known in (("level", level, LEVELS), ("backend", backend, BACKENDS)):
        if value not in known:
            hint = "; requests are recorded by: ioassay record" if value == "record" else ""
            raise UsageError(f"--{option} {value}: unknown; expected {', '.join(known)}{hint or nearest(value, known)}")


def devices_of(command: Sequence[str]) -> list[str]:
    """The disks under the files that a command line seems to name, and under the working directory."""
    from ioassay import host

    return sorted({name for path in (Path(), *paths_in(command)) for name in host.devices(path)})


def paths_in(argv: Sequence[str]) -> list[Path]:
    """The files, folders and block devices that a command line seems to name, each once: only guessed.

    A word, or what stands after its '=', that is a path which is there, or would be made in a folder that is there.
    """
    words = [part for word in argv[1:] for part in {word, word.partition("=")[2]} if part and not part.startswith("-")]
    return list(dict.fromkeys(Path(word) for word in words if _may_be_path(word)))


def _may_be_path(word: str) -> bool:
    path = Path(word)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return "/" in word and os.path.isdir(os.path.dirname(word))  # noqa: PTH112, PTH120 (an odd word is no error)
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)


def watch_quietly(
    command: Sequence[str],
    level: str,
    folder: Path,
    *,
    backend: str,
    reads_output: bool = True,
    server: Attachment | None = None,
    listing: str | None = None,
) -> Observed:
    """See `verify.witness.watch`: the command reads nothing, and what it prints is only kept."""
    from ioassay.verify import witness

    devices = devices_of(command)
    return witness.watch(command, level, folder, devices, backend=backend, server=server, listing=listing)


def runs(
    command: Sequence[str],
    level: str,
    backend: str,
    stated: Stated,
    twins: int,
    watch: Watch,
    *,
    listing: str | None = None,
    note: Note = lambda text: None,
) -> tuple[list[WitnessRun], list[WitnessRun]]:
    """The runs with the witness and, interleaved with these, those without it: `twins` pairs, or one run alone."""
    from ioassay.verify.witness import observed_command

    if listing is None:
        observed_command.prepare(level, backend)
        _import_judgement(command)
    found: dict[bool, list[WitnessRun]] = {True: [], False: []}
    order = [traced for _ in range(twins) for traced in random.sample([True, False], 2)] or [True]
    for number, traced in enumerate(order, start=1):
        if len(order) > 1:
            note(f"run {number} of {len(order)}, {'with' if traced else 'without'} the witness")
        run = _run(command, level if traced else OFF, backend, stated, watch, note, listing=listing)
        if len(order) > 1 and run.watched.was_interrupted:
            raise Interrupted("interrupted; the runs are judged only together")
        found[traced].append(run)
    return found[True], found[False]


def _import_judgement(argv: Sequence[str]) -> None:
    """Import what judges a run of this command, while the kernel verifies the programs that watch it."""
    for module in (
        "analysis.machine_conditions",
        "narrative.conditions_text",
        "narrative.explanation_text",
        "verify.judge",
    ):
        import_module(f"ioassay.{module}")
    if tool := formats.recognise(argv):
        formats.parser(tool)


def attended(
    attached: Attachment,
    client: Sequence[str],
    stated: Stated,
    seconds: float,
    watch: Watch,
    *,
    note: Note = lambda text: None,
    on_begin: Callable[[], object] = lambda: None,
) -> WitnessRun:
    """What runs already, watched for a time or while a client of it runs."""
    from ioassay.verify import witness

    if client:
        run = _run(client, "", "", stated, watch, note, server=attached)
        # Servers of other hosts stay unwatched. Where the server used none of the files that a claim names, these are
        # the client's, and so are the engine and the flags by which it used them.
        opened = {file.path for file in run.seen.files}
        claims = [replace(one, servers=()) if all(map(is_of_this_host, one.servers)) else one for one in run.claims]
        claims = [
            replace(one, paths=(), engine="", direct=None) if one.paths and not opened & set(one.paths) else one
            for one in claims
        ]
        return replace(run, claims=claims)
    watched = witness.attend(attached, seconds, on_begin)
    return WitnessRun(watched, [_as_opened(one, watched.seen) for one in stated.claims])


def _run(
    command: Sequence[str],
    level: str,
    backend: str,
    stated: Stated,
    watch: Watch,
    note: Note,
    *,
    server: Attachment | None = None,
    listing: str | None = None,
) -> WitnessRun:
    from ioassay.runner import conditions

    conditions.remove_leftovers()
    with supervisor.temporary_folder("ioassay-witness-") as folder:
        reads = not stated.claims
        watched = watch(command, level, folder, backend=backend, reads_output=reads, server=server, listing=listing)
        printed = {name: _text(folder / name) for name in ("stdout", "stderr") if (folder / name).is_file()}
        return WitnessRun(watched, _claims(command, printed, stated, watched.seen, note), **printed)


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


def _claims(
    command: Sequence[str], printed: Mapping[str, str], stated: Stated, seen: Observation | None, note: Note
) -> list[Claim]:
    """Those that the user states, else those of the output: by the user's pattern, or by the parser of the tool."""
    if stated.claims:
        return [_as_opened(claim, seen) for claim in stated.claims]
    stdout, stderr = printed.get("stdout", ""), printed.get("stderr", "")
    try:
        if stated.pattern is not None:
            return [
                _as_opened(claim, seen) for claim in user_claims.pattern_claims(stated.pattern, f"{stdout}\n{stderr}")
            ]
        programs = seen.programs if seen is not None else ()
        files = {name: _text(Path(name)) for name in formats.outputs(command, programs) if Path(name).is_file()}
        return formats.read(command, stdout, stderr, files, programs)
    except InputError as error:
        note(f"warning: no claim could be read: {error}")
        return []


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _judged(traced: Sequence[WitnessRun], untraced: Sequence[WitnessRun]) -> list[Verdict]:
    """The verdicts of the run that is judged worst."""
    from ioassay.analysis import machine_conditions
    from ioassay.verify.judge import Twins, judge, overall

    def rates(runs: Sequence[WitnessRun]) -> list[float]:
        """What the witness may slow down: runs of the command a second."""
        return [1 / max(run.watched.outcome.duration_s, 1e-9) for run in runs]

    twins = Twins("runs a second", rates(traced), rates(untraced)) if untraced else None
    judged = [
        judge(
            run.claims,
            run.seen,
            twins=twins,
            exit_ok=run.watched.outcome.exit_code == 0,
            contended=machine_conditions.contended(run.watched.environment),
        )
        for run in traced
    ]
    return max(judged, key=lambda verdicts: rank(overall(verdicts)))


def _operation(item: Any) -> dict[str, Any]:
    """One class without its histogram, which `observations` has."""
    return {key: value for key, value in asdict(item).items() if key != "latency"}
