"""ioassay trace at the real command line: answers, exit codes, streams, and no half files."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., Any]


@pytest.fixture
def trace(ioassay: Ask, tmp_path: Path) -> Path:
    """A small trace of DiskSim's form."""
    assert ioassay("trace", "make", "small.disksim", "--requests", 1000, "--reads", 0.4).code == 0
    return tmp_path / "small.disksim"


def test_info_is_for_people_and_for_programs(ioassay: Ask, trace: Path) -> None:
    said = ioassay("trace", "info", trace)
    assert (said.code, said.err) == (0, "")
    assert "disksim, 1,000 requests" in said.out and "requests/s" in said.out
    found = ioassay("trace", "info", trace, "oltp", "--json").json["traces"]
    assert [each["format"] for each in found] == ["disksim", "spc"]
    assert found[0]["requests"] == 1000 and found[0]["path"] == str(trace)


def test_without_a_command_the_help_is_shown(ioassay: Ask) -> None:
    said = ioassay("trace")
    assert said.code == 2 and said.err.startswith("Usage: ioassay trace") and "convert" in said.err


def test_formats_are_listed(ioassay: Ask) -> None:
    assert "disksim" in ioassay("trace", "formats").out
    assert {"spc", "csv"} <= {each["name"] for each in ioassay("trace", "formats", "--json").json["formats"]}


def test_a_table_is_read_as_told(ioassay: Ask, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("7,1,100,8\n9,0,200,16\n")
    options = ["--columns", "time,kind,offset,length", "--time-unit", "ms", "--kinds", "read-is-1"]
    units = ["--offset-unit", 512, "--length-unit", "512"]
    said = ioassay("trace", "info", "t.txt", "--format", "csv", *options, *units, "--json")
    assert said.code == 0, said.err
    found = said.json["traces"][0]
    assert found["time"]["first_ns"] == 7_000_000 and found["space"]["end_bytes"] == 216 * 512
    assert found["kinds"]["read"] == {"requests": 1, "bytes": 4096}


def test_doubts_are_warnings_and_no_failure(ioassay: Ask, tmp_path: Path) -> None:
    assert ioassay("trace", "make", "fast.disksim", "--requests", 1000, "--arrivals", "fixed:50e6").code == 0
    said = ioassay("trace", "info", "fast.disksim", "--json")
    assert said.code == 0
    assert "[trace-too-fast]" in said.err and "--time-scale" in said.err
    assert "trace-too-fast" in [doubt["code"] for doubt in said.json["traces"][0]["doubts"]]


def test_convert_prepares_and_says_what_it_changed(ioassay: Ask, trace: Path, tmp_path: Path) -> None:
    said = ioassay("trace", "convert", trace, "out.spc.gz", "--keep", "writes", "--first", 100, "--rebase")
    assert said.code == 0 and "spc, 100 requests" in said.out and "of another kind" in said.out
    done = ioassay("trace", "convert", trace, "out.spc.gz", "--force", "--sizes", "split", "--page", "1KiB", "--json")
    assert done.json["changes"]["given"] == 4000 and done.json["changes"]["split"] == 1000


def test_streams_are_read_and_written(trace: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-m", "ioassay", "trace", "convert", "-", "-", "--from", "disksim", "--to", "disksim"]
    done = subprocess.run(argv, input=trace.read_bytes(), capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stdout == trace.read_bytes()
    assert b"1,000 requests" in done.stderr


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["info", "missing"], "missing: No such file"),
        (["info", "."], "Is a directory"),
        (["info", "small.disksim", "--format", "nothing"], "format"),
        (["info", "small.disksim", "--page", "0"], "page"),
        (["info", "noise"], "--format"),
        (["info", "nothing"], "nothing"),
        (["convert", "small.disksim", "small.disksim"], "--force"),
        (["convert", "small.disksim", "other.name"], "--to"),
        (["convert", "small.disksim", "a.disksim", "--limit", "1MiB"], "wrap or drop"),
        (["convert", "small.disksim", "a.disksim", "--skip", "1000"], "skip is 1000 and leaves out 1,000"),
        (["convert", "small.disksim", "small.disksim", "--force", "--keep", "trims"], "keep is trims and leaves out"),
        (["convert", "small.disksim", "a.disksim", "--first", "0"], "--first is 0, wanted 1 or more"),
        (["convert", "huge", "a.disksim", "--from", "disksim", "--sizes", "split"], "is the unit of lengths right?"),
        (["convert", "small.disksim", "a.disksim", "--out-of-order", "sort:x"], "sort:PLACES"),
        (["convert", "small.disksim", "-", "--to", "disksim", "--json"], "standard output"),
        (["convert", "-", "a.disksim", "--from", "disksim", "--shrink", "1MiB"], "shrink-from"),
        (["make", "a.disksim", "--arrivals", "poisson"], "poisson:RATE"),
        (["make", "a.disksim", "--trims", "0.1"], "--lose"),
        (["make", "nowhere/a.disksim"], "nowhere is no folder"),
        (["make", "a.disksim", "--requests", "many"], "--requests"),
        (["make", "a.disksim", "--requests", "0"], "--requests is 0, wanted 1 or more"),
    ],
)
def test_bad_input_ends_with_2_and_a_reason(
    argv: list[str], named: str, ioassay: Ask, trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "nothing").write_bytes(b"")
    (tmp_path / "huge").write_text("0 0 0 335937500 0\n1 0 8 8 0\n")
    small = trace.read_bytes()
    there = set(tmp_path.iterdir())
    said = ioassay("trace", *argv)
    assert said.code == 2 and named in said.err, said.err
    assert set(tmp_path.iterdir()) == there
    assert trace.read_bytes() == small


