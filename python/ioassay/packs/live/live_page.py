"""The local page of a run while it lasts: a `Progress` that shows what it is told to any number of browsers.

`RunState` has what the run has done so far. The runner's thread writes it and waits for nobody. Nothing is queued for a
reader: each says what it has seen (`Cursor`) and gets what is new, so that a slow one costs nothing.

`PageServer` serves it by HTTP on the loopback interface, its news as server-sent events (HTML Standard, 9.2), at most
one a second. Only who knows the address gets anything: it has a random token. A request whose Host is not a name of
this machine is refused, so that no page of another site reaches it through a name that it resolves to 127.0.0.1.
There is GET and nothing else. Each connection has a thread of its own, which ends with the process.
"""

from __future__ import annotations

import functools
import json
import re
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ioassay import debug_log, metrics, units
from ioassay.analysis import machine_conditions
from ioassay.errors import Interrupted, UsageError, one_line
from ioassay.narrative import conditions_text
from ioassay.records.record import OK, Record
from ioassay.report import page
from ioassay.roles import CurrentRates, Rates, Trial
from ioassay.runner.progress import Progress, RemainingTime, Several
from ioassay.study import plan

if TYPE_CHECKING:
    from ioassay.roles import Trial
    from ioassay.study.model import Suite


PLANNED, RUNNING = "planned", "running"
_MOST_POINTS = 900
"""Of the charts: a quarter of an hour at one a second."""
_MOST_METRICS = 2
_REASON_LETTERS = 200

Row = tuple[int, str, str, int, str, str, str]
"""Number, study, point, repetition from 1, status, result, how long it took."""
Point = tuple[float, float | None, float | None, float | None]
"""Time since the run's start in s; IOPS of the tool and of the device; the device's mean latency in ns."""


@dataclass(frozen=True)
class Cursor:
    version: int = -1
    changes: int = 0
    points: int = 0


