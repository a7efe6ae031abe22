"""Formats of traces against readings that share no code with them: struct, csv, re, blkparse and fio itself."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import InputError, UsageError
from ioassay.simulation import traces

from ...trace_samples import LAWS, READ_WITH, requests, sums, write

NAMES = [each["name"] for each in traces.formats()]


@pytest.mark.parametrize("name", NAMES)
def test_the_sums_are_those_of_an_independent_reading(name: str, tmp_path: Path) -> None:
    write(name, tmp_path / "trace", {**LAWS, "requests": 500})
    data, read = (tmp_path / "trace").read_bytes(), READ_WITH.get(name)
    reads, writes, lengths, offsets = sums(name, data)
    found = traces.info(tmp_path / "trace", format=name, read=read)
    kinds = found["kinds"]
    assert (kinds["read"]["requests"], kinds["write"]["requests"]) == (reads, writes)
    assert kinds["read"]["bytes"] + kinds["write"]["bytes"] == lengths
    assert reads + writes == 500
    traces.convert(tmp_path / "trace", tmp_path / "plain.csv", format=name, read=read)
    assert sums("csv", (tmp_path / "plain.csv").read_bytes())[2:] == (lengths, offsets)
    if name != "regex":
        known = next(each for each in traces.formats() if each["name"] == name)
        (tmp_path / "detected").write_bytes(data)
        same = {"mqsim": "ssdsim"}
        assert traces.info(tmp_path / "detected", read=read)["format"] == same.get(name, known["name"])


@pytest.mark.parametrize("name", [each["name"] for each in traces.formats() if not each["written"]])
def test_what_is_only_read_is_no_output(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"format is {name}, which is only read, expected spc, "):
        traces.make(tmp_path / "trace", to=name, **LAWS)
    assert not list(tmp_path.iterdir())


# blktrace

QUEUED, ISSUED, COMPLETED, MERGED, NOTE = 1, 7, 8, 2, 0
READ, WRITE, FLUSH, SYNC, QUEUE, ISSUE, COMPLETE, PACKET, MESSAGE, META, DISCARD, FUA = (
    1 << 16 + bit for bit in (0, 1, 2, 3, 4, 6, 7, 9, 10, 12, 13, 15)
)
CGROUP = 1 << 8
LAYOUTS = {7: ("IIQQIIIIIHH", 0), 8: ("IIQQIIQIIHH12x", 1)}


def record(order: str, version: int, number: int, event: dict[str, Any]) -> bytes:
    """A record as the kernel's header has it, with what follows it."""
    layout, pid_first = LAYOUTS[version]
    action, pid, more = event["action"], 4711, event.get("more", b"")
    pair = (pid, action) if pid_first else (action, pid)
    head = (0x65617400 | version, number, event["at_ns"], event["sector"], event["bytes"], *pair)
    return struct.pack(order + layout, *head, 8 << 20 | 16, event["cpu"], 0, len(more)) + more


def events(seed: int, *, cgroups: bool = True) -> list[dict[str, Any]]:
    """Events of three processors, of all kinds, in the order of their times."""
    draw = random.Random(seed)
    found = []
    for at_ns in itertools.accumulate(draw.randrange(1, 10**7) for _ in range(400)):
        action, category = draw.choice(
            [(QUEUED, QUEUE), (ISSUED, ISSUE), (COMPLETED, COMPLETE), (MERGED, QUEUE), (ISSUED, ISSUE | PACKET)]
        )
        kind, bytes_ = draw.choice(
            [
                (READ, 4096),
                (WRITE | SYNC, 512 * draw.randrange(1, 999)),
                (WRITE | DISCARD, 1 << 20),
                (WRITE | FLUSH | META, 0),
                (WRITE | FLUSH | FUA, 8192),
                (READ, 0),
            ]
        )
        if category & PACKET:
            kind, bytes_ = READ, 36
        more = draw.choice([b"", bytes(8)]) if cgroups else b""
        event = {"action": action | category | kind, "bytes": bytes_, "more": more, "cpu": draw.randrange(3)}
        event["action"] |= CGROUP if more else 0
        found.append({**event, "at_ns": 5 * 10**9 + at_ns, "sector": draw.randrange(1 << 40)})
    return found


def record_of(order: str, version: int, found: list[dict[str, Any]], folder: Path) -> Path:
    """The files of the three processors."""
    for cpu in range(3):
        name = {"action": NOTE | MESSAGE, "bytes": 0, "sector": 0, "at_ns": 0, "cpu": cpu, "more": b"dd\0\0"}
        mine = [name, *(event for event in found if event["cpu"] == cpu)]
        data = b"".join(record(order, version, number, event) for number, event in enumerate(mine, 1))
        (folder / f"sda.blktrace.{cpu}").write_bytes(data)
    return folder / "sda.blktrace.1"


