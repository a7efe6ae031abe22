"""`--live` on real runs: the address on stderr, the page while trials run, its end, interruption and exit status."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ...cli import command_server
from ...cli.command_server import Running
from ...cli.conftest import start
from ...patience import PATIENCE_S, until

FIO = """
title = "Null engine"
driver = "fio"
repetitions = 1
[params]
ioengine = "null"
rw = "randread"
size = "1GiB"
rate_iops = 1000
runtime = "8s"
[factors]
bs = ["4KiB"]
[watch]
monitors = []
"""
NULL = """
title = "Null"
driver = "null"
repetitions = 3
params = { duration = "500ms" }
[factors]
x = [1, 2]
[watch]
monitors = []
"""
STRESS = """
title = "Stress"
driver = "stress_ng"
repetitions = 1
[params]
stressor = "null"
workers = 1
timeout = "2s"
[watch]
monitors = []
"""


@pytest.fixture(scope="module", autouse=True)
def commands() -> Iterator[None]:
    """The server that forks commands ends with this file."""
    yield
    command_server.end()


@contextmanager
def running(folder: Path, study: str, *words: str) -> Iterator[tuple[Running, str]]:
    """A command, and the address that it prints."""
    (folder / "study.toml").write_text(study)
    with start(*words, cwd=folder, of_its_own=True) as command:
        until(lambda: re.search(r"^live .*\n", command.err, re.MULTILINE) or command.has_ended())
        line = re.search(r"^live    (http://127\.0\.0\.1:\d+/[\w-]{22,}/)$", command.err, re.MULTILINE)
        assert line, command.err
        yield command, line[1]


def news_of(url: str) -> Iterator[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}events", timeout=PATIENCE_S) as lines:
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


@pytest.mark.fio
def test_a_run_of_fio_is_followed_to_its_report(tmp_path: Path) -> None:
    with running(tmp_path, FIO, "run", "study.toml", "--live", "--output", "run") as (command, url):
        page = urllib.request.urlopen(url, timeout=PATIENCE_S).read()
        news = list(news_of(url))
        assert command.wait() == 0, command.err
        out = command.out
    assert b'<script src="live.js"' in page
    assert next(each["total"] for each in news if each["total"]) == 1  # a reader may come before the run
    assert {"running", "ok"} <= {row[4] for each in news for row in each["rows"]} <= {"planned", "running", "ok"}
    stated = [each["tool"]["iops"] for each in news if each["tool"]]
    assert any(100 <= iops <= 10_000 for iops in stated)  # the limit, about: it may wait for a processor
    assert news[-1]["end"] == "complete"
    assert news[-1]["report"] == str(tmp_path / "run/report/index.html")
    assert Path(news[-1]["report"]).exists()
    assert news[-1]["counts"] == {"ok": 1}
    assert "live" not in out
    record = json.loads(next((tmp_path / "run/trials").glob("*/record.json")).read_text())
    assert 0 < record["metrics"]["read.iops"] <= 1250


@pytest.mark.fio
def test_an_interruption_ends_run_and_page_as_without_it(tmp_path: Path) -> None:
    long = FIO.replace("8s", "300s")
    with running(tmp_path, long, "run", "study.toml", "--live", "--output", "run") as (command, url):
        news = news_of(url)
        assert next(each for each in news if each["running"])
        os.killpg(command.pid, signal.SIGINT)
        last = list(news)[-1]
        assert command.wait() == 130
        err = command.err
    assert last["end"] == "interrupted"
    assert "what was recorded is kept. Go on with: ioassay run --resume run" in last["end_text"]
    assert "Traceback" not in err


def test_computed_trials_are_counted_and_json_stays_json(tmp_path: Path) -> None:
    words = ("run", "study.toml", "--live", "--json", "--output", "run", "--workers", "1")
    with running(tmp_path, NULL, *words) as (command, url):
        news = list(news_of(url))
        assert command.wait() == 0
        out = command.out
    assert json.loads(out)["trials"]["ok"] == 6
    assert news[-1]["counts"] == {"ok": 6}
    ends = {row[0]: row[4] for each in news for row in each["rows"]}  # each has the rows that are new
    assert list(ends.values()) == ["ok"] * 6


def test_an_error_of_the_run_is_the_end_of_its_page(tmp_path: Path) -> None:
    study = NULL.replace("repetitions = 3", "repetitions = 300").replace('duration = "500ms"', 'sleep = "100ms"')
    with running(tmp_path, study, "run", "study.toml", "--live", "--output", "run", "--workers", "1") as (command, url):
        news = news_of(url)
        next(each for each in news if each["running"])
        trials = tmp_path / "run/trials"
        while not trials.is_file():  # the run makes the folder again, perhaps in between
            shutil.rmtree(trials, ignore_errors=True)
            with suppress(IsADirectoryError):
                trials.write_text("no folder")
        last = list(news)[-1]
        assert command.wait() == 1
        err = command.err
    assert last["end"] == "failed"
    assert last["end_text"].removeprefix("The run ended with an error: ") in err


def on_terminal(folder: Path, study: str, *words: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    (folder / "study.toml").write_text(study)
    ours, theirs = pty.openpty()
    written = b""
    with start(*words, cwd=folder, streams=(theirs, theirs, theirs), of_its_own=True) as command:
        os.close(theirs)
        try:
            while piece := os.read(ours, 65536):
                written += piece
        except OSError:  # its last process closed it
            pass
        finally:
            os.close(ours)
        assert command.wait() == 0, written.decode()
    return written.decode()


@pytest.mark.fio
def test_the_terminal_shows_the_latest_second_below_the_bar(tmp_path: Path) -> None:
    written = on_terminal(tmp_path, FIO, "run", "study.toml", "--output", "run")
    lines = re.findall(r"\r\n(\d+ s(?:  now [^\x1b]*)?)\x1b\[A", written)
    assert lines
    rates = [re.fullmatch(r"\d+ s  now fio [\d.]+ ?k? IOPS, [\d.]+ [kM]B/s", line) for line in lines]
    assert any(rates)
    assert not [line for line in lines if " vda " in line]  # the null engine loads no device


@pytest.mark.stress
def test_a_tool_that_states_nothing_has_its_time_alone(tmp_path: Path) -> None:
    written = on_terminal(tmp_path, STRESS, "run", "study.toml", "--output", "run")
    lines = re.findall(r"\r\n(\d+ s[^\x1b]*)\x1b\[A", written)
    assert lines
    assert not [line for line in lines if "now" in line]
