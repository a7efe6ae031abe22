"""ioassay witness: any benchmark, its claim set against what the kernel saw.

A command that a user gives has the user's streams and terminal, and its exit status becomes ours (`cli.user_command`).
What runs already is watched alone or beside a client.
"""

from __future__ import annotations

import json as texts
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from ioassay import atomic_file, units
from ioassay.cli import completion_values, console, options, syntax, user_command
from ioassay.errors import Contradicted, UsageError
from ioassay.hints import nearest

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

    level, command, is_running = "explain" if explain else level, command or [], bool(pid or cgroup or container)
    if command and calls is None and not is_running:
        observed_command.prepare(level, backend)  # the kernel verifies the programs while we import the rest
    from ioassay.packs.witness import judgement_text
    from ioassay.packs.witness.witness_judgement import Setup
    from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, TRUE_CLAIMS

    shown = partial(user_command.watch, quiet=json)
    setup = Setup(level, backend, claim or (), claim_regex, calls, shown, console.note)
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: its folder does not exist; make it first")
    for option, value, known in (("require", require, REQUIREMENTS), ("exit-verdict", exit_verdict, EXIT_VERDICTS)):
        if value is not None and value not in known:
            raise UsageError(f"--{option} {value}: unknown; expected {', '.join(known)}{nearest(value, known)}")
    if require is not None and exit_verdict == NEVER:
        raise UsageError(f"--require {require} and --exit-verdict never contradict each other; leave one of them out")
    if is_running:
        pids, seconds = _running(pid, cgroup, container, for_, command, twins)
        begin = partial(judgement_text.note_begin, seconds=seconds)
        judgement = setup.attend(command, pids, cgroup, container, seconds, begin)
    elif for_ is not None:
        raise UsageError("--for is how long running processes are watched; expected --pid, --cgroup or --container")
    elif not command:
        raise UsageError("Missing argument 'COMMAND…', or what runs already: --pid, --cgroup or --container")
    else:
        judgement = setup.repeat(command, twins)
    if output is not None:
        atomic_file.write(output, texts.dumps(judgement.observations(), indent=1))
    statuses = (run.watched.outcome.status for run in (*judgement.runs, *judgement.untraced))
    own = next(filter(None, statuses), 0)
    verdict = judgement.verdict
    enough = {"true": TRUE_CLAIMS, "confirmed": {CONFIRMED}}
    failing = exit_verdict != NEVER and (verdict not in enough[require] if require else verdict == CONTRADICTED)
    decides = exit_verdict == ALWAYS or own == 0
    with console.ending(Contradicted.exit_code if failing and decides else own):
        if json:
            attached = {} if judgement.attached is None else {"attached": judgement_text.attached_as_dict(judgement)}
            console.emit({**judgement.as_dict(), **attached})
        else:
            judgement_text.say_all(judgement) if all_ else judgement_text.say(judgement)
            if calls is not None:
                judgement_text.say_calls(judgement.listing)
            judgement_text.say_status(verdict, own, require, failing=failing, decides=decides)
        user_command.say_interruption(own)


def _running(
    pid: Sequence[str] | None,
    cgroup: str | None,
    container: str | None,
    time: str | None,
    command: Sequence[str],
    twins: int,
) -> tuple[list[int], float]:
    """The processes that are named, and how long they are watched. UsageError: options that do not go together."""
    if cgroup and container:
        raise UsageError("--cgroup and --container both name one group; give one of them")
    if twins:
        raise UsageError("--twins repeats a command; what runs already cannot be repeated")
    if command and time is not None:
        raise UsageError("--for and a client command: the client's end ends the watch; give one of them")
    numbers = [text.strip() for listed in pid or () for text in listed.split(",")]
    for number in numbers:
        if not (number.isascii() and number.isdecimal() and 0 < int(number) < 1 << 31):
            raise UsageError(f"--pid {number}: not the id of a process; expected a number such as those of: pgrep NAME")
    try:
        return list(map(int, numbers)), math.inf if time is None else units.parse_duration_s(time)
    except ValueError as error:
        raise UsageError(f"--for {time}: {error}") from None
