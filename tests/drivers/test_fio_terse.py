"""fio's semicolon formats, read into the same shape as JSON."""

from typing import Any

import pytest

from ioassay.drivers.fio import merging
from ioassay.drivers.fio.terse import parse_terse
from ioassay.errors import InputError


@pytest.mark.parametrize("version", [3, 4, 5])
def test_each_version_gives_the_fields_at_their_places(golden: Any, version: int) -> None:
    text = (golden.folder / f"terse-{version}.txt").read_text()
    found = parse_terse(text)
    fields = text.splitlines()[0].split(";")
    assert found.version == f"fio-{golden.folder.name}"
    assert len(found.jobs) == 2
    read = found.jobs[0].directions["read"]
    assert read.bytes == int(fields[5]) * 1024
    assert read.runtime_s == int(fields[8]) / 1e3
    assert read.ios == pytest.approx(read.bytes / 16384, rel=0.01)
    assert read.latencies["clat"].mean_ns == pytest.approx(float(fields[15]) * 1e3)
    slat, clat, lat = (read.latencies[kind].mean_ns for kind in ("slat", "clat", "lat"))
    assert lat == pytest.approx(slat + clat, rel=0.01)
    assert ("trim" in found.jobs[0].directions) == (version > 3)
    assert 0 < found.jobs[0].cpu["sys"] < 100


def test_versions_and_directions_give_the_same_kind_of_metrics(golden: Any) -> None:
    for version in (3, 5):
        found = merging.metrics(parse_terse((golden.folder / f"terse-{version}.txt").read_text()).jobs[:1])
        assert found["read.bw"] == pytest.approx(found["read.iops"] * 16384, rel=0.01)
        assert found["read.clat.p50"] <= found["read.clat.p99"] <= found["read.clat.max"]
        assert "trim.bw" not in found


def test_other_lines_are_kept_as_messages(golden: Any) -> None:
    text = (golden.folder / "terse-3.txt").read_text()
    assert parse_terse(f"fio: a message\n{text}").messages == "fio: a message"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no terse line"),
        ("2;name;0;0\n", "has no terse line"),
        ("3;fio-3.33;name;0;0;1;2\n", "line 1: 7 fields of terse version 3; wanted 121"),
        ("9;fio-9.9;" + "0;" * 200 + "\n", "wanted 3, 4 or 5"),
        ("3;fio-3.33;name;x;0" + ";0" * 116 + "\n", "line 1: groupid is 'x'"),
    ],
)
def test_what_is_no_terse_output_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_terse(text)
