"""ioassay witness: any benchmark, its claim set against what the kernel saw."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import console, options, output_tail, syntax, witness_attach, witness_calls
from ioassay.errors import Contradicted, InputError, ToolError, UsageError

if TYPE_CHECKING:
    from ioassay.records.observation import Observation
    from ioassay.records.record import Claim
    from ioassay.verify.verdict import Verdict
    from ioassay.verify.witness import Attachment, Observed

LEVELS = ("counters", "block", "syscalls")
BACKENDS = ("auto", "bpf", "counters", "strace")
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
    output: Annotated[Path | None, syntax.Option(metavar="FILE", help="Write the whole observation as JSON.")] = None,
    json: options.Json = False,
) -> None:
    """Run COMMAND and compare its claims with the kernel's counts. Exit 4: the kernel contradicts a claim.

    Claims are read from the output of fio (best with --output-format=json), IOzone, dd and db_bench, or given by
    --claim. Examples: ioassay witness -- dd if=data of=/dev/null bs=1M; ioassay witness --twins 3 -- fio job.fio;
    ioassay witness --pid 123 --for 10s; ioassay witness --pid 123 -- redis-benchmark
    """
    from ioassay.cli import witness_text

    console.use_json(json)
    stated, command = _stated(claim), command or []
    _check(level, backend, output)
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
    if json:
        console.emit(result)
    else:
        if attached is not None:
            witness_attach.say(attached, command, runs[-1].seen)
        witness_text.say(runs, judged, result)
        if listing is not None:
            witness_calls.say(runs[-1].watched, listing)
    _end(runs, judged)


def _stated(claim: Sequence[str] | None) -> list[Claim]:
    from ioassay.formats import stated_claim

    return [stated_claim.parse(text) for text in claim or ()]


def _check(level: str, backend: str, output: Path | None) -> None:
    for option, value, known in (("level", level, LEVELS), ("backend", backend, BACKENDS)):
        if value not in known:
            hint = "; requests are recorded by: ioassay record" if value == "record" else ""
            raise UsageError(f"--{option} {value}: unknown; wanted {', '.join(known)}{hint}")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: its folder does not exist; make it first")


def _runs(
    command: Sequence[str],
    level: str,
    backend: str,
    stated: Sequence[Claim],
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
        runs[traced].append(_run(command, level if traced else OFF, backend, stated, quiet=quiet, listing=listing))
    return runs[True], runs[False]


def _attended(
    attached: Attachment, client: Sequence[str], stated: Sequence[Claim], seconds: float, *, quiet: bool
) -> Run:
    """What runs already, watched for a time or while a client of it runs."""
    from dataclasses import replace

    from ioassay.verify import witness

    if client:
        run = _run(client, "", "", stated, quiet=quiet, server=attached)
        return replace(run, claims=witness_attach.claims_on_server(run.claims, run.seen))
    witness_attach.note_begin(attached, seconds)
    watched = witness.attend(attached, seconds)
    return Run(watched, [_as_opened(one, watched.seen) for one in stated])


def _run(
    command: Sequence[str],
    level: str,
    backend: str,
    stated: Sequence[Claim],
    *,
    quiet: bool,
    server: Attachment | None = None,
    listing: str | None = None,
) -> Run:
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
                command,
                level,
                folder,
                sorted(devices),
                backend=backend,
                stdin=output_tail.piped_in(),
                server=server,
                listing=listing,
            )
        return Run(watched, [_as_opened(one, watched.seen) for one in stated] or _claims(command, folder))


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


def _claims(command: Sequence[str], folder: Path) -> list[Claim]:
    from ioassay import formats

    files = {name: _text(Path(name)) for name in formats.outputs(command) if Path(name).is_file()}
    try:
        return formats.read(command, _text(folder / "stdout"), _text(folder / "stderr"), files)
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
