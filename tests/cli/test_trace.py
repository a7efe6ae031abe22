"""`ioassay trace`: answers, streams, interruptions, and no half files. What it refuses, and what it says to people, are
rows of tests/corpus/commands/trace.toml.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ..patience import until
from .conftest import Ask, start


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


def test_streams_are_read_and_written(trace: Path, tmp_path: Path) -> None:
    words = ("trace", "convert", "-", "-", "--from", "disksim", "--to", "disksim")
    with trace.open("rb") as given, start(*words, cwd=tmp_path, streams=(given.fileno(),)) as running:
        assert running.wait() == 0 and running.out == trace.read_text()
        assert "1,000 requests" in running.err


def test_a_reader_that_goes_away_ends_a_trace_with_a_sentence(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with start("trace", "make", "-", "--to", "disksim", cwd=tmp_path, streams=(None, writing)) as running:
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        assert running.wait() == 1
        assert running.err == "ioassay: the reader of the output is gone, and the rest of it is lost\n"


@pytest.mark.root
def test_a_full_disk_ends_with_1_and_leaves_nothing(ioassay: Ask, small_disk: Callable[..., Path]) -> None:
    folder = small_disk(64)
    said = ioassay("trace", "make", folder / "a.disksim", "--requests", 100_000)
    assert said.code == 1 and "No space left" in said.err
    assert not list(folder.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_no_half_file(number: signal.Signals, tmp_path: Path) -> None:
    with start("trace", "make", "a.disksim", "--requests", "2000000000", cwd=tmp_path) as running:
        until(lambda: list(tmp_path.iterdir()) or running.has_ended())
        running.send_signal(number)
        assert running.wait() == 130 and "Traceback" not in running.err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_a_wait_for_standard_input(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with start("trace", "info", "-", cwd=tmp_path, streams=(reading,)) as running:
        os.close(reading)
        until(lambda: running.has_ended() or "pipe" in Path(f"/proc/{running.pid}/wchan").read_text())
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130, running.err
    os.close(writing)


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
