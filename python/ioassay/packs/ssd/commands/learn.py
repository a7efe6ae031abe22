"""ioassay drive learn: a device or a file measured by staged loads, for a description of its drive."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.errors import UsageError

_SIZE = "Range that is used, from the beginning; by default what the budget suffices for."
_KEYS = {
    "read_only": syntax.row(bool, False, "--read-only", "Write nothing; what writes would tell stays unknown."),
    "budget": syntax.row(str, "10m", "TIME", "Time for all measurements."),
    "size": syntax.row(str | None, None, "SIZE", _SIZE),
}
_FILE = "Write the description there; default: RUN/drive.toml."
_FROM = "Measure nothing: describe the drive that these runs loaded, also imported ones; by default as ./drive.toml."


@syntax.takes({**_KEYS, "destroy_data": options.CONSENT["destroy_data"]})
def learn(
    target: Annotated[str | None, syntax.argument("TARGET", "A block device, or a file that is made.")] = None,
    *,
    from_: Annotated[list[Path] | None, syntax.option("--from RUN", _FROM, completion_values.runs)] = None,
    describe: Annotated[Path | None, syntax.option("FILE", _FILE)] = None,
    output: options.Output = None,
    resume: Annotated[Path | None, syntax.option("RUN", "Resume a stopped run.", completion_values.runs)] = None,
    live: options.Live = False,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Measure a drive, and describe it by the options of the simulated drive: all data on it is lost.

    Staged runs of fio, each witnessed, make one run: first what the host costs, then reads and writes of growing size
    and depth. With --read-only nothing is written, and nothing is lost.

    Examples: ioassay drive learn test --budget 2m; ioassay drive learn /dev/nvme0n1 --read-only; ioassay drive learn
    --from runs/mine
    """
    from ioassay.api.execution import RunOptions
    from ioassay.packs.ssd.twin import learning

    chosen = RunOptions(**options.of_run(given))
    changed = [name for name, row in _KEYS.items() if given[name] != row.default]
    if from_:
        if target is not None or resume is not None or output is not None or changed:
            raise UsageError("--from describes what was measured; expected no target and no other change with it")
        _describe(from_, describe or Path(learning.DESCRIPTION))
        return
    if resume is not None:
        if target is not None or output is not None or changed:
            raise UsageError("--resume goes on as the run was begun; expected no target and no other change with it")
        begin = partial(learning.resume, resume, chosen)
    elif target is None:
        raise UsageError("no target given; expected a block device such as /dev/nvme0n1, or a file to make")
    else:
        budget_s = options.seconds("--budget", given["budget"])
        settings = learning.Settings(not given["read_only"], budget_s, given["size"])
        begin = partial(learning.begin, target, settings, output, chosen)
    found = session.measure(begin, live=live)
    assert isinstance(found, learning.Twin)
    # An unfit machine lets the report draw no conclusion, and a run that has no twin says why all the same.
    results = [f"twin    {f'none: {found.fit.misfit}' if found.fit.misfit else found.describe(describe)}"]
    console.answer(found.as_dict, lambda: session.say(found, results))
    session.end(found)


def _describe(runs: list[Path], path: Path) -> None:
    from ioassay.packs.ssd.questions import twin
    from ioassay.packs.ssd.twin import learning

    fit, written = learning.from_runs(runs, path)
    found = [asdict(each) for each in fit.parameters]
    said = twin.statements(fit, is_laid_out=True)
    texts = [*(line for one in said for line in console.wrapped(str(one))), f"twin    {written}"]
    answer = {"file": str(written), "options": dict(fit.options), "parameters": found}
    console.answer(lambda: answer, lambda: console.lines(texts))