def wanted(found: list[dict[str, Any]], action: int) -> Iterator[tuple[int, str, int, int]]:
    for event in found:
        what = event["action"]
        if what & 0xFF == action and not what & PACKET and (event["bytes"] or what & FLUSH):
            kind = "trim" if what & DISCARD else "write" if what & WRITE else "read"
            has_range = bool(event["bytes"])
            yield event["at_ns"], kind if has_range else "flush", has_range * event["sector"] * 512, event["bytes"]


def table_of(path: Path, output: Path, **how: Any) -> list[tuple[int, str, int, int]]:
    traces.convert(path, output, to="csv", force=True, **how)
    fields = (line.split(",") for line in output.read_text().splitlines()[1:])
    return [(int(at_ns), kind, int(offset), int(length)) for at_ns, kind, offset, length, _ in fields]


@pytest.mark.parametrize(("event", "action"), [("queued", QUEUED), ("issued", ISSUED), ("completed", COMPLETED)])
@pytest.mark.parametrize(("order", "version"), [("<", 7), (">", 7), ("<", 8), (">", 8)])
def test_the_files_of_all_processors_are_one_trace(
    order: str, version: int, event: str, action: int, tmp_path: Path
) -> None:
    found = events(seed=version)
    path = record_of(order, version, found, tmp_path)
    rows = list(wanted(found, action))
    for name in (path, tmp_path / "sda", tmp_path / "sda.blktrace.*"):
        assert table_of(name, tmp_path / "out.csv", read={"event": event}) == rows


def test_files_of_processors_that_a_shell_lists_are_one_trace(tmp_path: Path) -> None:
    record_of("<", 7, events(seed=7), tmp_path)
    ours = sorted(tmp_path.glob("sda.blktrace.*"))
    other = [tmp_path / "x.csv", tmp_path / "b" / "sda.blktrace.0"]
    (whole, *rest) = traces.distinct([*ours, *other])
    assert rest == other
    assert traces.info(whole)["requests"] == traces.info(ours[0])["requests"]
    assert traces.distinct(ours[:1]) == ours[:1]


def blkparse(name: str, folder: Path) -> None:
    """What blkparse makes of a trace, as the file `text`."""
    if shutil.which("blkparse") is None:
        pytest.skip("needs blkparse on PATH: apt-get install blktrace")
    done = subprocess.run(["blkparse", "-i", name], cwd=folder, capture_output=True, check=True)
    (folder / "text").write_bytes(done.stdout)


def test_blkparse_reads_what_is_written(tmp_path: Path) -> None:
    traces.make(tmp_path / "made.blktrace.0", **LAWS)
    blkparse("made", tmp_path)
    rows = table_of(tmp_path / "made.blktrace.0", tmp_path / "out.csv")
    text = table_of(tmp_path / "text", tmp_path / "out.csv", format="blkparse")
    assert [(at_ns - rows[0][0], *row) for at_ns, *row in rows] == text


@pytest.mark.parametrize("event", ["queued", "issued", "completed"])
def test_blkparse_prints_the_requests_that_its_input_has(event: str, tmp_path: Path) -> None:
    # Its version 1.2 takes the flag of cgroups for another action.
    path = record_of("<", 7, events(seed=1, cgroups=False), tmp_path)
    blkparse("sda", tmp_path)
    rows = table_of(path, tmp_path / "out.csv", read={"event": event})
    text = table_of(tmp_path / "text", tmp_path / "out.csv", format="blkparse", read={"event": event})
    assert len(rows) > 30
    # blkparse's times begin with the first event of the trace.
    assert [(at_ns - rows[0][0], *row) for at_ns, *row in rows] == [(at_ns - text[0][0], *row) for at_ns, *row in text]


def test_a_processor_without_requests_is_no_error_and_one_that_is_cut_is(tmp_path: Path) -> None:
    found = events(seed=2)
    path = record_of("<", 7, found, tmp_path)
    (tmp_path / "sda.blktrace.7").touch()
    assert traces.info(path)["requests"] == len(list(wanted(found, QUEUED)))
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(InputError, match=r"sda\.blktrace\.1: byte \d+: the trace ends \d+ bytes into a record of"):
        traces.info(tmp_path / "sda")


def test_an_event_that_a_trace_lacks_is_named_with_those_it_has(tmp_path: Path) -> None:
    path = record_of("<", 7, [event for event in events(seed=3) if event["action"] & 0xFF == ISSUED], tmp_path)
    with pytest.raises(InputError, match="event is queued, which the trace lacks, expected --event issued"):
        traces.info(path)


# Logs of fio


