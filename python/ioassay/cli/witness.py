"""ioassay witness: any benchmark, its claim set against what the kernel saw."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import console, options, output_tail, syntax
from ioassay.errors import Contradicted, InputError, ToolError, UsageError

if TYPE_CHECKING:
    from ioassay.records.observation import Observation
    from ioassay.records.record import Claim
    from ioassay.verify.verdict import Verdict
    from ioassay.verify.witness import Observed

LEVELS = ("counters", "block", "syscalls")
BACKENDS = ("auto", "bpf", "counters", "strace")
Command = Annotated[list[str], syntax.Argument(metavar="COMMAND…", help="The benchmark and its arguments, after --.")]
Backend = Annotated[
    str,
    syntax.Option(metavar="NAME", help="auto, bpf, counters, or strace (exact, but slows the command down)."),
]


@dataclass(frozen=True)
class Run:
    """One run of the command, what it claims and what that is worth."""

    watched: Observed
    claims: Sequence[Claim]

    @property
    def seen(self) -> Observation:
        assert self.watched.seen is not None
        return self.watched.seen


@dataclass(frozen=True)
class Stated:
    """What the user states: the claims themselves, or a pattern that finds them in the output."""

    claims: Sequence[Claim]
    pattern: re.Pattern[str] | None


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("witness", interspersed=False)(witness)


def witness(
    command: Command,
    level: Annotated[
        str, syntax.Option(metavar="LEVEL", help="counters (free), block (free), or syscalls (half a µs per call).")
    ] = "syscalls",
    backend: Backend = "auto",
    claim: Annotated[
        list[str] | None,
        syntax.Option(metavar="KEY=VALUE,…", help="What it claims: bytes=…,ops=…,seconds=…,kind=read|write,path=…"),
    ] = None,
    claim_regex: Annotated[
        str | None,
        syntax.Option(
            metavar="PATTERN",
            help="Read claims from the output, one a match: (?P<bytes>…), ops, seconds, rate, latency, unit, kind …",
        ),
    ] = None,
    twins: Annotated[
        int, syntax.Option(min=0, metavar="N", help="Run it N times more with the witness and N times without it.")
    ] = 0,
    output: Annotated[Path | None, syntax.Option(metavar="FILE", help="Write the whole observation as JSON.")] = None,
    json: options.Json = False,
) -> None:
    """Run COMMAND and compare its claims with the kernel's counts. Exit 4: the kernel contradicts a claim.

    Claims are read from the output of fio (best with --output-format=json), IOzone, filesuite, dd, db_bench, sysbench
    fileio, ioping, Bonnie++, hdparm, pgbench, redis-benchmark, elbencho and vdbench, from any other by --claim-regex,
    or given by --claim. Examples: ioassay witness -- dd if=data of=/dev/null bs=1M; ioassay witness --twins 3 -- fio
    job.fio
    """
    from ioassay.cli import witness_text

    console.use_json(json)
    stated = _stated(claim, claim_regex)
    _check(level, backend, output)
    runs, untraced = _runs(command, level, backend, stated, twins, quiet=json)
    judged = _judged(runs, untraced)
    result = witness_text.result(command, runs, judged)
    if output is not None:
        _keep(output, runs)
    if json:
        console.emit(result)
    else:
        witness_text.say(runs, judged, result)
    _end(runs, judged)


def _stated(claim: Sequence[str] | None, claim_regex: str | None) -> Stated:
    from ioassay.formats import claim_pattern, stated_claim

    if claim and claim_regex is not None:
        raise UsageError("--claim and --claim-regex exclude each other; leave one of them out")
    pattern = claim_pattern.parse(claim_regex) if claim_regex is not None else None
    return Stated([stated_claim.parse(text) for text in claim or ()], pattern)


def _check(level: str, backend: str, output: Path | None) -> None:
    for option, value, known in (("level", level, LEVELS), ("backend", backend, BACKENDS)):
        if value not in known:
            hint = "; requests are recorded by: ioassay record" if value == "record" else ""
            raise UsageError(f"--{option} {value}: unknown; wanted {', '.join(known)}{hint}")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: its folder does not exist; make it first")


def _runs(
    command: Sequence[str], level: str, backend: str, stated: Stated, twins: int, *, quiet: bool
) -> tuple[list[Run], list[Run]]:
    """The runs with the witness and, interleaved with these, those without it: `twins` pairs, or one run alone."""
    import random

    from ioassay.records.observation import OFF

    runs: dict[bool, list[Run]] = {True: [], False: []}
    order = [traced for _ in range(twins) for traced in random.sample([True, False], 2)] or [True]
    for number, traced in enumerate(order, start=1):
        if len(order) > 1:
            console.note(f"run {number} of {len(order)}, {'with' if traced else 'without'} the witness")
        runs[traced].append(_run(command, level if traced else OFF, backend, stated, quiet=quiet))
    return runs[True], runs[False]


def _run(command: Sequence[str], level: str, backend: str, stated: Stated, *, quiet: bool) -> Run:
    from ioassay import host
    from ioassay.process import supervisor
    from ioassay.runner import conditions
    from ioassay.verify import witness

    _check_program(command[0], backend)
    conditions.remove_leftovers()
    devices = {name for path in (Path(), *witness.paths_in(command)) for name in host.devices(path)}
    shown = sys.stderr if quiet else sys.stdout
    with (
        tempfile.TemporaryDirectory(prefix="ioassay-witness-") as name,
        supervisor.if_killed(lambda: shutil.rmtree(name, ignore_errors=True)),
    ):
        folder = Path(name)
        sys.stdout.flush()
        with output_tail.followed({folder / "stdout": shown.buffer, folder / "stderr": sys.stderr.buffer}):
            watched = witness.watch(
                command, level, folder, sorted(devices), backend=backend, stdin=output_tail.piped_in()
            )
        return Run(watched, _claims(command, folder, stated, watched.seen))


def _as_opened(claim: Claim, seen: Observation | None) -> Claim:
    """The claim with its files under the names by which they were opened: links lead to them as well."""
    from dataclasses import replace

    opened = {(file.dev, file.inode): file.path for file in seen.files if file.path} if seen is not None else {}
    return replace(claim, paths=tuple(opened.get(_identity(path), path) for path in claim.paths))


def _identity(path: str) -> tuple[str, int]:
    """Device and inode as the kernel has them; of no file where the path leads to none."""
    try:
        found = os.stat(path)  # noqa: PTH116 (any text, also one that is no path)
    except (OSError, ValueError):
        return "", 0
    return f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}", found.st_ino


def _check_program(program: str, backend: str) -> None:
    """strace would start, and say by itself that there is no such program."""
    if backend == "strace" and shutil.which(program) is None:
        raise ToolError(f"cannot start '{program}': no such program in PATH, or it may not be executed")


def _claims(command: Sequence[str], folder: Path, stated: Stated, seen: Observation | None) -> list[Claim]:
    """Those that the user states, else those of the output: by the user's pattern, or by the parser of the tool."""
    from ioassay import formats
    from ioassay.formats import claim_pattern

    if stated.claims:
        return [_as_opened(claim, seen) for claim in stated.claims]
    stdout, stderr = _text(folder / "stdout"), _text(folder / "stderr")
    try:
        if stated.pattern is not None:
            return [_as_opened(claim, seen) for claim in claim_pattern.read(stated.pattern, f"{stdout}\n{stderr}")]
        files = {name: _text(Path(name)) for name in formats.outputs(command) if Path(name).is_file()}
        return formats.read(command, stdout, stderr, files)
    except InputError as error:
        console.note(f"warning: no claim could be read: {error}")
        return []


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _judged(runs: Sequence[Run], untraced: Sequence[Run]) -> list[Verdict]:
    """The verdicts of the run that is judged worst."""
    from ioassay.analysis import machine_conditions
    from ioassay.verify.judge import judge, overall
    from ioassay.verify.observer_effect import Twins
    from ioassay.verify.verdict import rank

    twins = Twins("runs a second", list(map(_rate, runs)), list(map(_rate, untraced))) if untraced else None
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
    return max(judged, key=lambda verdicts: rank(overall(verdicts)))


def _rate(run: Run) -> float:
    """What the witness may slow down: runs of the command a second."""
    return 1 / max(run.watched.outcome.duration_s, 1e-9)


def _keep(output: Path, runs: Sequence[Run]) -> None:
    import json
    from dataclasses import asdict

    from ioassay import atomic_file

    table = [{"claims": [asdict(claim) for claim in run.claims], "seen": run.seen.as_dict()} for run in runs]
    atomic_file.write(output, json.dumps(table, indent=1))


def _end(runs: Sequence[Run], judged: Sequence[Verdict]) -> None:
    from ioassay.verify.verdict import contradicted

    if contradicted(judged):
        raise console.Exit(Contradicted.exit_code)
    if any(run.watched.outcome.exit_code != 0 for run in runs):
        raise console.Exit(1)
