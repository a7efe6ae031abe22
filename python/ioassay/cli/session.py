"""What the measuring commands have in common: they show a run while it lasts, publish it, and end by its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from ioassay import units
from ioassay.api import computing
from ioassay.api.progress import Several
from ioassay.cli import console, progress
from ioassay.errors import Contradicted, IoassayError, UsageError
from ioassay.roles import WRITE

if TYPE_CHECKING:
    from ioassay import LivePage
    from ioassay.api.execution import Announce, Execution
    from ioassay.api.run_results import Run
    from ioassay.runner.preflight import Storage
    from ioassay.runner.run_facts import KeptFile


def ready(begin: Callable[[Announce], Execution], *, live: bool = False) -> Execution:
    """What `begin` makes, under a line that shows what is examined; then the drives that are loaded.

    UsageError, before anything is made, where the run is to be shown on a `live` page and there is none.
    """
    if live:
        _live_page()
    with progress.examining() as announce:
        execution = begin(announce)
    say_devices(execution.devices())
    return execution


def say_devices(devices: Sequence[Storage]) -> None:
    """Which drives are loaded, and what is on them: the moment to notice that another one was meant."""
    for device in devices:
        serial = f"serial {device.serial}" if device.serial else ""
        about = ", ".join(filter(None, (device.model, serial, units.format_size(device.size_bytes))))
        doing = "is written" if device.access == WRITE else "is read"
        named = "" if device.name == device.path else f" ({device.name})"
        where = f"{device.host}: " if device.host else ""
        console.note(f"{where}{device.path}{named} {doing}: {about}")
        for found in device.content:
            console.note(f"    {found}")


def measure(
    execution: Execution,
    workers: int | None = None,
    wait_quiet_s: float = 0.0,
    *,
    executor: str | None = None,
    live: bool = False,
    blocks: int | None = None,
) -> Run:
    """Run what is left under a bar and, with `live`, on a local page that follows all of it; then publish."""
    total, forecast_s = execution.trials, execution.forecast_s(computing.at_once(executor, workers))
    with _live_page()() if live else nullcontext() as page:
        if page:
            console.note(f"live    {page.url}")
        with _noting_kept_files(execution), progress.shown(total, forecast_s) as shown:
            views = Several([shown, page]) if page else shown
            run = execution.run(views, executor=executor, workers=workers, wait_quiet_s=wait_quiet_s, blocks=blocks)
        if page:
            page.publishing()
        run.publish()
    return run


def _live_page() -> type[LivePage]:
    import ioassay

    page: type[LivePage] | None = getattr(ioassay, "LivePage", None)
    if page is None:
        raise UsageError("--live needs the pack 'live', which this installation does not have; leave the option out")
    return page


@contextmanager
def _noting_kept_files(execution: Execution) -> Iterator[None]:
    """Say at an early end which files stay."""
    try:
        yield
    except BaseException:
        with suppress(OSError, IoassayError):
            for line in kept_lines(execution.kept_files()):
                console.note(line)
        raise


def kept_lines(kept: Sequence[KeptFile]) -> Iterator[str]:
    """Files that stay are large, and lie where nobody looks for what a run left."""
    if not kept:
        return
    size = units.format_size(sum(file["bytes"] for file in kept))
    first, others = kept[0], f" and {len(kept) - 1} more" if len(kept) > 1 else ""
    yield f"kept    {first['path']}{others} ({size}), which the next run uses again"
    yield f"        to remove it: {first['remove']}" + ("; --json lists the others" if others else "")


def end(run: Run) -> None:
    """Exit 4 when the kernel contradicts what a tool claimed; 1 when trials failed, or all were skipped.

    The report stands all the same.
    """
    refuse_contradicted(run)
    tally = run.tally
    if tally.skipped and not (tally.ok or tally.failed or tally.unneeded):
        console.note("no trial was measured: the report has the reasons")
        raise console.Exit(1)
    if run.failed:
        raise console.Exit(1)


def refuse_contradicted(run: Run) -> None:
    """Exit 4 when the kernel contradicts what a tool claimed."""
    if contradicted := run.contradicted:
        console.note(f"the kernel contradicts {console.count(contradicted, 'claim')}; the verdicts say why")
        raise console.Exit(Contradicted.exit_code)
