"""What `ioassay import` takes from elbencho's --csvfile: the last thread's columns of each phase."""

from pathlib import Path

import pytest

from ioassay.errors import InputError
from ioassay.formats import elbencho_csv
from ioassay.store import frames, importer

FILE = Path(__file__).parents[1] / "golden" / "elbencho" / "documented" / "results.csv"


def test_each_phase_is_an_entry_with_the_numbers_of_the_last_thread() -> None:
    folders, write, reading, mix = elbencho_csv.read(FILE.read_text(), "results.csv")
    assert folders.metrics == {
        "entry.rate": 1000,
        "entry.time.min": 300_000,
        "entry.time.mean": 400_000,
        "entry.time.max": 500_000,
    }
    assert {name: value for name, value in write.metrics.items() if name.startswith("write")} == {
        "write.iops": 8000,
        "write.bw": 500 * 2**20,
        "write.lat.min": 90_000,
        "write.lat.mean": 120_000,
        "write.lat.max": 900_000,
        "write.runtime": pytest.approx(0.016),
    }
    assert (reading.metrics["read.iops"], reading.metrics["entry.rate"]) == (16000, 1000)
    assert (mix.metrics["write.iops"], mix.metrics["read.iops"]) == (3000, 990)
    assert (mix.metrics["write.lat.mean"], mix.metrics["read.lat.mean"]) == (210_000, 95_000)
    assert {name: mix.options[name] for name in ("operation", "workers", "bs", "iodepth", "direct", "random")} == {
        "operation": "RWMIX25",
        "workers": "4",
        "bs": "4KiB",
        "iodepth": "8",
        "direct": "1",
        "random": "1",
    }
    assert not [name for one in (write, reading, mix) for name in one.metrics if ".p" in name]


def test_columns_of_older_versions_have_no_brackets() -> None:
    old = "operation,time ms first,time ms last,IOPS last,MiB/s last\nREAD,1,2,300,4\n"
    assert elbencho_csv.looks_like(old)
    (reading,) = elbencho_csv.read(old, "old.csv")
    assert reading.metrics == {"read.iops": 300, "read.bw": 4 * 2**20, "read.runtime": 0.002}


def test_the_same_phases_again_are_repetitions(tmp_path: Path) -> None:
    twice = tmp_path / "twice.csv"
    twice.write_text(FILE.read_text() * 2)  # head and all
    found = frames.load(importer.take_in([twice], tmp_path / "run"))
    assert found.studies[0].driver == "elbencho"
    assert found.trials.filter(operation="READ")["repetition"].to_list() == [0, 1]
    assert found.trials.height == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("WRITE,10", "WRITE,x,10"), "row 3 has 56 cells; wanted 55"),
        ((",8000,", ",eight,"), "row 3: elbencho's iops last is 'eight'"),
        (("WRITE,10", ",10"), "row 3: has no operation"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=f"results.csv: {message}"):
        elbencho_csv.read(FILE.read_text().replace(*change), "results.csv")


def test_a_phase_that_moved_nothing_failed() -> None:
    (nothing,) = elbencho_csv.read("operation,time ms [last],IOPS [last],MiB/s [last]\nREAD,2,0,0\n", "x")
    assert (nothing.problem, nothing.metrics) == ("no request was done", {})
