"""The local page of a run while it lasts: a `Progress` that shows what it is told to any number of browsers.

It is served by HTTP on the loopback interface, its news as server-sent events (HTML Standard, 9.2).

Only who knows the address gets anything: it has a random token. A request whose Host is not a name of this machine is
refused, so that no page of another site reaches it through a name that it resolves to 127.0.0.1. There is GET and
nothing else; nothing is read from a client but its request, and no answer allows other origins.

Each connection has a thread of its own, which waits for news and writes at most one event a second. The runner's thread
never waits for any of them. They end with the process.
"""

from __future__ import annotations

import functools
import json
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ioassay import debug_log
from ioassay.errors import Interrupted, UsageError, one_line
from ioassay.packs.live.run_state import Cursor, RunState
from ioassay.report import theme
from ioassay.runner.progress import Several

if TYPE_CHECKING:
    from ioassay.roles import Trial
    from ioassay.study.model import Suite

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


class PageServer:
    """Serves the page of `state` from `start` to `stop`."""

    def __init__(self, state: RunState) -> None:
        self._token = secrets.token_urlsafe(18)
        self._http = _Http(state, self._token)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.2,), name="ioassay-live", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self._http.server_address[1]}/{self._token}/"

    def start(self) -> None:
        """Accept connections from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Give clients a moment to take the news of the end, which the state has; then close."""
        self._http.await_farewells(_FAREWELL_S)
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CLIENTS

    def __init__(self, state: RunState, token: str) -> None:
        super().__init__((ADDRESS, 0), functools.partial(_Handler, state, token))
        self._slots = threading.BoundedSemaphore(_MOST_CLIENTS)
        self._followers, self._none_follow = 0, threading.Condition()

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

    def await_farewells(self, timeout_s: float) -> None:
        """Wait until no client follows the run any more, at most so long."""
        with self._none_follow:
            self._none_follow.wait_for(lambda: self._followers == 0, timeout_s)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    timeout = _PATIENCE_S

    def __init__(self, state: RunState, token: str, *connection: Any) -> None:
        self._state, self._token = state, token
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Answer with a file of the page or with the run's news."""
        if not _OWN_NAMES.fullmatch(self.headers.get("Host", "")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "expected 127.0.0.1 or localhost as Host")
            return
        token, _, name = self.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(errors="replace"), self._token.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
        elif name == "events":
            self.server.follow(self._send_events)
        elif name in _FILES:
            self._send_file(*_FILES[name])
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        """Add what every answer bears, errors included."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Name the server, without the versions of what it runs in."""
        return "ioassay"

    def log_message(self, format: str, *parts: object) -> None:
        """Log a request where a fault is looked for; its path has the token, so that is left out."""
        debug_log.debug("live", f"{self.client_address[0]}: {self.command}")

    def _send_file(self, name: str, kind: str) -> None:
        text = (_TEMPLATE / name).read_text(encoding="utf-8")
        body = (theme.css_variables() + text if kind == "text/css" else text).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
        """See Progress; UsageError for a second run, of which other browsers would see a part."""
        if self._state.folder is not None:
            raise UsageError(
                f"the page shows the run {self._state.folder}; expected a LivePage of its own for {folder}"
            )
        super().opened(folder, suite, trials)

    def publishing(self) -> None:
        """Show that all trials have ended, and that the report is being made."""
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
