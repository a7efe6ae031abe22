"""ioassay witness: any benchmark, its claim set against what the kernel saw.

A command that a user gives has the user's streams and terminal. What it prints is shown as it comes; under --json, or
where our result takes stdout, on stderr. Its exit status becomes ours: 128 and the number of a signal that ended it,
127 and 126 where it could not be started. What runs already is watched alone or beside a client.
"""

from __future__ import annotations

import json as texts
import math
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import atomic_file, units
from ioassay.api import witness_judgement
from ioassay.cli import completion_values, console, options, syntax, witness_text
from ioassay.errors import Contradicted, Interrupted, UsageError
from ioassay.hints import nearest
from ioassay.process import job_control
from ioassay.units import format_size
from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, TRUE_CLAIMS

if TYPE_CHECKING:
    from ioassay.records.observation import Observation
    from ioassay.verify.witness import Attachment, Observed


NEVER, ON_SUCCESS, ALWAYS = "never", "success", "always"
EXIT_VERDICTS = (NEVER, ON_SUCCESS, ALWAYS)
REQUIREMENTS = ("true", "confirmed")
Command = Annotated[list[str] | None, syntax.argument("COMMAND…", "The benchmark and its arguments, after --.")]
Backend = Annotated[
    str,
    syntax.option(
        "NAME",
        "auto, bpf, counters, or strace (exact, but slows the command down).",
        completion_values.words(*witness_judgement.BACKENDS),
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
    level = "explain" if explain else level
    stated, command = witness_judgement.Stated.of(claim or (), claim_regex), command or []
    witness_judgement.check(level, backend)
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: its folder does not exist; make it first")
    _check_statuses(require, exit_verdict)
    listing = witness_judgement.destination(calls, level, backend, twins)
    pids, seconds = _running(pid, cgroup, container, for_, command, twins)
    attached = None
    shown = partial(watch, quiet=json)
    if pids or cgroup or container:
        attached = witness_judgement.attachment_to(pids, cgroup, container, level, backend, listing)
        begin = partial(note_begin, attached, seconds)
        run = witness_judgement.attended(attached, command, stated, seconds, shown, note=console.note, on_begin=begin)
        judgement = witness_judgement.Judgement(command, [run], [])
    else:
        runs = witness_judgement.runs(command, level, backend, stated, twins, shown, listing=listing, note=console.note)
        judgement = witness_judgement.Judgement(command, *runs)
    result, last = judgement.as_dict(), judgement.runs[-1]
    if attached is not None:
        result["attached"] = _attached(attached, command, last.seen)
    if output is not None:
        atomic_file.write(output, texts.dumps(judgement.observations(), indent=1))
    own = status(run.watched for run in (*judgement.runs, *judgement.untraced))
    failing = exit_verdict != NEVER and _is_failing(result["verdict"], require)
    decides = exit_verdict == ALWAYS or own == 0
    with console.ending(Contradicted.exit_code if failing and decides else own):
        if json:
            console.emit(result)
        else:
            above = 0 if attached is None else _say_attached(attached, command, last.seen)
            witness_text.say_all(judgement, result) if all_ else witness_text.say(judgement, result, above)
            if listing is not None:
                witness_text.say_calls(judgement.listing)
            witness_text.say_status(result["verdict"], own, require, failing=failing, decides=decides)
        say_interruption(own)


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


def _running(
    pid: Sequence[str] | None,
    cgroup: str | None,
    container: str | None,
    time: str | None,
    command: Sequence[str],
    twins: int,
) -> tuple[list[int], float]:
    """The processes that are named, and how long they are watched. UsageError: options that do not go together."""
    if not (pid or cgroup or container):
        if time is not None:
            raise UsageError("--for is how long running processes are watched; expected --pid, --cgroup or --container")
        if not command:
            raise UsageError("Missing argument 'COMMAND…', or what runs already: --pid, --cgroup or --container")
        return [], math.inf
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


_MOST_NAMES = 3


def note_begin(attached: Attachment, seconds: float) -> None:
    """Say what is watched for how long, while it is."""
    how_long = "until it ends or Ctrl-C" if seconds == math.inf else f"for {units.format_ns(seconds * 1e9)}"
    console.note(f"watching {who(attached)} {how_long}")


def who(attached: Attachment) -> str:
    """'process 123 (redis-server)' or 'the control group …'."""
    running = attached.running
    shown = [f"{pid} ({attached.names.get(pid, '?')})" for pid in running.pids[:_MOST_NAMES]]
    if (more := len(running.pids) - _MOST_NAMES) > 0:
        shown.append(f"{more} more")
    word = "process" if len(running.pids) == 1 else "processes"
    parts = [f"{word} {', '.join(shown)}"] if shown else []
    if running.group is not None:
        names = sorted({name for pid, name in attached.names.items() if pid not in running.pids})
        few = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        parts.append(f"the control group {running.group} ({few})")
    return " and ".join(parts)


def _attached(attached: Attachment, client: Sequence[str], seen: Observation) -> dict[str, Any]:
    """For --json: whose I/O was compared with whose claims."""
    group = attached.running.group
    return {
        "pids": list(attached.running.pids),
        "cgroup": None if group is None else str(group),
        "names": {str(pid): name for pid, name in sorted(attached.names.items())},
        "client": list(client),
        "compared": comparison(attached, client),
        "ended": attached.has_ended,
        "in_flight_at_start": seen.health.get("in_flight_at_start", 0),
    }


def comparison(attached: Attachment, client: Sequence[str]) -> str:
    """The sentence on whose I/O was compared with whose claims."""
    if client:
        return f"The claims of {client[0]} were compared with the I/O of {who(attached)}, not with its own."
    until = "until it ended" if attached.has_ended else "and it goes on"
    return f"The I/O is that of {who(attached)}, from the moment of attaching, {until}."


def _say_attached(attached: Attachment, client: Sequence[str], seen: Observation) -> int:
    """Whose I/O it was, and what was under way when the watch began; the number of lines."""
    lines = console.wrapped(comparison(attached, client))
    if before := seen.health.get("in_flight_at_start", 0):
        lines += console.wrapped(f"{console.count(before, 'call')} in flight at that moment: in no count.")
    console.lines(lines)
    return len(lines)


def watch(
    command: Sequence[str],
    level: str,
    folder: Path,
    *,
    backend: str,
    quiet: bool,
    reads_output: bool = True,
    server: Attachment | None = None,
    listing: str | None = None,
) -> Observed:
    """Run it to its end; with `reads_output`, what it printed is in `stdout` and `stderr` of the new `folder`.

    `server` and `listing` are those of `witness.watch`.
    """
    from ioassay.verify import witness

    console.flush()
    watched = witness.watch(
        command,
        level,
        folder,
        witness_judgement.devices_of(command),
        backend=backend,
        stdin=None if sys.stdin is None else sys.stdin.fileno(),
        shown=((sys.stderr if quiet else sys.stdout).fileno(), sys.stderr.fileno()),
        reads_output=reads_output,
        server=server,
        listing=listing,
    )
    if watched.is_output_truncated:
        most = format_size(job_control.MOST_KEPT_BYTES)
        console.note(f"warning: only the first {most} that the command printed were searched for claims")
    if watched.unshown is not None:
        console.lose(watched.unshown)
    return watched


def status(runs: Iterable[Observed]) -> int:
    """The exit status of the first that failed."""
    return next((run.outcome.status for run in runs if run.outcome.status), 0)


def say_interruption(status: int) -> None:
    """Say last that the result is that of a command which was ended by Ctrl-C."""
    if status == Interrupted.exit_code:
        console.note("ioassay: interrupted; the result is that of what the command had done")