def test_a_reader_that_goes_away_ends_a_trace_with_a_sentence(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-m", "ioassay", "trace", "make", "-", "--to", "disksim"]
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout and running.stderr
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == "ioassay: the reader of the output is gone, and the rest of it is lost\n"
    running.stderr.close()
    assert running.wait(timeout=60) == 1


@pytest.mark.root
def test_a_full_disk_ends_with_1_and_leaves_nothing(ioassay: Ask, small_disk: Callable[..., Path]) -> None:
    folder = small_disk(64)
    said = ioassay("trace", "make", folder / "a.disksim", "--requests", 100_000)
    assert said.code == 1 and "No space left" in said.err
    assert not list(folder.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_no_half_file(number: signal.Signals, tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-m", "ioassay", "trace", "make", "a.disksim", "--requests", "2000000000"]
    running = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < give_up:
        time.sleep(0.02)
    os.kill(running.pid, number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_a_wait_for_standard_input(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-X", "faulthandler", "-m", "ioassay", "trace", "info", "-"]
    running = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wchan = Path(f"/proc/{running.pid}/wchan")
    give_up = time.monotonic() + 30
    while "pipe" not in wchan.read_text() and time.monotonic() < give_up:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    try:
        running.wait(timeout=30)
    finally:
        running.kill()
        _, err = running.communicate()
    assert running.returncode == 130, err


def test_a_miss_ratio_curve_is_a_table_and_json(ioassay: Ask) -> None:
    said = ioassay("trace", "mrc", "oltp", "--of", "writes", "--sample", 0.5, "--exact", "--points", 5)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0].startswith("oltp: writes, ") and "95 % confidence" in lines[1] and "off by" in lines[2]
    assert lines[3].split()[:6] == ["buffer", "pages", "miss", "ratio", "error", "exact"] and "█" in lines[4]
    found = ioassay("trace", "mrc", "oltp", "--points", 5, "--json").json
    assert len(found["miss_ratio"]) == len(found["size_pages"]) == 5
    assert found["miss_ratio"] == sorted(found["miss_ratio"], reverse=True) and found["exact_miss_ratio"] is None
    wrong = ioassay("trace", "mrc", "oltp", "--of", "all")
    assert wrong.code == 2 and "of is all, wanted reads, writes or both" in wrong.err


def test_the_cache_is_listed_and_cleared(ioassay: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert ioassay("trace", "make", "large.csv", "--requests", 60_000).code == 0
    assert ioassay("trace", "info", "large.csv", "--no-cache").code == 0
    assert ioassay("trace", "cache", "--json").json["entries"] == []
    assert ioassay("trace", "info", "large.csv").code == 0
    assert "1 trace, " in ioassay("trace", "cache").out
    (kept,) = ioassay("trace", "cache", "--json").json["entries"]
    place = tmp_path / "cache" / "ioassay" / "traces" / kept["name"]
    place.write_bytes(place.read_bytes()[:-1])
    said = ioassay("trace", "info", "large.csv")
    assert said.code == 0 and said.err.startswith("note: ") and "damaged" in said.err
    assert ioassay("trace", "cache", "--clear").out.endswith("of parsed traces removed\n")
    assert ioassay("trace", "cache", "--json").json["entries"] == []


def test_a_curve_is_drawn_and_replaced_only_when_told(ioassay: Ask, tmp_path: Path) -> None:
    said = ioassay("trace", "mrc", "oltp", "--sample", 0.5, "--output", "curve.SVG", "--json")
    assert said.code == 0 and said.json["output"] == "curve.SVG", said.err
    assert (tmp_path / "curve.SVG").read_text().startswith("<svg")
    for words, named in (
        (["curve.SVG"], "curve.SVG exists; --force replaces it"),
        (["curve.pdf"], "curve.pdf: the name tells no kind of picture, wanted one that ends in .svg, .png, .html"),
        (["no/curve.png"], "no is no folder"),
        (["."], "the name tells no kind of picture"),
    ):
        said = ioassay("trace", "mrc", "oltp", "--output", *words)
        assert said.code == 2 and named in said.err and said.out == ""
    assert ioassay("trace", "mrc", "oltp", "--output", "curve.SVG", "--force").code == 0
    assert "--force goes with --output FILE" in ioassay("trace", "mrc", "oltp", "--force").err
    assert [path.name for path in tmp_path.iterdir()] == ["curve.SVG"]