@dataclass
class RunState(Progress):
    """The state of the run in `folder`, of `total` trials that were expected to take `forecast_s`.

    All of it may be known later (`opened`, `planned`). `responses` are the metrics that a study is about, by its name.
    """

    title: str = "Waiting for the run"
    folder: Path | None = None
    total: int = 0
    forecast_s: float = 0.0
    trials: Iterable[Trial] = ()
    responses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._began_s = self.clock()
        self._left = RemainingTime(self.total, self.forecast_s, self.clock)
        self._rows: list[Row] = []
        self._numbers: dict[str, int] = {}
        self._changes: list[int] = []
        """Numbers of the rows that changed, in turn."""
        self._points: deque[Point] = deque(maxlen=_MOST_POINTS)
        self._point_count = self._version = 0
        self._counts: dict[str, int] = {}
        self._running: dict[str, tuple[Trial, int, float]] = {}
        """The trials that run by their ids, with the numbers of their rows and their starts."""
        self._rates: tuple[CurrentRates, float, Trial] | None = None
        """The latest rates, when they came, and whose they are."""
        self._now = dict.fromkeys(("note", "conditions", "grade", "end", "end_text", "report", "report_uri"), "")
        """What is replaced and never added to, as the page takes it."""
        for trial in self.trials:
            self._number(trial)

    def opened(self, folder: Path, suite: Suite, trials: Iterable[Trial]) -> None:
        with self._changed:
            self.title, self.folder = suite.title or suite.name, folder.absolute()
            self.responses = {study.name: study.analysis.responses for study in suite.studies}
            for trial in trials:
                self._number(trial)
        self._replace()

    def planned(self, trials: int, seconds: float) -> None:
        """The run begins: the number of its trials, and the time that all are expected to take."""
        with self._changed:
            self.total, self.forecast_s, self._began_s = trials, seconds, self.clock()
            self._left = RemainingTime(trials, seconds, self.clock)
        self._replace()

    def grown(self, trials: int) -> None:
        with self._changed:
            self.total = self._left.total = trials
        self._replace()

    def preparing(self, text: str, share: float) -> None:
        self._replace(note=f"{text} {share:.0%}")

    def started(self, trial: Trial) -> None:
        with self._changed:
            number = self._number(trial)
            self._running[trial.id] = trial, number, self.clock()
            self._left.start(trial.id)
            self._set(number, RUNNING)
        self._replace(note="")

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """A trial's tool runs; where several hosts measure, the rates of the latest trial are shown."""
        if self._running and trial.id != next(reversed(self._running)):
            return
        tool, device = (source.iops if source else None for source in (rates.tool, rates.storage))
        self._add_point(tool, device, rates.latency_ns)
        self._rates = rates, self.clock(), trial
        self._replace(note="")

    def ended(self, trial: Trial, status: str) -> None:
        with self._changed:
            running = self._running.pop(trial.id, None)
            self._left.end(trial.id)
            self._counts[status] = self._counts.get(status, 0) + 1
            self._set(self._number(trial), status)
        if running is not None:
            self._add_point(None, None, None)  # the lines of two trials are not joined
        self._replace()

    def recorded(self, trial: Trial, record: Record) -> None:
        result = one_line(record.reason)[:_REASON_LETTERS] if record.status != OK else self._result(record)
        with self._changed:
            self._set(self._number(trial), record.status, result, units.format_duration(record.duration_s))
        if (environment := record.environment) is None:
            self._replace()
            return
        conditions = machine_conditions.summary(record.trial["study"], [environment])
        _, *others = map(str, conditions_text.statements(conditions))
        self._replace(grade=conditions_text.GRADES[conditions.grade], conditions=" ".join(others))

    def said(self, text: str) -> None:
        self._replace(note=text)

    def publishing(self) -> None:
        self._rates = None
        self._replace(note="analysing the records and writing the report")

    def end(self, how: str, text: str, report: Path | None = None) -> None:
        """The run ended: `how` is complete, interrupted or failed. Later ends change nothing."""
        if not self.has_ended:
            self._rates = None
            files = {"report": str(report), "report_uri": report.as_uri()} if report else {}
            self._replace(end=how, end_text=text, note="", **files)

    @property
    def has_ended(self) -> bool:
        return bool(self._now["end"])

    def await_change(self, cursor: Cursor, timeout_s: float) -> bool:
        """Wait for something that is new behind the cursor; False where nothing came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._version != cursor.version, timeout_s)

    def await_end(self, timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.has_ended, timeout_s)

    def news(self, cursor: Cursor) -> tuple[dict[str, Any], Cursor]:
        """What is new behind the cursor, as the page takes it, and the cursor behind that; all of it for `Cursor()`."""
        with self._changed:
            changed = sorted(set(islice(self._changes, cursor.changes, None)))
            missed = min(self._point_count - cursor.points, len(self._points))
            points = list(islice(self._points, len(self._points) - missed, None))
            seen = Cursor(self._version, len(self._changes), self._point_count)
            rows = [self._rows[number] for number in changed]
            now, running, counts = dict(self._now), list(self._running.values()), dict(self._counts)
            rates, rates_at_s, measured = self._rates or (CurrentRates(0.0), 0.0, None)
            left_s = self._left.seconds()
        name, row, began_s = "", None, None
        if running:
            trial, row, began_s = running[-1]
            others = f" and {len(running) - 1} more" if len(running) > 1 else ""
            name = f"{trial.study} {plan.describe(trial.point)} #{trial.repetition + 1}{others}"
        return {
            **now,
            "title": self.title,
            "folder": str(self.folder or ""),
            "total": self.total,
            "counts": counts,
            "elapsed_s": self.clock() - self._began_s,
            "left_s": left_s,
            "running": name,
            "running_row": row,
            "running_s": None if began_s is None else self.clock() - began_s,
            "rates_age_s": self.clock() - rates_at_s,
            "rates_row": self._numbers[measured.id] if measured else None,
            "tool": _source(measured.driver if measured else "", rates.tool),
            "device": _source(rates.device, rates.storage),
            "latency_ns": rates.latency_ns,
            "whole": cursor == Cursor(),
            "rows": rows,
            "points": points,
        }, seen

    def _number(self, trial: Trial) -> int:
        """The number of a trial's row, which a search adds as it goes."""
        if trial.id not in self._numbers:
            number = self._numbers[trial.id] = len(self._rows)
            point = plan.describe(trial.point)
            self._rows.append((number, trial.study, point, trial.repetition + 1, PLANNED, "", ""))
            self._changes.append(number)
        return self._numbers[trial.id]

    def _set(self, number: int, status: str, result: str = "", took: str = "") -> None:
        self._rows[number] = (*self._rows[number][:4], status, result, took)
        self._changes.append(number)

    def _add_point(self, tool: float | None, device: float | None, latency_ns: float | None) -> None:
        with self._changed:
            self._points.append((round(self.clock() - self._began_s, 1), tool, device, latency_ns))
            self._point_count += 1

    def _replace(self, **parts: str) -> None:
        with self._changed:
            self._now |= parts
            self._version += 1
            self._changed.notify_all()

    def _result(self, record: Record) -> str:
        """The first metrics that the study is about, else a rate and a tail latency where there are any."""
        known = record.metrics
        names = [name for name in self.responses.get(record.trial["study"], ()) if name in known]
        if not names:
            first = (next((name for name in known if name.endswith(end)), "") for end in (".iops", ".lat.p99"))
            names = list(filter(None, first))
        labelled = ((metrics.metric(name).label, metrics.format_metric(name, known[name])) for name in names)
        return "; ".join(f"{label}: {value}" for label, value in islice(labelled, _MOST_METRICS))


