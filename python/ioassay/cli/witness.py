"""ioassay witness: any benchmark, its claim set against what the kernel saw."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay import atomic_file
from ioassay.api import witness_judgement
from ioassay.cli import (
    command_run,
    completion_values,
    console,
    options,
    syntax,
    witness_attach,
    witness_calls,
    witness_text,
)
from ioassay.errors import Contradicted, UsageError
from ioassay.hints import nearest
from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, TRUE_CLAIMS

if TYPE_CHECKING:
    from ioassay.api.witness_judgement import Judgement

NEVER, ON_SUCCESS, ALWAYS = "never", "success", "always"
EXIT_VERDICTS = (NEVER, ON_SUCCESS, ALWAYS)
REQUIREMENTS = ("true", "confirmed")
Command = Annotated[list[str] | None, syntax.argument("COMMAND…", "The benchmark and its arguments, after --.")]
Backend = Annotated[
    str,
    syntax.option(
        "NAME",
        "auto, bpf, counters, or strace (exact, but slows the command down).",
        completion_values.words("auto", "bpf", "counters", "strace"),
    ),
]
Require = Annotated[
    str | None,
    syntax.option(
        "LEVEL",
        "true: exit 4 unless the claim is true. confirmed: exit 4 unless it is CONFIRMED.",
        completion_values.words(*REQUIREMENTS),
    ),
]
ExitVerdict = Annotated[
    str,
    syntax.option(
        "WHEN",
        "When a verdict sets the exit status: success (of COMMAND), always, never.",
        completion_values.words(*EXIT_VERDICTS),
    ),
]
Level = Annotated[
    str,
    syntax.option(
        "LEVEL",
        "counters (free), block (free), syscalls (half a µs per call), or explain (some µs per operation).",
        completion_values.words("counters", "block", "syscalls", "explain"),
    ),
]


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("witness", interspersed=False)(witness)


def witness(
    command: Command = None,
    level: Level = "syscalls",
    backend: Backend = "auto",
    claim: Annotated[
        list[str] | None, syntax.option("KEY=VALUE,…", "What it claims: bytes=…,ops=…,seconds=…,kind=read|write,path=…")
    ] = None,
    claim_regex: Annotated[
        str | None,
        syntax.option(
            "PATTERN",
            "Read claims from the output, one a match: (?P<bytes>…), ops, seconds, rate, latency, unit, kind …",
        ),
    ] = None,
    twins: Annotated[
        int, syntax.option("N", "Run it N times more with the witness and N times without it.", min=0)
    ] = 0,
    pid: Annotated[
        list[str] | None,
        syntax.option("PID,…", "Watch running processes with their children; COMMAND is their client."),
    ] = None,
    cgroup: Annotated[str | None, syntax.option("PATH", "Watch the processes of a control group.")] = None,
    container: Annotated[
        str | None, syntax.option("NAME", "Watch a container, by name or id, or a systemd unit.")
    ] = None,
    for_: Annotated[str | None, syntax.option("--for TIME", "How long to watch them; until Ctrl-C by default.")] = None,
    explain: Annotated[
        bool, syntax.option("--explain", "Show where the time of reads and writes went: --level explain.")
    ] = False,
    calls: Annotated[
        str | None, syntax.option("FILE", "List calls on files, some of each file or all of them to FILE.", bare="")
    ] = None,
    require: Require = None,
    exit_verdict: ExitVerdict = ON_SUCCESS,
    output: Annotated[Path | None, syntax.option("FILE", "Write the whole observation as JSON.")] = None,
    all_: Annotated[
        bool, syntax.option("--all", "Show each claim with its notes, then the calls and requests of the command.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Run COMMAND and compare its claims with the kernel's counts. Exit 4: the kernel contradicts a claim.

    Otherwise the exit status is COMMAND's own. Claims are read from the output of fio (best with
    --output-format=json), IOzone, filesuite, dd, db_bench, sysbench fileio, ioping, Bonnie++, hdparm, pgbench,
    redis-benchmark, elbencho and vdbench, from any other by --claim-regex, or given by --claim. Examples: ioassay
    witness -- dd if=data of=/dev/null bs=1M; ioassay witness --twins 3 -- fio job.fio; ioassay witness --pid 123
    --for 10s; ioassay witness --pid 123 -- redis-benchmark
    """
    from ioassay.verify.witness import observed_command

    console.use_json(json)
    level = "explain" if explain else level
    stated, command = witness_judgement.Stated.of(claim or (), claim_regex), command or []
    witness_judgement.check(level, backend)
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: its folder does not exist; make it first")
    _check_statuses(require, exit_verdict)
    listing = observed_command.destination(calls, level, backend, twins)
    running = witness_attach.Choice(pid, cgroup, container, for_)
    running.check(command, twins)
    attached = running.attachment(level, backend, listing) if running.is_made else None
    watch = partial(command_run.watch, quiet=json)
    if attached is not None:
        seconds = running.seconds()
        begin = partial(witness_attach.note_begin, attached, seconds)
        run = witness_judgement.attended(attached, command, stated, seconds, watch, note=console.note, on_begin=begin)
        judgement = witness_judgement.Judgement(command, [run], [])
    else:
        runs = witness_judgement.runs(command, level, backend, stated, twins, watch, listing=listing, note=console.note)
        judgement = witness_judgement.Judgement(command, *runs)
    result, last = judgement.as_dict(), judgement.runs[-1]
    if attached is not None:
        result["attached"] = witness_attach.as_dict(attached, command, last.seen)
    if output is not None:
        _keep(output, judgement)
    own = command_run.status(run.watched for run in (*judgement.runs, *judgement.untraced))
    failing = exit_verdict != NEVER and _is_failing(result["verdict"], require)
    decides = exit_verdict == ALWAYS or own == 0
    with console.ending(Contradicted.exit_code if failing and decides else own):
        if json:
            console.emit(result)
        else:
            above = 0 if attached is None else witness_attach.say(attached, command, last.seen)
            witness_text.say_all(judgement, result) if all_ else witness_text.say(judgement, result, above)
            if listing is not None:
                witness_calls.say(judgement.listing)
            witness_text.say_status(result["verdict"], own, require, failing=failing, decides=decides)
        command_run.say_interruption(own)


def _check_statuses(require: str | None, exit_verdict: str) -> None:
    for option, value, known in (("require", require, REQUIREMENTS), ("exit-verdict", exit_verdict, EXIT_VERDICTS)):
        if value is not None and value not in known:
            raise UsageError(f"--{option} {value}: unknown; expected {', '.join(known)}{nearest(value, known)}")
    if require is not None and exit_verdict == NEVER:
        raise UsageError(f"--require {require} and --exit-verdict never contradict each other; leave one of them out")


def _is_failing(verdict: str, require: str | None) -> bool:
    """Whether a verdict asks for exit status 4."""
    if require is None:
        return verdict == CONTRADICTED
    return verdict not in (TRUE_CLAIMS if require == "true" else {CONFIRMED})


def _keep(output: Path, judgement: Judgement) -> None:
    import json

    atomic_file.write(output, json.dumps(judgement.observations(), indent=1))
