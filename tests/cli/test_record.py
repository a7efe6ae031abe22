"""ioassay record: the block trace of a command, in the order of its requests, ready to be simulated."""

from __future__ import annotations

import csv
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import ask, command

BLOCK = 4096
READS = 500


SYNCED_WRITE = "import os; f = os.open('new', os.O_WRONLY | os.O_CREAT); os.write(f, bytes(1 << 20)); os.fsync(f)"


def told(folder: Path, *argv: object, code: int = 0) -> dict[str, Any]:
    answer = ask(*argv, cwd=folder)
    assert answer.code == code, answer
    return answer.json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with (tmp_path / "data").open("wb") as file:
        file.write(os.urandom(READS * BLOCK * 2))
        os.fsync(file.fileno())
    return tmp_path


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


@pytest.mark.root
@pytest.mark.bpf
def test_each_request_is_in_the_trace_in_order(folder: Path) -> None:
    done = told(folder, "record", "--json", "-o", "trace.csv", "--", *direct_reads(2))
    assert (done["dropped"], done["lost"], done["to"]) == (0, 0, "csv")
    with (folder / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == done["changes"]["given"]
    times = [int(row["time_ns"]) for row in rows]
    assert times == sorted(times) and times[0] == 0
    reads = [row for row in rows if row["kind"] == "read" and int(row["length_bytes"]) == BLOCK]
    assert len(reads) >= READS
    steps = [int(b["offset_bytes"]) - int(a["offset_bytes"]) for a, b in itertools.pairwise(reads)]
    assert steps.count(2 * BLOCK) >= READS * 0.9, "reads of every second block of a file that lies in few extents"


@pytest.mark.root
@pytest.mark.bpf
def test_a_recording_can_be_simulated_in_any_format(folder: Path) -> None:
    write = [sys.executable, "-SIc", SYNCED_WRITE]
    done = told(folder, "record", "--json", "-o", "t.disksim.zst", "--lose", "kinds", "--", *write)
    assert done["to"] == "disksim"
    simulated = told(folder, "simulate", "--json", "t.disksim.zst", "--limit", "160GiB", "--beyond", "wrap")
    assert 0 < simulated["requests"] <= done["changes"]["given"]


@pytest.mark.root
@pytest.mark.bpf
def test_what_the_format_cannot_hold_is_kept_in_one_that_can(folder: Path) -> None:
    write = [sys.executable, "-SIc", SYNCED_WRITE]
    error = told(folder, "record", "--json", "-o", "t.disksim", "--", *write, code=2)["error"]
    assert "cannot hold a flush" in error and "kept as t.disksim.csv" in error
    assert "flush" in (folder / "t.disksim.csv").read_text()


@pytest.mark.root
@pytest.mark.bpf
def test_other_devices_and_other_programs_are_left_out(folder: Path) -> None:
    everybody = told(folder, "record", "--json", "--all", "-o", "all.csv", "--", *direct_reads(1))
    own = told(folder, "record", "--json", "-o", "own.csv", "--", *direct_reads(1))
    assert own["changes"]["seen"] >= READS
    assert everybody["changes"]["seen"] >= READS
    device = next(name for name in os.listdir("/sys/class/block") if name.startswith("loop"))
    none = told(folder, "record", "--json", "--device", device, "-o", "none.csv", "--", *direct_reads(1))
    assert none["changes"]["given"] == 0


@pytest.mark.root
@pytest.mark.bpf
def test_a_trace_on_standard_output_has_nothing_of_the_command_in_it(folder: Path) -> None:
    argv = command("record", "-o", "-", "--to", "csv", "--", "sh", "-c", "cat; exit 3")
    done = subprocess.run(argv, cwd=folder, input="given\n", capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "given\n" in done.stderr and "ended with exit status 3" in done.stderr
    header, *rows = csv.reader(done.stdout.splitlines())
    assert header[0] == "time_ns" and all(len(row) == len(header) for row in rows)


@pytest.mark.root
@pytest.mark.bpf
def test_a_command_without_requests_is_told_why(folder: Path) -> None:
    argv = ["record", "-o", "empty.csv", "--force", "--", "true"]
    ask(*argv, cwd=folder)  # its pages are in memory from here on
    answer = ask(*argv, cwd=folder)
    assert answer.code == 0, answer
    if "0 requests" in answer.out:
        assert "--all" in answer.err and "simulate it" not in answer.out


@pytest.mark.root
@pytest.mark.bpf
def test_a_command_that_fails_leaves_its_trace_and_is_not_hidden(folder: Path) -> None:
    failed = told(folder, "record", "--json", "-o", "t.csv", "--", "sh", "-c", "exit 3", code=3)
    assert failed["exit_code"] == 3
    assert (folder / "t.csv").exists()
    assert not list(folder.glob(".ioassay-record-*"))


def test_without_bpf_nothing_runs_and_the_reason_is_told(folder: Path) -> None:
    script = "from ioassay import _core; _core.witness_capability = lambda: 'BPF is forbidden here'; "
    script += "from ioassay.__main__ import main; main()"
    argv = ["record", "--json", "-o", "t.csv", "--", "touch", "ran"]
    done = subprocess.run(
        [sys.executable, "-c", script, *argv], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "BPF is forbidden here" in json.loads(done.stdout)["error"]
    assert not (folder / "ran").exists()