def _source(name: str, rates: Rates | None) -> dict[str, object] | None:
    return {"name": name, "iops": rates.iops, "bytes_per_s": rates.bytes_per_s} if rates else None


ADDRESS = "127.0.0.1"
_REPORT = "report/index.html"
"""In the folder of a run."""
_TEMPLATE = Path(__file__).parent / "template"
_MOST_CLIENTS = 64
_EVENT_EVERY_S = 1.0
_ALIVE_EVERY_S = 15.0
"""A comment goes to a client where nothing is new: writing is how its end is noticed."""
_PATIENCE_S = 5.0
"""How long a client may take to send a piece of its request, or to take a piece of the answer."""
_FAREWELL_S = 5.0
"""How long the end of the run waits for clients to take the news of it."""
_OWN_NAMES = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.I)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FILES = {
    "": ("live.html", "text/html"),
    "live.css": ("live.css", "text/css"),
    "live.js": ("live.js", "text/javascript"),
}


class PageServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CLIENTS

    def __init__(self, state: RunState) -> None:
        self._token = secrets.token_urlsafe(18)
        super().__init__((ADDRESS, 0), functools.partial(_Handler, state, self._token))
        self._thread = threading.Thread(target=self.serve_forever, args=(0.2,), name="ioassay-live", daemon=True)
        self._slots = threading.BoundedSemaphore(_MOST_CLIENTS)
        self._followers, self._none_follow = 0, threading.Condition()

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_address[1]}/{self._token}/"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Give clients a moment to take the news of the end, which the state has; then close."""
        with self._none_follow:
            self._none_follow.wait_for(lambda: self._followers == 0, _FAREWELL_S)
        self.shutdown()
        self._thread.join()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread of its own; one too many is closed."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or took too long, is no error of the run."""
        debug_log.debug("live", f"a client's connection ended: {client_address}")

    def follow(self, send: Callable[[], None]) -> None:
        """Count a client as one who follows the run while `send` lasts."""
        with self._none_follow:
            self._followers += 1
        try:
            send()
        finally:
            with self._none_follow:
                self._followers -= 1
                self._none_follow.notify_all()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = _PATIENCE_S

    def __init__(self, state: RunState, token: str, *connection: Any) -> None:
        self._state, self._token = state, token
        super().__init__(*connection)

    def do_GET(self) -> None:
        if not _OWN_NAMES.fullmatch(self.headers.get("Host", "")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "expected 127.0.0.1 or localhost as Host")
            return
        token, _, name = self.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(errors="replace"), self._token.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
        elif name == "events":
            self.server.follow(self._send_events)
        elif name in _FILES:
            file, kind = _FILES[name]
            text = (_TEMPLATE / file).read_text(encoding="utf-8")
            body = (page.css_variables() + text if kind == "text/css" else text).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Name the server, without the versions of what it runs in."""
        return "ioassay"

    def log_message(self, format: str, *parts: object) -> None:
        """Log a request where a fault is looked for; its path has the token, so that is left out."""
        debug_log.debug("live", f"{self.client_address[0]}: {self.command}")

    def _send_events(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.wfile.write(b"retry: 2000\n\n")
        cursor, has_ended = Cursor(), False
        while not has_ended:
            if self._state.await_change(cursor, _ALIVE_EVERY_S):
                news, cursor = self._state.news(cursor)
                has_ended = bool(news["end"])
                self.wfile.write(b"data: " + json.dumps(news, separators=(",", ":")).encode() + b"\n\n")
                self._state.await_end(_EVENT_EVERY_S)
            else:
                self.wfile.write(b":\n\n")


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
        if self._state.folder is not None:
            raise UsageError(
                f"the page shows the run {self._state.folder}; expected a LivePage of its own for {folder}"
            )
        super().opened(folder, suite, trials)

    def publishing(self) -> None:
        self._state.publishing()

    def __enter__(self) -> Self:
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
