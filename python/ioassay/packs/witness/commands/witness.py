"""ioassay witness: any benchmark, its claim set against what the kernel saw.

A command that a user gives has the user's streams and terminal, and its exit status becomes ours (`cli.console`).
What runs already is watched alone or beside a client.
"""

from __future__ import annotations

import json as texts
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

from ioassay import atomic_file, units
from ioassay.cli import console, options, syntax
from ioassay.cli.completion_values import words
from ioassay.cli.syntax import row
from ioassay.errors import Contradicted, UsageError
from ioassay.hints import nearest
from ioassay.pack import listed

NEVER, ON_SUCCESS, ALWAYS = "never", "success", "always"
EXIT_VERDICTS = (NEVER, ON_SUCCESS, ALWAYS)
REQUIREMENTS = ("true", "confirmed")
Command = Annotated[list[str] | None, syntax.argument("COMMAND…", "The benchmark and its arguments, after --.")]
_LEVEL = "counters (free), block (free), syscalls (half a µs per call), or explain (some µs per operation)."
_BACKENDS = ("auto", "bpf", "counters", *listed("observers", {}))
_BACKEND = "What observes: " + ", ".join(_BACKENDS) + "."
_CLAIM = "What it claims: bytes=…,ops=…,seconds=…,kind=read|write,path=…"
_PATTERN = "Read claims from the output, one a match: (?P<bytes>…), ops, seconds, rate, latency, unit, kind …"
_TWINS = "Run it N times more with the witness and N times without it."
_PID = "Watch running processes with their children; COMMAND is their client."
_EXPLAIN = "Show where the time of reads and writes went: --level explain."
_CALLS = "List calls on files, some of each file or all of them to FILE."
_REQUIRE = "true: exit 4 unless the claim is true. confirmed: exit 4 unless it is CONFIRMED."
_EXIT_VERDICT = "When a verdict sets the exit status: success (of COMMAND), always, never."
_ALL = "Show each claim with its notes, then the calls and requests of the command."


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command(interspersed=False)(witness)


@syntax.takes(
    {
        "level": row(str, "syscalls", "LEVEL", _LEVEL, words("counters", "block", "syscalls", "explain")),
        "backend": row(str, "auto", "NAME", _BACKEND, words(*_BACKENDS)),
        "claim": row(list[str] | None, None, "KEY=VALUE,…", _CLAIM),
        "claim_regex": row(str, None, "PATTERN", _PATTERN),
        "twins": row(int, 0, "N", _TWINS, min=0),
        "pid": row(list[str] | None, None, "PID,…", _PID),
        "cgroup": row(str, None, "PATH", "Watch the processes of a control group."),
        "container": row(str, None, "NAME", "Watch a container, by name or id, or a systemd unit."),
        "time": row(str, None, "--for TIME", "How long to watch them; until Ctrl-C by default."),
        "explain": row(bool, False, "--explain", _EXPLAIN),
        "calls": row(str, None, "FILE", _CALLS, bare=""),
        "require": row(str, None, "LEVEL", _REQUIRE, words(*REQUIREMENTS)),
        "exit_verdict": row(str, ON_SUCCESS, "WHEN", _EXIT_VERDICT, words(*EXIT_VERDICTS)),
        "output": row(Path, None, "FILE", "Write the whole observation as JSON."),
        "everything": row(bool, False, "--all", _ALL),
    }
)
def witness(command: Command = None, *, json: options.Json = False, **given: Any) -> None:
    """Run COMMAND and compare its claims with the kernel's counts. Exit 4: the kernel contradicts a claim.

    Otherwise the exit status is COMMAND's own. Claims are read from the output of fio (best with
    --output-format=json), IOzone, filesuite, dd, db_bench, sysbench fileio, ioping, Bonnie++, hdparm, pgbench,
    redis-benchmark, elbencho and vdbench, from any other by --claim-regex, or given by --claim. Examples: ioassay
    witness -- dd if=data of=/dev/null bs=1M; ioassay witness --twins 3 -- fio job.fio; ioassay witness --pid 123
    --for 10s; ioassay witness --pid 123 -- redis-benchmark
    """
    from ioassay.verify.witness import observed_command

    want, argv = SimpleNamespace(**given), command or []
    level, is_running = "explain" if want.explain else want.level, bool(want.pid or want.cgroup or want.container)
    if argv and want.calls is None and not is_running:
        observed_command.prepare(level, want.backend)  # the kernel verifies the programs while we import the rest
    from ioassay.packs.witness import judgement_text
    from ioassay.packs.witness.witness_judgement import Setup
    from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, TRUE_CLAIMS

    shown = partial(console.watch_command, quiet=json)
    setup = Setup(level, want.backend, want.claim or (), want.claim_regex, want.calls, shown, console.note)
    require, exit_verdict = want.require, want.exit_verdict
    if want.output is not None and not want.output.absolute().parent.is_dir():
        raise UsageError(f"--output {want.output}: its folder does not exist; make it first")
    for option, value, known in (("require", require, REQUIREMENTS), ("exit-verdict", exit_verdict, EXIT_VERDICTS)):
        if value is not None and value not in known:
            raise UsageError(f"--{option} {value}: unknown; expected {', '.join(known)}{nearest(value, known)}")
    if require is not None and exit_verdict == NEVER:
        raise UsageError(f"--require {require} and --exit-verdict never contradict each other; leave one of them out")
    if is_running:
        pids, seconds = _running(want, argv)
        begin = partial(judgement_text.note_begin, seconds=seconds)
        judgement = setup.attend(argv, pids, want.cgroup, want.container, seconds, begin)
    elif want.time is not None:
        raise UsageError("--for is how long running processes are watched; expected --pid, --cgroup or --container")
    elif not argv:
        raise UsageError("Missing argument 'COMMAND…', or what runs already: --pid, --cgroup or --container")
    else:
        judgement = setup.repeat(argv, want.twins)
    if want.output is not None:
        atomic_file.write(want.output, texts.dumps(judgement.observations(), indent=1))
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
            judgement_text.say_all(judgement) if want.everything else judgement_text.say(judgement)
            if want.calls is not None:
                judgement_text.say_calls(judgement.listing)
            judgement_text.say_status(verdict, own, require, failing=failing, decides=decides)
        console.say_interruption(own)


def _running(want: SimpleNamespace, client: Sequence[str]) -> tuple[list[int], float]:
    """The processes that are named, and how long they are watched. UsageError: options that do not go together."""
    if want.cgroup and want.container:
        raise UsageError("--cgroup and --container both name one group; give one of them")
    if want.twins:
        raise UsageError("--twins repeats a command; what runs already cannot be repeated")
    if client and want.time is not None:
        raise UsageError("--for and a client command: the client's end ends the watch; give one of them")
    numbers = [text.strip() for given in want.pid or () for text in given.split(",")]
    for number in numbers:
        if not (number.isascii() and number.isdecimal() and 0 < int(number) < 1 << 31):
            raise UsageError(f"--pid {number}: not the id of a process; expected a number such as those of: pgrep NAME")
    try:
        return list(map(int, numbers)), math.inf if want.time is None else units.parse_duration_s(want.time)
    except ValueError as error:
        raise UsageError(f"--for {want.time}: {error}") from None