@pytest.mark.fio
def test_a_latency_log_of_fio_is_a_trace_of_its_requests(tmp_path: Path) -> None:
    job = "--name=j --filename=data --size=4M --bs=4k --rw=randrw --number_ios=300 --write_lat_log=j --log_offset=1"
    subprocess.run(["fio", *job.split(), "--output=out"], cwd=tmp_path, check=True)
    log = tmp_path / "j_lat.1.log"
    lines = [[int(field) for field in line.split(",")] for line in log.read_text().splitlines()]
    issued = sorted(max(0, at_ms * 10**6 - took_ns) for at_ms, took_ns, *_ in lines)
    rows = table_of(log, tmp_path / "out.csv")
    assert [at_ns for at_ns, *_ in rows] == issued
    completed = table_of(log, tmp_path / "out.csv", read={"event": "completed"})
    words = ["read", "write", "trim"]
    assert completed == [(at_ms * 10**6, words[kind], offset, size) for at_ms, _, kind, size, offset, _ in lines]


# Any layout


def test_any_layout_is_read_as_the_regular_expression_says(tmp_path: Path) -> None:
    seen = requests(LAWS, tmp_path)
    text = "Attaching 1 probe...\n" + "".join(
        f"{one.at_ns // 1000} us  {'RA' if one.reads else 'WS'} sd={number % 2}"
        f" [{one.offset // 512}, {one.length // 512}]\n"
        for number, one in enumerate(seen)
    )
    (tmp_path / "lines").write_text(text)
    pattern = r"^(?P<time_us>\d+) us +(?P<rw>[RW]\S*) sd=(?P<device>\d+) \[(?P<sector>\d+), (?P<sectors>\d+)"
    how = {"read": {"pattern": pattern, "kinds": "rwbs", "skip_unmatched": True}}
    found = [match.groupdict() for match in map(re.compile(pattern).search, text.splitlines()) if match]
    rows = table_of(tmp_path / "lines", tmp_path / "out.csv", **how)
    assert rows == [
        *(
            (int(row["time_us"]) * 1000, "read" if row["rw"] == "RA" else "write", int(row["sector"]) * 512, size)
            for row, size in ((row, int(row["sectors"]) * 512) for row in found)
        )
    ]
    assert traces.info(tmp_path / "lines", **how)["space"]["devices"] == 2
    strict = {**how["read"], "skip_unmatched": None}
    with pytest.raises(InputError, match="line 1: `Attaching 1 probe...` is not as --pattern says"):
        traces.info(tmp_path / "lines", read=strict)
    assert traces.info(tmp_path / "lines", read={**strict, "bad_lines": 1})["requests"] == len(seen)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "expected a regular expression"),
        (r"(?P<time_s>\d+)", "names with a time, a kind"),
        (r"(?P<time_s>\d+)(?P<when>.)(?P<kind>.)(?P<lba>\d+)(?P<size>\d+)", "`when` is none"),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(pattern: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("x\n")
    with pytest.raises((InputError, UsageError), match=why):
        traces.info(tmp_path / "lines", read={"pattern": pattern})


def test_options_of_patterns_do_nothing_without_one() -> None:
    with pytest.raises(UsageError, match="skip-unmatched goes with pattern"):
        traces.csv(skip_unmatched=True)
    with pytest.raises(UsageError, match="pattern goes with the format regex, and the format is csv"):
        traces.source("lines", format="csv", read={"pattern": "x"})


def test_a_pattern_that_backtracks_elsewhere_takes_a_linear_time(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a" * 60_000 + "\n")
    pattern = r"(?P<time_s>\d+)(?P<kind>(a+)+)b(?P<lba>\d+)(?P<size>\d+)"
    with pytest.raises(InputError, match="line 1: "):
        traces.info(tmp_path / "lines", read={"pattern": pattern})


def test_ids_of_objects_are_addresses_only_as_told(tmp_path: Path) -> None:
    write("oraclegeneral", tmp_path / "w.oracleGeneral.bin")
    with pytest.raises(InputError, match="--offset-unit 1 .* or 512 .*, and --kinds reads or writes"):
        traces.info(tmp_path / "w.oracleGeneral.bin")
    hashed = struct.pack("<IQIq", 0, 1 << 60, 4096, -1)
    (tmp_path / "hashed").write_bytes(hashed)
    with pytest.raises(InputError, match="byte 0: id `1152921504606846976` is too large"):
        traces.info(tmp_path / "hashed", format="oraclegeneral", read=READ_WITH["oraclegeneral"])


def test_output_without_addresses_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "out").write_text(
        "TIME(ms)     DISK    COMM             PID    LAT(ms)\n611          nvme0n1 bash             4179        10\n"
    )
    with pytest.raises(InputError, match="biosnoop.bt prints no addresses"):
        traces.info(tmp_path / "out")
