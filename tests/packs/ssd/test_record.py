"""ioassay record: the requests of any command as a trace, in order and of the devices that were asked for."""

from __future__ import annotations

import csv
import itertools
import os
import sys
from pathlib import Path

import pytest

import ioassay as ia
from ioassay.simulation import traces

from ...cli.conftest import ask

BLOCK = 4096
READS = 500
pytestmark = [pytest.mark.root, pytest.mark.bpf]


def direct_reads(step: int) -> list[str]:
    """A program that reads every `step`-th block of `data`, each by one direct request."""
    script = f"""
import mmap, os
buffer = mmap.mmap(-1, {BLOCK})
f = os.open("data", os.O_RDONLY | os.O_DIRECT)
for number in range({READS}):
    os.preadv(f, [buffer], number * {step * BLOCK})
"""
    return [sys.executable, "-SIc", script]


def test_each_request_is_recorded_in_order_and_those_of_other_devices_are_not(tmp_path: Path) -> None:
    with (tmp_path / "data").open("wb") as file:
        file.write(os.urandom(READS * BLOCK * 2))
        os.fsync(file.fileno())
    done = ask("record", "--json", "-o", "trace.csv", "--", *direct_reads(2), cwd=tmp_path).json
    assert (done["dropped"], done["lost"], done["to"]) == (0, 0, "csv")
    with (tmp_path / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == done["changes"]["given"]
    times = [int(row["time_ns"]) for row in rows]
    assert times == sorted(times) and times[0] == 0
    reads = [row for row in rows if row["kind"] == "read" and int(row["length_bytes"]) == BLOCK]
    assert len(reads) >= READS
    steps = [int(b["offset_bytes"]) - int(a["offset_bytes"]) for a, b in itertools.pairwise(reads)]
    took = done["latency_ns"]["read"]
    assert 0 < took["min"] <= took["p50"] <= took["p99"] <= took["max"]
    assert steps.count(2 * BLOCK) >= READS * 0.9, "reads of every second block of a file that lies in few extents"
    everybody = ask("record", "--json", "--all", "-o", "all.csv", "--", *direct_reads(1), cwd=tmp_path).json
    assert everybody["changes"]["seen"] >= READS
    device = next(name for name in os.listdir("/sys/class/block") if name.startswith("loop"))
    words = ("record", "--json", "--device", device, "-o", "none.csv", "--", *direct_reads(1))
    nothing = ask(*words, cwd=tmp_path).json
    assert nothing["changes"]["given"] == 0 and nothing["latency_ns"] == {}


def test_the_requests_of_a_command_become_a_trace_that_can_be_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["dd", "if=/dev/zero", "of=written", "bs=4k", "count=64", "oflag=direct", "conv=notrunc"]
    recording = ia.record(words, "requests.csv")
    assert recording.exit_code == 0 and recording.trace == Path("requests.csv") and recording.requests >= 1
    done = ia.simulate("requests.csv", prepare=traces.preparation(limit="1GiB", beyond="wrap"), window=None)
    assert done.summary["issued"] >= 1
