"""Programs that go elsewhere than they claim, by every way to move data, and honest ones in odd places."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ioassay.formats import fio_claims, stated_claim
from ioassay.records.observation import Observation
from ioassay.records.record import Claim
from ioassay.verify.judge import judge
from ioassay.verify.verdict import AMPLIFIED, CONFIRMED, CONTRADICTED, INCOMPLETE, Verdict

from .conftest import FIO, Witnessed, cold, observe, table, whole

pytestmark = pytest.mark.bpf

MIB = 1 << 20
ACCUSED = {"OTHER-PATTERN", "OTHER-WORKING-SET"}

MOVER = """
import os, random, sys, threading
way, order, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
record, all_records = 4096, 4096
draw = random.Random(1).randrange
places = {
    "sequential": list(range(number)),
    "one-block": [7] * number,
    "first-mib": [place % 256 for place in range(number)],
    "random-mib": [draw(256) for _ in range(number)],
    "backward": list(range(number))[::-1],
    "stride": [place * 17 % all_records for place in range(number)],
    "random": [draw(all_records) for _ in range(number)],
    "shuffled": random.Random(2).sample(range(all_records), number),
}[order]
def opened(): return os.open("data", os.O_RDWR)
file, buffer = opened(), bytearray(record)
def move(place):
    global file
    if way == "reopened": os.close(file); file = opened()
    if way == "read": os.lseek(file, place * record, 0); os.read(file, record)
    elif way == "preadv": os.preadv(file, [buffer], place * record)
    elif way == "pwrite": os.pwrite(file, buffer, place * record)
    elif way == "write": os.lseek(file, place * record, 0); os.write(file, buffer)
    elif way == "sendfile": os.sendfile(out, file, place * record, record)
    else: os.pread(file, record, place * record)
out = os.open("/dev/null", os.O_WRONLY) if way != "sendfile" else os.open("other", os.O_RDWR | os.O_CREAT)
if way == "threads":
    parts = [threading.Thread(target=lambda nth=nth: [move(place) for place in places[nth::4]]) for nth in range(4)]
    [part.start() for part in parts]; [part.join() for part in parts]
