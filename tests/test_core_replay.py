"""Traces replayed by the compiled module: what reaches Python of results, signals and errors.

How requests are issued is proved by `cargo test`.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay._core import CoreError

from .conftest import loop_on

BLOCK = 4096
BUFFERED = {"direct": False, "buffer_bytes": 4 << 20}
ENDLESS = """
import json, sys
from ioassay import _core
done = _core.replay({"path": sys.argv[1]}, {"buffer_bytes": 4 << 20}, lambda _: print("runs", flush=True))
print(json.dumps(done))
"""


def iolog(folder: Path, *lines: str) -> Path:
    path = folder / "trace.iolog"
    path.write_text("\n".join(("fio version 3 iolog", "0 file add", "0 file open", *lines)) + "\n")
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target"
    path.write_bytes(bytes(4 * BLOCK))
    return path


def test_results_have_each_direction_in_the_bins_of_fio(tmp_path: Path, target: Path) -> None:
    trace = iolog(tmp_path, f"0 file write 0 {BLOCK}", f"900 file read {BLOCK} {BLOCK}", "2000 file sync 0 0")
    done = _core.replay({"path": str(trace)}, {"path": str(target), **BUFFERED})
    assert (done["ended"], done["reason"], done["requests"], done["skipped"]) == ("trace", None, 3, 0)
    assert (done["span_ns"], done["errors"], done["failures"], done["format"]) == (2_000_000, 0, [], "iolog3")
    assert [(done[kind]["ios"], done[kind]["bytes"]) for kind in ("read", "write", "trim", "sync")] == [
        (1, BLOCK), (1, BLOCK), (0, 0), (1, 0)
    ]  # fmt: skip
    names = {_core.fio_bin_ns(index) for index in range(3776)}
    for distribution in (done["lateness"], done["read"]["lat"], done["write"]["response"]):
        assert set(distribution["bins"]) <= names
        assert distribution["min_ns"] <= distribution["mean_ns"] <= distribution["max_ns"]
    assert done["trim"]["lat"] == {"bins": {}, "mean_ns": None, "min_ns": None, "max_ns": None, "stddev_ns": None}
    assert sum(done["series"]["write_bytes"]) == BLOCK
    assert done["census"] == {"requests": 3, "writes": 1, "span_ns": 2_000_000}
    assert target.stat().st_size == 4 * BLOCK
    assert target.read_bytes()[:BLOCK].count(0) < BLOCK / 64


def test_the_preparation_is_how_a_trace_is_made_to_fit(tmp_path: Path, target: Path) -> None:
    trace = iolog(tmp_path, f"0 file read {9 * BLOCK} {BLOCK}", f"5 file read 0 {BLOCK}", f"9 file write 0 {BLOCK}")
    setup = {"path": str(target), "pace": "fast", **BUFFERED}
    with pytest.raises(CoreError, match=r"trace.iolog: request 1: Read of 4096 bytes at offset 36864 ends behind"):
        _core.replay({"path": str(trace)}, setup)
    prepare = {"limit_bytes": 4 * BLOCK, "beyond": "wrap", "keep": ["reads"]}
    done = _core.replay({"path": str(trace), "prepare": prepare}, setup)
    assert (done["read"]["ios"], done["skipped"], done["changes"]["wrapped"]) == (2, 1, 1)


def test_a_pipe_is_read_once_and_a_bad_line_ends_the_replay_before_it_begins(target: Path) -> None:
    reading, writing = os.pipe()
    text = f"fio version 3 iolog\n0 file add\n0 file open\n0 file read 0 {BLOCK}\n7 file read 0 x\n"
    os.write(writing, text.encode())
    os.close(writing)
    with pytest.raises(CoreError, match=r"/dev/fd/\d+: line 5: "):
        _core.replay({"path": f"/dev/fd/{reading}", "format": "iolog3"}, {"path": str(target), **BUFFERED})
    os.close(reading)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_replay_with_what_was_done(tmp_path: Path, number: signal.Signals) -> None:
    trace = iolog(tmp_path, *(f"{at}00000 file read 0 {BLOCK}" for at in range(1000)))
    handler = "import signal; signal.signal(signal.SIGTERM, signal.default_int_handler)"
    argv = (sys.executable, "-c", handler + ENDLESS, str(trace))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "runs\n"
        running.send_signal(number)
        done = json.loads(running.stdout.read().splitlines()[-1])
    assert (running.returncode, done["ended"]) == (0, "interrupted")
    assert 0 < done["requests"] == done["read"]["ios"] < 1000


def test_what_a_listener_raises_ends_the_replay(tmp_path: Path) -> None:
    trace = iolog(tmp_path, *(f"{at}00000 file read 0 {BLOCK}" for at in range(1000)))
    seen: list[dict[str, Any]] = []

    def listener(progress: dict[str, Any]) -> None:
        seen.append(progress)
        if progress["completed"] > 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _core.replay({"path": str(trace)}, BUFFERED, listener)
    assert seen[-1]["issued"] >= seen[-1]["completed"] > seen[0]["errors"] == 0


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        ({"depht": 3}, "depht"),
        ({"pace": "slow"}, "slow"),
        ({"depth": 0}, "depth is 0, expected 1 to 32768"),
        ({"path": "/dev/null"}, "/dev/null: is neither a file nor a block device"),
    ],
)
def test_a_setup_that_cannot_be_is_refused(tmp_path: Path, setup: dict[str, Any], message: str) -> None:
    with pytest.raises(CoreError, match=message):
        _core.replay({"path": str(iolog(tmp_path, f"0 file read 0 {BLOCK}"))}, setup)


def test_a_target_that_is_absent_is_an_error_of_the_system_and_is_not_made(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(FileNotFoundError) as raised:
        _core.replay({"path": str(iolog(tmp_path, f"0 file write 0 {BLOCK}"))}, {"path": str(absent)})
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(absent))
    assert not absent.exists()


@pytest.mark.root
def test_a_trim_on_a_device_discards_and_a_device_in_use_is_not_written(tmp_path: Path) -> None:
    backing = tmp_path / "backing"
    backing.write_bytes(bytes([1]) * 16 * BLOCK)
    trace = iolog(tmp_path, f"0 file trim {3 * BLOCK} {2 * BLOCK}", f"9 file write {8 * BLOCK} {BLOCK}")
    with loop_on(backing) as device:
        setup = {"path": str(device), "buffer_bytes": 4 << 20}
        holder = os.open(device, os.O_RDONLY | os.O_EXCL)
        with pytest.raises(OSError, match="it is mounted, or part of something that is"):
            _core.replay({"path": str(trace)}, setup)
        os.close(holder)
        done = _core.replay({"path": str(trace)}, setup)
    assert (done["trim"]["ios"], done["write"]["ios"], done["failures"]) == (1, 1, [])
    content = backing.read_bytes()
    zeros = [at for at in range(16) if not any(content[at * BLOCK : (at + 1) * BLOCK])]
    assert (zeros, content.count(1) >= 13 * BLOCK) == ([3, 4], True)
