"""The local page of a run while it lasts: a `Progress` that shows what it is told to any number of browsers."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ioassay.api.progress import Several
from ioassay.errors import Interrupted, UsageError, one_line

if TYPE_CHECKING:
    from ioassay.packs.live.page_server import PageServer
    from ioassay.roles import Trial
    from ioassay.study.model import Suite

_REPORT = "report/index.html"
"""In the folder of a run."""


class LivePage(Several):
    """The page that `--live` opens (docs/live.md). It is served while this context lasts, and shows one run.

        with LivePage() as page:
            print(page.url)
            run = study.run(progress=page)
            run.report()

    Only who has the address sees the page, and only on this machine. At the end it says how the run ended, and where
    the report is if there is one.
    """

    def __init__(self) -> None:
        from ioassay.packs.live.run_state import RunState

        self._state = RunState()
        self._server: PageServer | None = None
        super().__init__([self._state])

    @property
    def url(self) -> str:
        """The address; UsageError before the context is entered."""
        if self._server is None:
            raise UsageError("the page has no address before it is served; wanted: with LivePage() as page")
        return self._server.url

    def opened(self, folder: Path, suite: Suite, trials: Iterable[Trial]) -> None:
        """See Progress; UsageError for a second run, of which other browsers would see a part."""
        if self._state.folder is not None:
            raise UsageError(f"the page shows the run {self._state.folder}; wanted a LivePage of its own for {folder}")
        super().opened(folder, suite, trials)

    def publishing(self) -> None:
        """Show that all trials have ended, and that the report is being made."""
        self._state.publishing()

    def __enter__(self) -> Self:
        from ioassay.packs.live.page_server import PageServer

        self._server = PageServer(self._state)
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt | Interrupted):
            self._state.end("interrupted", f"The run was {str(error) or 'interrupted'}")
        elif error is not None:
            self._state.end("failed", f"The run ended with an error: {one_line(str(error))}")
        else:
            folder = self._state.folder
            report = folder / _REPORT if folder is not None else None
            self._state.end("complete", "The run has ended.", report if report and report.is_file() else None)
        if self._server is not None:
            self._server.stop()

    def __repr__(self) -> str:
        return f"<LivePage {self._server.url if self._server else 'that is not served'}>"

    def _repr_html_(self) -> str:
        if self._server is None:
            return escape(repr(self))
        url = escape(self.url)
        return f'<a href="{url}" target="_blank">{url}</a>'