elif way == "processes":
    for nth in range(4):
        if os.fork() == 0:
            file = opened()
            [move(place) for place in places[nth * number // 4 : (nth + 1) * number // 4]]
            os._exit(0)
    [os.wait() for _ in range(4)]
elif way == "pieces":
    for place in places:
        for piece in range(4): os.pread(file, 1024, place * record + piece * 1024)
else:
    [move(place) for place in places]
"""
NUMBER = 2048
LIES = ("sequential", "one-block", "first-mib", "random-mib", "backward", "stride")


Moved = Callable[[str, str], Observation]


def mover(way: str, order: str, number: int = NUMBER) -> list[str]:
    return [sys.executable, "-SIc", MOVER, way, order, str(number)]


def number_of(way: str) -> int:
    return 512 if way == "reopened" else NUMBER


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Moved:
    """What was seen of a mover; each is watched once, whatever is claimed of it."""
    folder = tmp_path_factory.mktemp("moved")

    @cache
    def seen(way: str, order: str) -> Observation:
        whole(folder / "data")
        return observe(folder, "syscalls", *mover(way, order, number_of(way)))

    return seen


def claim(text: str, way: str = "") -> Claim:
    return replace(stated_claim.parse(f"path=data,{text}"), kind="write" if "write" in way else "read")


def verdict(stated: Claim, seen: Observation) -> Verdict:
    (found,) = judge([stated], seen)
    return found


@pytest.mark.parametrize("order", LIES)
@pytest.mark.parametrize("way", ["pread", "read", "preadv", "pwrite", "write", "sendfile", "processes"])
def test_what_is_claimed_as_random_over_16_mib(moved: Moved, way: str, order: str) -> None:
    found = verdict(claim(f"ops={NUMBER},pattern=random,working_set=16MiB", way), moved(way, order))
    assert found.category == CONTRADICTED and found.reason in ACCUSED
    without_number = verdict(claim("pattern=random,working_set=16MiB", way), moved(way, order))
    assert without_number.category in (CONTRADICTED, INCOMPLETE)


@table("pattern_liars", "what_sessions_and_threads_touch_is_seen_together")
def test_what_sessions_and_threads_touch_is_seen_together(moved: Moved, way: str, order: str) -> None:
    stated = claim(f"ops={number_of(way)},pattern=random,working_set=16MiB")
    assert verdict(stated, moved(way, order)).reason in ACCUSED


@pytest.mark.parametrize("order", ["random", "shuffled", "backward", "random-mib"])
@pytest.mark.parametrize("way", ["pread", "read", "pwrite", "reopened"])
def test_what_is_claimed_as_sequential(moved: Moved, way: str, order: str) -> None:
    stated = claim(f"ops={number_of(way)},pattern=sequential", way)
    assert verdict(stated, moved(way, order)).reason == "OTHER-PATTERN"


@pytest.mark.parametrize("order", ["random", "shuffled"])
@pytest.mark.parametrize("way", ["pread", "read", "preadv", "pwrite", "write", "sendfile", "processes", "reopened"])
def test_honest_random_access(moved: Moved, way: str, order: str) -> None:
    stated = claim(f"ops={number_of(way)},pattern=random,working_set=16MiB", way)
    assert verdict(stated, moved(way, order)).category.startswith((CONFIRMED, AMPLIFIED))


@pytest.mark.parametrize(("way", "order"), [("threads", "random"), ("pieces", "shuffled"), ("pieces", "random")])
def test_honest_access_whose_order_is_not_that_of_its_operations(moved: Moved, way: str, order: str) -> None:
    assert verdict(claim("pattern=random,working_set=16MiB"), moved(way, order)).reason not in ACCUSED


@table("pattern_liars", "honest_sequential_access")
def test_honest_sequential_access(watch: Any, data: Path, argv: Sequence[str]) -> None:
    seen = watch("syscalls", *argv)
    assert verdict(claim("pattern=sequential"), seen).reason not in ACCUSED


JOB = [*FIO, "--filename=data", "--size=16m", "--bs=4k", "--output-format=json"]


@pytest.mark.fio
@pytest.mark.parametrize("engine", ["psync", "sync", "libaio", "io_uring"])
@table("pattern_liars", "lies_about_what_fio_does")
def test_lies_about_what_fio_does(watch: Any, data: Path, engine: str, options: str, text: str) -> None:
    seen = watch("syscalls", *JOB, f"--ioengine={engine}", "--direct=1", "--iodepth=8", *options.split())
    assert verdict(claim(text), seen).reason in ACCUSED


@pytest.mark.fio
@table("pattern_liars", "a_tool_that_prints_what_another_fio_did")
def test_a_tool_that_prints_what_another_fio_did(watch: Any, data: Path, claimed: str, done: str) -> None:
    argv = [*JOB, "--ioengine=psync"]
    run = subprocess.run([*argv, *claimed.split()], cwd=data.parent, capture_output=True, text=True, check=True)
    claims = [replace(one, seconds=None, rate_bytes_per_s=None, latency_ns={}) for one in fio_claims.read(run.stdout)]
    assert claims and all(one.pattern for one in claims)
    cold(data)
    seen = watch("syscalls", *argv, *done.split())
    for one in judge(claims, seen):
        assert one.reason in ACCUSED or one.reason in ("FEWER-SEEN", "MORE-SEEN"), one


@pytest.mark.fio
@table("pattern_liars", "fio_itself_is_never_accused")
def test_fio_itself_is_never_accused(watch: Any, data: Path, options: str) -> None:
    seen = watch("syscalls", *JOB, "--ioengine=psync", *options.split())
    verdicts = judge(fio_claims.read((data.parent / "stdout").read_text()), seen)
    assert verdicts and not ACCUSED & {one.reason for one in verdicts}


def test_a_judgement_names_the_pattern_that_was_seen(witnessed: Witnessed, data: Path) -> None:
    stated = f"path=data,ops={NUMBER},pattern=random,working_set=16MiB"
    found = witnessed(data.parent, mover("pread", "sequential"), claims=[stated])
    assert (found["verdict"], found["reason"]) == (CONTRADICTED, "OTHER-PATTERN")
    assert found["claim"]["pattern"] == "random" and found["claim"]["working_set_bytes"] == 16 * MIB


@pytest.mark.fio
def test_a_script_beside_the_tool_accuses_nobody(watch: Any, data: Path) -> None:
    command = " ".join([*JOB, "--ioengine=psync", "--rw=randread"])
    seen = watch("syscalls", "sh", "-c", f"{command}; cat data data data > /dev/null")
    claims = fio_claims.read((data.parent / "stdout").read_text())
    (found,) = judge([replace(one, doubts=("among-others",)) for one in claims], seen)
    assert found.reason not in ACCUSED
