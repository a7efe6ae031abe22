"""The page's server: who gets an answer, and that no client, however it behaves, delays the run."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.corpora import cases
from tests.patience import PATIENCE_S, until

from ioassay.packs.live import live_page
from ioassay.packs.live.live_page import PageServer, RunState
from ioassay.roles import CurrentRates, Rates, Trial

TRIAL = Trial("1", "s", "fio", {"x": 1}, {}, {}, {}, 0, 1, 0)


class Scene:
    """A server with its state."""

    def __init__(self) -> None:
        self.state = RunState("Title", Path("/runs/r"), 1, 10.0, [TRIAL])
        self.server = PageServer(self.state)
        self.server.start()
        self.port = int(urlsplit(self.server.url).port or 0)
        self.path = urlsplit(self.server.url).path

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def get(self, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    def follow(self) -> socket.socket:
        """A client that has begun to follow the run and reads nothing by itself."""
        connection = self.connect()
        connection.sendall(f"GET {self.path}events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        return connection

    def tick(self, count: int = 1) -> None:
        """The runner tells of `count` seconds of a trial."""
        for number in range(count):
            self.state.measuring(TRIAL, CurrentRates(float(number), Rates(1.0, 2.0)))


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.state.end("complete", "It ended.")
    made.server.stop()


def events(connection: socket.socket) -> Iterator[dict[str, Any]]:
    with connection.makefile("rb") as lines:
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def test_the_page_asks_for_nothing_but_its_own_files(scene: Scene) -> None:
    answers = {name: scene.get(scene.path + name) for name in ("", "live.css", "live.js")}
    assert {name: answer.status for name, answer in answers.items()} == {"": 200, "live.css": 200, "live.js": 200}
    for answer in answers.values():
        headers = dict(answer.getheaders())
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert headers["Server"] == "ioassay"
        assert not [name for name in headers if name.lower().startswith("access-control")]
    assert b"prefers-color-scheme: dark" in answers["live.css"].read()
    assert b"http" not in answers[""].read()


def test_only_the_whole_address_is_answered(scene: Scene) -> None:
    token = scene.path.strip("/")
    assert len(token) >= 22
    for path in ("/", "/events", f"/{token[:-1]}/", f"/{token}x/events", f"{scene.path}../x", f"{scene.path}run", "/é"):
        connection = scene.connect()
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        assert connection.recv(100).split()[1] == b"404", path


@cases("live", "requests")
def test_requests(scene: Scene, case: dict[str, Any]) -> None:
    for name in ("", "events") if case["status"] != 200 else ("",):
        assert scene.get(scene.path + name, case["method"], **case.get("headers", {})).status == case["status"]


def test_a_client_gets_the_news_and_the_end(scene: Scene) -> None:
    news = events(scene.follow())
    assert next(news)["title"] == "Title"
    scene.state.started(TRIAL)
    scene.tick()
    later = next(news)
    assert (later["running"], later["tool"]["iops"]) == ("s x=1 #1", 1.0)
    scene.state.end("complete", "It ended.", Path("/r/index.html"))
    last = list(news)[-1]
    assert (last["end"], last["report"]) == ("complete", "/r/index.html")


def test_news_come_once_a_second_at_most_however_much_happens(scene: Scene) -> None:
    news = events(scene.follow())
    next(news)
    began_s = time.monotonic()
    while time.monotonic() < began_s + 2.5:
        scene.tick()
        time.sleep(0.01)
    scene.state.end("complete", "")
    assert 2 <= len(list(news)) <= time.monotonic() - began_s + 2  # the end is news of its own


def test_fifty_clients_follow_and_all_get_the_end(scene: Scene) -> None:
    begun: list[str] = []

    def read(client: socket.socket) -> str:
        news = events(client)
        begun.append(next(news)["title"])
        return str(list(news)[-1]["end"])

    with ThreadPoolExecutor(50) as pool:
        readers = [pool.submit(read, scene.follow()) for _ in range(50)]
        until(lambda: len(begun) == 50)
        scene.tick(100)
        scene.state.end("complete", "")
        assert [reader.result(PATIENCE_S) for reader in readers] == ["complete"] * 50


def test_a_client_that_never_reads_delays_neither_run_nor_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's patience has no end here: whoever waited for the client would never come back."""
    monkeypatch.setattr(live_page._Handler, "timeout", None)
    scene.server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # connections have it from here
    with scene.connect() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        stuck.sendall(f"GET {scene.path}events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        news = events(scene.follow())
        next(news)
        until(lambda: scene.server._followers == 2)
        for number in range(5000):  # far more than the buffers hold
            scene.state.started(Trial(f"t{number}", "s" * 100, "fio", {"x": number}, {}, {}, {}, 0, 1, 0))
        scene.tick(1000)
        rows = 0
        while rows < 5000:
            rows += len(next(news)["rows"])
        assert rows == 5000
        scene.state.end("complete", "")
        assert list(news)[-1]["end"] == "complete"
        scene.server.stop()
        assert scene.server._followers == 1  # it never got the end


GARBAGE = {
    "binary": bytes(range(256)) * 20,
    "line without end": b"GET /" + b"a" * 200_000,
    "header without end": b"GET / HTTP/1.1\r\nX: " + b"b" * 200_000,
    "thousands of headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    "no version": b"GET /\r\n\r\n",
    "strange version": b"GET / HTTP/9.9\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303"),
    "body": b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n" + b"c" * 100_000,
    "nothing": b"",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_gets_no_page_and_harms_no_other(scene: Scene, garbage: bytes, capfd: pytest.CaptureFixture) -> None:
    connection = scene.connect()
    try:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    except OSError:
        answer = b""
    assert b"200 OK" not in answer
    assert scene.get(scene.path).status == 200
    assert capfd.readouterr() == ("", "")


def test_one_connection_too_many_is_closed_and_gives_way_later(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page._Handler, "timeout", None)  # else the first might be over before the last is there
    idle = [scene.connect() for _ in range(live_page._MOST_CLIENTS)]
    until(lambda: not is_answered(scene))
    for connection in idle:
        connection.close()
    until(lambda: is_answered(scene))


def is_answered(scene: Scene) -> bool:
    """Whether one more client gets the page; it is closed at once where there are too many."""
    try:
        return scene.get(scene.path).status == 200
    except (ConnectionError, http.client.HTTPException):
        return False


def test_a_client_that_goes_away_is_no_error(scene: Scene, capfd: pytest.CaptureFixture) -> None:
    for _ in range(20):
        scene.follow().close()
    for _ in range(5):
        scene.tick()
        time.sleep(0.2)
    assert capfd.readouterr() == ("", "")
