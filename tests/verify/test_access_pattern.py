"""Patterns and working sets: liars of every class are contradicted, and what is not known accuses nobody.

By observations that were made up, and by programs that go elsewhere than they claim by every way to move data.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ioassay.packs.fio.claims import fio_claims
from ioassay.packs.witness.witness_judgement import stated_claim
from ioassay.records.observation import Calls, File, Observation, Pattern, Session
from ioassay.records.record import Claim
from ioassay.verify.judge import judge
from ioassay.verify.verdict import AMPLIFIED, CONFIRMED, CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED, Code, Verdict

from .conftest import FIO, Witnessed, cold, observe, table, whole

MIB, RECORD = 1 << 20, 4096
SET = 16 * MIB
N = SET // RECORD

SEQUENTIAL = Pattern(N, N - 1, stride_bytes=RECORD, stride_calls=N - 1, unique_bytes=SET, highest_bytes=SET)
ONE_BLOCK = Pattern(N, 0, N - 1, N - 1, 0, N - 1, RECORD, highest_bytes=RECORD)
FIRST_MIB = Pattern(N, N - 16, 15, N - 256, RECORD, N - 16, MIB, highest_bytes=MIB)
SHUFFLED = Pattern(N, 40, 0, 0, unique_bytes=SET, highest_bytes=SET)
DRAWN = Pattern(N, 1, 1, N // 3, unique_bytes=int(SET * 0.632), highest_bytes=SET)
SMALL_SET = Pattern(N, 16, 16, N - 256, unique_bytes=MIB, highest_bytes=MIB)
STRIDED = Pattern(N, 0, 0, 0, 17 * RECORD, N - 17, SET, highest_bytes=SET)
BACKWARD = Pattern(N, 0, 0, 0, -RECORD, N - 1, SET, highest_bytes=SET)


def seen(*patterns: Pattern | None, file: int = 0, kind: str = "read") -> Observation:
    """One session for each, one after the other; `file` says how many files they are spread over."""
    sessions = []
    for place, pattern in enumerate(patterns):
        number = pattern.calls if pattern else N
        calls = Calls(number, number, 0, 0, number * RECORD, number * RECORD, 10 * place + 1, 10 * place + 9, 8, 1, 1)
        which = {f"{kind}_pattern": pattern, kind: calls}
        sessions.append(Session(place if file else 0, 10 * place, 10 * place + 9, ["read", "write"], **which))  # type: ignore[arg-type]
    files = [File(at, "0:1", 5 + at, f"/data{at or ''}", "regular", "tmpfs") for at in range(len(patterns))]
    layers = ("block", "syscalls", "aio", "uring")
    return Observation("bpf", "syscalls", layers, held_ns=1, ended_ns=10**12, files=files, sessions=sessions)


def verdict(claim: str | Claim, observation: Observation) -> Verdict:
    if isinstance(claim, str):
        claim = stated_claim(f"path=/data,{claim}")
    (found,) = judge([claim], observation)
    return found


def codes(found: Verdict) -> set[Code]:
    return {statement.code for statement in (*found.explanation, *found.notes)}


PATTERNS = {
    "sequential": SEQUENTIAL, "one_block": ONE_BLOCK, "first_mib": FIRST_MIB, "shuffled": SHUFFLED, "drawn": DRAWN,
    "small_set": SMALL_SET, "strided": STRIDED, "backward": BACKWARD,
}  # fmt: skip


def pattern_of(name: str | None, changed: dict[str, int] | None = None) -> Pattern | None:
    return None if name is None else replace(PATTERNS[name], **(changed or {}))


RANDOM_16 = "ops=4096,pattern=random,working_set=16MiB"


@table("access_pattern", "liars_are_contradicted")
def test_liars_are_contradicted(claim: str, pattern: str, changed: Any, reason: str) -> None:
    did = pattern_of(pattern, changed)
    found = verdict(claim, seen(did))
    assert (found.category, found.reason) == (CONTRADICTED, reason)
    written = replace(stated_claim(f"path=/data,{claim}"), kind="write")
    assert verdict(written, seen(did, kind="write")).reason == reason


@table("access_pattern", "honest_claims_are_confirmed_with_what_they_rest_on")
def test_honest_claims_are_confirmed_with_what_they_rest_on(claim: str, pattern: str) -> None:
    did = PATTERNS[pattern]
    found = verdict(claim, seen(did))
    assert found.category.startswith(CONFIRMED)
    assert Code.ACCESS_SEEN in codes(found)
    assert found.numbers["sequential_share"] == pytest.approx(did.sequential / (N - 1))
    assert found.numbers["unique_bytes_at_most"] == did.unique_bytes


@table("access_pattern", "what_is_not_known")
def test_what_is_not_known_leaves_what_is_stated_incomplete_and_accuses_no_options(
    claim: str, pattern: Any, changed: Any, code: str
) -> None:
    did = seen(pattern_of(pattern, changed))
    found = verdict(claim, did)
    assert (found.category, found.reason) == (INCOMPLETE, "PATTERN-UNKNOWN")
    assert Code(code) in codes(found)
    implied = replace(stated_claim(f"path=/data,{claim}"), source="fio", bytes=None, seconds=None)
    assert verdict(implied, did).category != INCOMPLETE


def test_one_random_order_of_few_places_that_is_repeated_is_random() -> None:
    sixteen = Pattern(16_000, 5_000, 1_000, 15_984, RECORD, 5_000, 16 * RECORD, highest_bytes=16 * RECORD)
    found = verdict("ops=16000,pattern=random,working_set=64KiB", seen(sixteen))
    assert found.category.startswith(CONFIRMED)
    found = verdict("ops=16000,pattern=random,working_set=64KiB", seen(replace(sixteen, sequential=15_000)))
    assert found.reason == "OTHER-PATTERN"


def test_other_programs_on_the_file_accuse_nobody() -> None:
    claim = Claim("fio", "read", operations=N, bytes=SET, paths=("/data",), pattern="random", working_set_bytes=SET)
    assert verdict(claim, seen(SEQUENTIAL)).reason == "OTHER-PATTERN"
    for field in ({"doubts": ("among-others",)}, {"unreported": ("pre-read",)}):
        assert verdict(replace(claim, **field), seen(SEQUENTIAL)).category.startswith(CONFIRMED)  # type: ignore[arg-type]


def test_a_file_that_is_opened_for_each_call_is_judged_by_all_of_them() -> None:
    def one(place: int) -> Pattern:
        offset = place * RECORD
        return Pattern(1, unique_bytes=RECORD, lowest_bytes=offset, highest_bytes=offset + RECORD)

    def reason(places: Any, claim: str = "ops=256,pattern=random,working_set=1MiB") -> str:
        return verdict(claim, seen(*map(one, places))).reason

    assert reason(range(256)) == "OTHER-PATTERN"
    assert reason([0] * 256) == "OTHER-WORKING-SET"
    assert reason(list(range(16)) * 16) in ("OTHER-PATTERN", "OTHER-WORKING-SET")
    assert reason([place * 17 % 257 for place in range(256)]) == "OTHER-PATTERN"
    assert reason([place * place * 31 % 256 for place in range(256)], "ops=256,pattern=sequential") == "OTHER-PATTERN"
    assert reason([(place * 97 + place**2 * 60) % 256 for place in range(256)]) not in ("OTHER-PATTERN",)


def test_jobs_on_one_file_and_on_their_own_are_added_up() -> None:
    quarter = replace(SHUFFLED, calls=N // 4, sequential=9, unique_bytes=SET // 4)
    assert verdict(RANDOM_16, seen(*[quarter] * 4)).category.startswith(CONFIRMED)
    part = replace(FIRST_MIB, calls=N // 4, sequential=0, stride_calls=0, stride_bytes=0)
    assert verdict(RANDOM_16, seen(*[part] * 4)).reason == "OTHER-WORKING-SET"  # end to end, they are 1 MiB
    apart = stated_claim("path=/data:/data1,ops=8192,pattern=random,working_set=32MiB")
    assert verdict(apart, seen(SHUFFLED, SHUFFLED, file=1)).category.startswith(CONFIRMED)


def test_the_last_operation_may_end_beyond_the_working_set_and_be_several_calls() -> None:
    did = seen(
        Pattern(20, 19, stride_bytes=RECORD, stride_calls=19, unique_bytes=20 * RECORD, highest_bytes=20 * RECORD)
    )
    claim = Claim("fio", "read", engine="splice", paths=("/data",), pattern="sequential", working_set_bytes=69 * 1024)
    assert verdict(replace(claim, operations=5), did).category != CONTRADICTED
    assert verdict(replace(claim, operations=20), did).reason == "OTHER-WORKING-SET"
    assert verdict(replace(claim, operations=5, working_set_bytes=52 * 1024), did).reason == "OTHER-WORKING-SET"


def test_no_call_is_no_pattern() -> None:
    found = verdict("pattern=random", replace(seen(SHUFFLED), sessions=[]))
    assert found.category == UNSUBSTANTIATED and Code.NO_CALL_ON_FILES in codes(found)


def test_reads_and_writes_of_one_file_in_turn_are_no_sequence() -> None:
    both = seen(SEQUENTIAL)
    session = replace(both.sessions[0], write=both.sessions[0].read, write_pattern=SHUFFLED)
    mixed = replace(both, sessions=[session])
    assert verdict("kind=mixed,pattern=sequential", mixed).reason == "PATTERN-UNKNOWN"
    assert verdict("kind=mixed,ops=8192,pattern=random", mixed).reason == "OTHER-PATTERN"


# Programs


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
    "streams": [nth * (all_records // 16) + place for place in range(number // 16)
        for nth in random.Random(place).sample(range(16), 16)],
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
Moved = Callable[[str, str], Observation]


def mover(way: str, order: str, number: int = NUMBER) -> list[str]:
    return [sys.executable, "-SIc", MOVER, way, order, str(number)]


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Moved:
    """What was seen of a mover; each is watched once, whatever is claimed of it."""
    folder = tmp_path_factory.mktemp("moved")

    @cache
    def seen(way: str, order: str) -> Observation:
        whole(folder / "data")
        return observe(folder, "syscalls", *mover(way, order, 512 if way == "reopened" else NUMBER))

    return seen


def moving(text: str, way: str = "") -> Claim:
    return replace(stated_claim(f"path=data,{text}"), kind="write" if "write" in way else "read")


FOUND: dict[str, Callable[[Verdict], bool]] = {
    "accused": lambda found: found.category == CONTRADICTED and found.reason in ACCUSED,
    "not confirmed": lambda found: found.category in (CONTRADICTED, INCOMPLETE),
    "confirmed": lambda found: found.category.startswith((CONFIRMED, AMPLIFIED)),
    "not accused": lambda found: found.reason not in ACCUSED,
}


@pytest.mark.bpf
@table(
    "pattern_liars",
    "what_is_claimed_as_random_over_16_mib",
    "what_sessions_and_threads_touch_is_seen_together",
    "what_is_claimed_as_sequential",
    "honest_random_access",
    "honest_access_whose_order_is_not_that_of_its_operations",
)
def test_movers(moved: Moved, way: str, order: str, claims: str, found: str) -> None:
    judged = verdict(moving(claims, way), moved(way, order))
    assert FOUND[found](judged), judged


@pytest.mark.bpf
@table("pattern_liars", "honest_sequential_access")
def test_honest_sequential_access(watch: Any, data: Path, argv: Sequence[str]) -> None:
    seen = watch("syscalls", *argv)
    assert verdict(moving("pattern=sequential"), seen).reason not in ACCUSED


JOB = [*FIO, "--filename=data", "--size=16m", "--bs=4k", "--output-format=json"]


@pytest.mark.bpf
@pytest.mark.fio
@pytest.mark.parametrize("engine", ["psync", "sync", "libaio", "io_uring"])
@table("pattern_liars", "lies_about_what_fio_does")
def test_lies_about_what_fio_does(watch: Any, data: Path, engine: str, options: str, text: str) -> None:
    seen = watch("syscalls", *JOB, f"--ioengine={engine}", "--direct=1", "--iodepth=8", *options.split())
    assert verdict(moving(text), seen).reason in ACCUSED


@pytest.mark.bpf
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


@pytest.mark.bpf
@pytest.mark.fio
@table("pattern_liars", "fio_itself_is_never_accused")
def test_fio_itself_is_never_accused(watch: Any, data: Path, options: str) -> None:
    seen = watch("syscalls", *JOB, "--ioengine=psync", *options.split())
    verdicts = judge(fio_claims.read((data.parent / "stdout").read_text()), seen)
    assert verdicts and not ACCUSED & {one.reason for one in verdicts}


@pytest.mark.bpf
def test_a_judgement_names_the_pattern_that_was_seen(witnessed: Witnessed, data: Path) -> None:
    stated = f"path=data,ops={NUMBER},pattern=random,working_set=16MiB"
    found = witnessed(data.parent, mover("pread", "sequential"), claims=[stated])
    assert (found["verdict"], found["reason"]) == (CONTRADICTED, "OTHER-PATTERN")
    assert found["claim"]["pattern"] == "random" and found["claim"]["working_set_bytes"] == 16 * MIB


@pytest.mark.bpf
@pytest.mark.fio
def test_a_script_beside_the_tool_accuses_nobody(watch: Any, data: Path) -> None:
    command = " ".join([*JOB, "--ioengine=psync", "--rw=randread"])
    seen = watch("syscalls", "sh", "-c", f"{command}; cat data data data > /dev/null")
    claims = fio_claims.read((data.parent / "stdout").read_text())
    (found,) = judge([replace(one, doubts=("among-others",)) for one in claims], seen)
    assert found.reason not in ACCUSED
