"""The page of a run that `--live` opens: its address is a note, it follows the run, and it closes with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ioassay.api.progress import Progress
from ioassay.cli import console
from ioassay.errors import Interrupted, one_line
from ioassay.roles import CurrentRates, Trial

if TYPE_CHECKING:
    from ioassay.live.run_state import RunState
    from ioassay.records.record import Record
    from ioassay.store.run_folder import RunStore


@contextmanager
def opened(wanted: bool, store: RunStore, total: int, forecast_s: float) -> Iterator[RunState | None]:
    """The state that the page shows while this lasts; None where no page is `wanted`."""
    if not wanted:
        yield None
        return
    from ioassay.live.page_server import PageServer
    from ioassay.live.run_state import RunState

    suite = store.suite()
    responses = {study.name: study.analysis.responses for study in suite.studies}
    state = RunState(suite.title or suite.name, store.root.absolute(), total, forecast_s, store.trials(), responses)
    server = PageServer(state)
    server.start()
    console.note(f"live    {server.url}")
    try:
        yield state
    except (KeyboardInterrupt, Interrupted):
        state.end("interrupted", f"The run was interrupted. Resume it with: {store.resume_command}")
        raise
    except BaseException as error:
        state.end("failed", f"The run ended with an error: {one_line(str(error))}")
        raise
    finally:
        server.stop()


class Several(Progress):
    """Hands everything on to several views of a run."""

    def __init__(self, views: Sequence[Progress | RunState]) -> None:
        self._views = views

    def preparing(self, text: str, share: float) -> None:
        """See run.Progress."""
        for view in self._views:
            view.preparing(text, share)

    def started(self, trial: Trial) -> None:
        """See run.Progress."""
        for view in self._views:
            view.started(trial)

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """See run.Progress."""
        for view in self._views:
            view.measuring(trial, rates)

    def ended(self, trial: Trial, status: str) -> None:
        """See run.Progress."""
        for view in self._views:
            view.ended(trial, status)

    def recorded(self, trial: Trial, record: Record) -> None:
        """See run.Progress."""
        for view in self._views:
            view.recorded(trial, record)

    def said(self, text: str) -> None:
        """A line about how it goes."""
        for view in self._views:
            view.said(text)
