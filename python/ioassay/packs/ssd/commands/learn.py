"""ioassay drive learn: a device or a file measured by staged loads, for a description of its drive."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from ioassay.api.execution import RunOptions
from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.errors import UsageError

_KEYS = {
    "read_only": syntax.row(bool, False, "--read-only", "Write nothing; what writes would tell stays unknown."),
    "budget": syntax.row(str, "10m", "TIME", "Time for all measurements."),
    "size": syntax.row(
        *(str | None, None, "SIZE", "Range that is used, from the beginning; by default what the budget suffices for.")
    ),
}


@syntax.takes({**_KEYS, "destroy_data": options.CONSENT["destroy_data"]})
def learn(
    target: Annotated[str | None, syntax.argument("TARGET", "A block device, or a file that is made.")] = None,
    *,
    output: options.Output = None,
    resume: Annotated[Path | None, syntax.option("RUN", "Resume a stopped run.", completion_values.runs)] = None,
    live: options.Live = False,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Measure a drive, and describe it by the options of the simulated drive: all data on it is lost.

    Staged runs of fio, each witnessed, make one run: first what the host costs, then reads and writes of growing size
    and depth. With --read-only nothing is written, and nothing is lost.

    Examples: ioassay drive learn test --budget 2m; ioassay drive learn /dev/nvme0n1 --read-only
    """
    from ioassay.packs.ssd.twin import learning

    chosen = RunOptions(**options.of_run(given))
    if resume is not None:
        changed = [name for name, row in _KEYS.items() if given[name] != row.default]
        if target is not None or output is not None or changed:
            raise UsageError("--resume goes on as the run was begun; expected no target and no other change with it")
        begin = partial(learning.resume, resume, chosen)
    elif target is None:
        raise UsageError("no target given; expected a block device such as /dev/nvme0n1, or a file to make")
    else:
        settings = learning.Settings(
            not given["read_only"], options.seconds("--budget", given["budget"]), given["size"]
        )
        begin = partial(learning.begin, target, settings, output, chosen)
    found = session.measure(begin, live=live)
    console.answer(found.as_dict, lambda: session.say(found))
    session.end(found)
