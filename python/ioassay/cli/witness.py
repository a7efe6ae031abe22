"""ioassay witness: any benchmark, its claim set against what the kernel saw."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import command_run, console, options, syntax, witness_attach, witness_calls
from ioassay.errors import Contradicted, InputError, Interrupted, UsageError

if TYPE_CHECKING:
    from ioassay.records.observation import Observation
    from ioassay.records.record import Claim
    from ioassay.verify.verdict import Verdict
    from ioassay.verify.witness import Attachment, Observed

LEVELS = ("counters", "block", "syscalls")
BACKENDS = ("auto", "bpf", "counters", "strace")
NEVER, ON_SUCCESS, ALWAYS = "never", "success", "always"
EXIT_VERDICTS = (NEVER, ON_SUCCESS, ALWAYS)
REQUIREMENTS = ("true", "confirmed")
Command = Annotated[
    list[str] | None, syntax.Argument(metavar="COMMAND…", help="The benchmark and its arguments, after --.")
]
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
    command: Command = None,
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
    pid: Annotated[
        list[str] | None,
        syntax.Option(metavar="PID,…", help="Watch running processes with their children; COMMAND is their client."),
    ] = None,
    cgroup: Annotated[str | None, syntax.Option(metavar="PATH", help="Watch the processes of a control group.")] = None,
    container: Annotated[
        str | None, syntax.Option(metavar="NAME", help="Watch a container, by name or id, or a systemd unit.")
    ] = None,
    for_: Annotated[
        str | None, syntax.Option("--for", metavar="TIME", help="How long to watch them; until Ctrl-C by default.")
    ] = None,
    calls: Annotated[
        str | None,
        syntax.Option(metavar="FILE", bare="", help="List calls on files, some of each file or all of them to FILE."),
    ] = None,
    require: Annotated[
        str | None,
        syntax.Option(
            metavar="LEVEL", help="true: exit 4 unless the claim is true. confirmed: exit 4 unless it is CONFIRMED."
        ),
    ] = None,
    exit_verdict: Annotated[
        str,
        syntax.Option(metavar="WHEN", help="When a verdict sets the exit status: success (of COMMAND), always, never."),
    ] = ON_SUCCESS,
    output: Annotated[Path | None, syntax.Option(metavar="FILE", help="Write the whole observation as JSON.")] = None,
    json: options.Json = False,
) -> None:
    """Run COMMAND and compare its claims with the kernel's counts. Exit 4: the kernel contradicts a claim.

    Otherwise the exit status is COMMAND's own. Claims are read from the output of fio (best with
    --output-format=json), IOzone, filesuite, dd, db_bench, sysbench fileio, ioping, Bonnie++, hdparm, pgbench,
    redis-benchmark, elbencho and vdbench, from any other by --claim-regex, or given by --claim. Examples: ioassay
    witness -- dd if=data of=/dev/null bs=1M; ioassay witness --twins 3 -- fio job.fio; ioassay witness --pid 123
    --for 10s; ioassay witness --pid 123 -- redis-benchmark
    """
    from ioassay.cli import witness_text

    console.use_json(json)
    stated, command = _stated(claim, claim_regex), command or []
    _check(level, backend, output)
    _check_statuses(require, exit_verdict)
    listing = witness_calls.target(calls, level, backend, twins)
    running = witness_attach.Choice(pid, cgroup, container, for_)
    running.check(command, twins)
    attached = running.attachment(level, backend, listing) if running.is_made else None
    if attached is not None:
        runs, untraced = [_attended(attached, command, stated, running.seconds(), quiet=json)], list[Run]()
    else:
        runs, untraced = _runs(command, level, backend, stated, twins, quiet=json, listing=listing)
    judged = _judged(runs, untraced)
    result = witness_text.result(command, runs, judged)
    if attached is not None:
        result["attached"] = witness_attach.as_dict(attached, command, runs[-1].seen)
    if listing is not None:
        result["listing"] = witness_calls.as_dict(runs[-1].watched, listing)
    if output is not None:
        _keep(output, runs)
    own = command_run.status(run.watched for run in (*runs, *untraced))
    failing = exit_verdict != NEVER and _is_failing(result["verdict"], require)
    decides = exit_verdict == ALWAYS or own == 0
    with console.ending(Contradicted.exit_code if failing and decides else own):
        if json:
            console.emit(result)
        else:
            if attached is not None:
                witness_attach.say(attached, command, runs[-1].seen)
            witness_text.say(runs, judged, result)
            if listing is not None:
                witness_calls.say(runs[-1].watched, listing)
            witness_text.say_status(result["verdict"], own, require, failing=failing, decides=decides)
        command_run.say_interruption(own)


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


def _check_statuses(require: str | None, exit_verdict: str) -> None:
    for option, value, known in (("require", require, REQUIREMENTS), ("exit-verdict", exit_verdict, EXIT_VERDICTS)):
        if value is not None and value not in known:
            raise UsageError(f"--{option} {value}: unknown; wanted {', '.join(known)}")
    if require is not None and exit_verdict == NEVER:
        raise UsageError(f"--require {require} and --exit-verdict never contradict each other; leave one of them out")


def _is_failing(verdict: str, require: str | None) -> bool:
    """Whether a verdict asks for exit status 4."""
    from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, TRUE_CLAIMS

    if require is None:
        return verdict == CONTRADICTED
    return verdict not in (TRUE_CLAIMS if require == "true" else {CONFIRMED})


def _runs(
    command: Sequence[str],
    level: str,
    backend: str,
    stated: Stated,
    twins: int,
    *,
    quiet: bool,
    listing: str | None = None,
) -> tuple[list[Run], list[Run]]:
    """The runs with the witness and, interleaved with these, those without it: `twins` pairs, or one run alone."""
    import random

    from ioassay.records.observation import OFF

    runs: dict[bool, list[Run]] = {True: [], False: []}
    order = [traced for _ in range(twins) for traced in random.sample([True, False], 2)] or [True]
    for number, traced in enumerate(order, start=1):
        if len(order) > 1:
            console.note(f"run {number} of {len(order)}, {'with' if traced else 'without'} the witness")
        run = _run(command, level if traced else OFF, backend, stated, quiet=quiet, listing=listing)
        if len(order) > 1 and run.watched.was_interrupted:
            raise Interrupted("interrupted; the runs are judged only together")
        runs[traced].append(run)
    return runs[True], runs[False]


def _attended(attached: Attachment, client: Sequence[str], stated: Stated, seconds: float, *, quiet: bool) -> Run:
    """What runs already, watched for a time or while a client of it runs."""
    from dataclasses import replace
    from functools import partial

    from ioassay.verify import witness

    if client:
        run = _run(client, "", "", stated, quiet=quiet, server=attached)
        return replace(run, claims=witness_attach.claims_on_server(run.claims, run.seen))
    watched = witness.attend(attached, seconds, partial(witness_attach.note_begin, attached, seconds))
    return Run(watched, [_as_opened(one, watched.seen) for one in stated.claims])


def _run(
    command: Sequence[str],
    level: str,
    backend: str,
    stated: Stated,
    *,
    quiet: bool,
    server: Attachment | None = None,
    listing: str | None = None,
) -> Run:
    from ioassay.process import supervisor
    from ioassay.runner import conditions

    conditions.remove_leftovers()
    with (
        tempfile.TemporaryDirectory(prefix="ioassay-witness-") as name,
        supervisor.if_killed(lambda: shutil.rmtree(name, ignore_errors=True)),
    ):
        folder = Path(name)
        watched = command_run.watch(
            command,
            level,
            folder,
            backend=backend,
            quiet=quiet,
            reads_output=not stated.claims,
            server=server,
            listing=listing,
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
