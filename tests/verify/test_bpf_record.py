"""Recordings: every block request of a command, as a trace in any format."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.process import supervisor
from ioassay.records.observation import from_dict

from .conftest import FIO

pytestmark = [pytest.mark.bpf, pytest.mark.fio]

MIB = 1 << 20
JOB = [*FIO, "--filename=data", "--size=16m", "--bs=4k", "--minimal", "--direct=1", "--ioengine=io_uring"]


def test_a_recording_has_every_request_once_and_in_order(watch: Any, look: Any, data: Path) -> None:
    record = data.with_name("requests.bin")
    seen = watch("record", *JOB, "--iodepth=32", "--rw=randrw", record=record)
    assert {"block", "uring", "record"} <= set(seen.layers) and "syscalls" not in seen.layers
    source = {"recording": {"path": str(record), "own": True}}
    info = _core.trace_info(source)
    for kind in ("read", "write"):
        counted = look.own(seen, kind)
        assert info["kinds"][kind] == {"requests": counted.calls, "bytes": counted.bytes}
    assert info["kinds"]["read"]["bytes"] + info["kinds"]["write"]["bytes"] >= 16 * MIB
    assert (info["time"]["first_ns"], info["time"]["backward"]) == (0, 0)
    own = [part for part in seen.block if part.own]
    first = min(part.calls.first_ns for part in own)
    last = max(part.calls.last_ns for part in own)
    assert 0 < info["time"]["last_ns"] < last - first


def test_a_recording_is_written_in_the_formats_of_traces(watch: Any, data: Path) -> None:
    record = data.with_name("requests.bin")
    seen = watch("record", *JOB, "--iodepth=8", "--rw=randread", record=record, layers=["syscalls"])
    assert {"syscalls", "aio", "record"} <= set(seen.layers)
    device = next(part.dev for part in seen.block if part.own and part.kind == "read")
    source = {"recording": {"path": str(record), "own": True, "device": device}}
    trace = data.with_name("trace.csv")
    written = _core.trace_write(source, trace, "csv")
    again = _core.trace_info({"path": str(trace)})
    assert written["from"] == "recording"
    assert again["requests"] == _core.trace_info(source)["requests"] >= 4000  # neighbours may be merged
    everyone = _core.trace_info({"recording": {"path": str(record)}})
    assert everyone["requests"] >= again["requests"]


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text("something else")
    with pytest.raises(_core.CoreError, match="other: .*no recording"):
        _core.trace_info({"recording": {"path": str(path)}})
    with pytest.raises(_core.CoreError, match="numbers as in 8:0"):
        _core.trace_info({"recording": {"path": str(path), "device": "sda"}})
    with pytest.raises(FileNotFoundError):
        _core.trace_info({"recording": {"path": str(tmp_path / "absent")}})


def test_a_recording_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent/requests.bin' cannot be written"):
        _core.Witness("record", tmp_path / "absent" / "requests.bin")
    with pytest.raises(ValueError, match="wants a file"):
        _core.Witness("record")


def test_a_recording_that_finds_no_room_costs_only_itself(watch: Any, data: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    seen = watch("record", *JOB, "--iodepth=8", "--rw=randread", record=full)
    assert {"block", "uring"} <= set(seen.layers) and "record" not in seen.layers
    assert "the recording '/dev/full' cannot be written: No space left on device" in seen.why
    assert sum(part.calls.calls for part in seen.block) >= 4096


def test_requests_that_found_no_room_in_the_ring_are_counted(
    tmp_path: Path, compiled: Callable[..., str], data: Path
) -> None:
    """A million events to a recording that nobody takes: a pipe that is full. Its ring holds a third of them."""
    recording = tmp_path / "recording"
    os.mkfifo(recording)
    reader = os.open(recording, os.O_RDONLY | os.O_NONBLOCK)
    programs = _core.Witness("record", recording, ["synthetic"])
    supervisor.run(
        [compiled("million_reads")],
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        timeout_s=60,
        cwd=tmp_path,
        on_held=programs.follow,
    )
    taken = threading.Thread(target=_drain, args=(reader,), daemon=True)
    taken.start()
    health = from_dict({**json.loads(programs.finish()), "backend": "bpf", "asked": "record"}).health
    assert health["dropped"] > 100_000
    taken.join(10)
    os.close(reader)


def _drain(reader: int) -> None:
    """Read until the other end is closed."""
    os.set_blocking(reader, True)
    while os.read(reader, 1 << 20):
        pass
