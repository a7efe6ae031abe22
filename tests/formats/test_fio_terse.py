"""fio's semicolon formats, read into the same shape as JSON."""

from pathlib import Path

import pytest

from ioassay.drivers.fio import fio_metrics
from ioassay.errors import InputError
from ioassay.formats import fio_terse
from ioassay.formats.fio_results import Results

GOLDEN = Path(__file__).parents[1] / "golden" / "fio" / "3.33"


def read(text: str) -> Results:
    return fio_terse.parse(text, "fio's output")


@pytest.mark.parametrize("version", [3, 4, 5])
def test_each_version_gives_the_fields_at_their_places(version: int) -> None:
    text = (GOLDEN / f"terse-{version}.txt").read_text()
    found = read(text)
    fields = text.splitlines()[0].split(";")
    assert found.version == f"fio-{GOLDEN.name}"
    assert len(found.jobs) == 2
    reads = found.jobs[0].directions["read"]
    assert reads.bytes == int(fields[5]) * 1024
    assert reads.runtime_s == int(fields[8]) / 1e3
    assert reads.ios == pytest.approx(reads.bytes / 16384, rel=0.01)
    assert reads.latencies["clat"].mean_ns == pytest.approx(float(fields[15]) * 1e3)
    slat, clat, lat = (reads.latencies[kind].mean_ns for kind in ("slat", "clat", "lat"))
    assert lat == pytest.approx(slat + clat, rel=0.01)
    assert ("trim" in found.jobs[0].directions) == (version > 3)
    assert 0 < found.jobs[0].cpu.sys_percent < 100


def test_versions_and_directions_give_the_same_kind_of_metrics() -> None:
    for version in (3, 5):
        found = fio_metrics.metrics(read((GOLDEN / f"terse-{version}.txt").read_text()).jobs[:1])
        assert found["read.bw"] == pytest.approx(found["read.iops"] * 16384, rel=0.01)
        assert found["read.clat.p50"] <= found["read.clat.p99"] <= found["read.clat.max"]
        assert "trim.bw" not in found


def test_other_lines_are_kept_as_messages() -> None:
    text = (GOLDEN / "terse-3.txt").read_text()
    assert read(f"fio: a message\n{text}").messages == "fio: a message"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no terse line"),
        ("2;name;0;0\n", "has no terse line"),
        ("3;fio-3.33;name;0;0;1;2\n", "line 1: it is cut off: 7 fields of terse version 3; wanted 121"),
        ("9;fio-9.9;" + "0;" * 200 + "\n", "wanted 3, 4 or 5"),
        ("3;fio-3.33;name;x;0" + ";0" * 116 + "\n", "line 1: groupid is 'x'"),
    ],
)
def test_what_is_no_terse_output_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)
