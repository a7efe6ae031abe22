"""The compiled module: as its stub says, and right where Python and Rust meet.

What the numbers are is proved by `cargo test`; here they are held against numpy, scipy and fio's own results.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import threading
import tomllib
import types
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import ioassay
from ioassay import _core
from ioassay._core import CoreError, Histogram

from .corpora import cases

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "crates" / "fiolog" / "tests" / "golden" / "fio-3.33"


def stub() -> dict[str, Any]:
    """What the stub defines, as if it were the module: annotations are not evaluated."""
    text = (ROOT / "python" / "ioassay" / "_core.pyi").read_text()
    defined: dict[str, Any] = {"__name__": "stub"}
    exec(f"from __future__ import annotations\n{text}", defined)
    return {name: one for name, one in defined.items() if getattr(one, "__module__", "") == "stub"} | {
        "__all__": defined["__all__"]
    }


STUB = stub()


def parameters(function: Callable[..., object]) -> list[tuple[str, str, object]]:
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind.name, each.default) for each in found if each.name != "self"]


def public(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_the_version_is_that_of_the_manifest() -> None:
    assert tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"] == _core.__version__
    assert ioassay.__version__ == _core.__version__


def test_the_stub_names_what_the_module_has() -> None:
    assert public(STUB) == public(dir(_core)) == set(STUB["__all__"])


@pytest.mark.parametrize("name", sorted(public(STUB)))
def test_functions_and_classes_are_as_the_stub_says(name: str) -> None:
    said, found = STUB[name], getattr(_core, name)
    if inspect.isfunction(said):
        assert said.__doc__, f"{name} has no docstring"
        assert parameters(found) == parameters(said)
        return
    if issubclass(found, Exception):
        assert [base.__name__ for base in said.__bases__] == [base.__name__ for base in found.__bases__]
        assert issubclass(found, ValueError)
        return
    assert public(vars(said)) == public(vars(found))
    kinds = (property, staticmethod, types.FunctionType)
    for member, description in [entry for entry in vars(said).items() if isinstance(entry[1], kinds)]:
        real = inspect.getattr_static(found, member)
        if isinstance(description, property):
            assert inspect.isdatadescriptor(real), f"{name}.{member} is no property"
        elif not member.startswith("__"):
            assert isinstance(description, staticmethod) == isinstance(real, staticmethod)
            assert parameters(getattr(found, member)) == parameters(getattr(said, member)), f"{name}.{member}"


def test_percentiles_are_those_of_numpy_and_their_intervals_those_of_scipy() -> None:
    seed = 20240611
    rng = np.random.default_rng(seed)
    for size in (1, 2, 10, 1001):
        samples = rng.lognormal(11, 1, size)
        shares = rng.random(20)
        expected = np.quantile(samples, shares)
        assert _core.percentiles(samples, shares) == pytest.approx(expected), f"seed {seed}, size {size}"
        assert _core.percentile(list(samples), 0.9) == pytest.approx(np.quantile(samples, 0.9))
        histogram = Histogram()
        histogram.record_many((samples * 1000).astype(np.uint64))
        assert histogram.quantiles(shares) == pytest.approx(expected * 1000, rel=1e-3), f"seed {seed}"
        ends = binom(size, 0.5).ppf([0.025, 0.975])  # the samples are their own ranks
        assert size < 10 or _core.percentile_interval(range(1, size + 1), 0.5) == (ends[0], ends[1] + 1)


def test_columns_of_every_kind_are_taken() -> None:
    columns = [[3, 1, 2], (3, 1, 2), iter([3, 1, 2]), array("Q", [3, 1, 2]), np.array([3, 1, 2])]
    columns += [np.array([3, 1, 2], dtype=kind) for kind in ("u8", "i8", "i4", "u1")]
    columns.append(np.array([3, 0, 1, 0, 2], dtype="u8")[::2])
    for column in columns:
        histogram = Histogram()
        histogram.record_many(column)
        assert histogram.buckets() == ([1, 2, 3], [1, 1, 1]), repr(column)


@pytest.mark.parametrize("column", [[1, None], [1, 2**64], array("q", [1, -2])])
def test_a_bad_number_of_a_column_is_named(column: list[int]) -> None:
    with pytest.raises(
        CoreError, match=r"values_ns\[1\] is .*, expected a whole number from 0 to 18446744073709551615"
    ):
        Histogram().record_many(column)


@cases("core", "refused")
def test_questions_that_cannot_be_are_refused(case: dict[str, Any]) -> None:
    names, of = case["call"].split("."), Histogram() if "." in case["call"] else _core
    words = [word.format(golden=GOLDEN) if isinstance(word, str) else word for word in case["words"]]
    with pytest.raises(CoreError, match=case["says"]):
        getattr(of, names[-1])(*words, **case.get("named", {}))


def test_files_that_cannot_be_read_are_errors_of_the_system(tmp_path: Path) -> None:
    for read in (lambda path: _core.read_log(path, "lat"), _core.read_histogram_log):
        with pytest.raises(FileNotFoundError, match="No such file") as missing:
            read(tmp_path / "missing")
        assert missing.value.filename == str(tmp_path / "missing")
        with pytest.raises(IsADirectoryError):
            read(tmp_path)


def test_a_histogram_survives_a_pickle_and_stays_itself() -> None:
    histogram = Histogram.from_buckets([250, 10**6, 2**64 - 1], [5, 1, 1])
    for other in (pickle.loads(pickle.dumps(histogram)), copy.deepcopy(histogram)):
        assert other == histogram and other is not histogram
        assert (other.count, other.mean, other.stddev) == (7, histogram.mean, histogram.stddev)
        other.record(3)
        assert other != histogram


def test_a_histogram_merges_with_itself() -> None:
    histogram = Histogram.from_buckets([1, 5], [2, 1])
    histogram.merge(histogram)
    assert (histogram.buckets(), histogram.mean) == (([1, 5], [4, 2]), pytest.approx(14 / 6))
    assert repr(histogram) == "<Histogram of 6 values from 1 to 5>"


def test_an_empty_histogram_has_no_moments() -> None:
    empty = Histogram()
    assert (empty.count, empty.mean, empty.stddev, empty.min, empty.max) == (0, None, None, None, None)
    assert (empty.buckets(), repr(empty)) == (([], []), "<Histogram of no values>")
    with pytest.raises(CoreError, match="expected those of a histogram"):
        empty.__setstate__(b"rubbish")


def test_a_log_and_the_bins_of_the_same_run_agree() -> None:
    job = json.loads((GOLDEN / "hist.json").read_text())["jobs"][0]
    names = {_core.fio_bin_ns(index) for index in range(1856)}
    log = _core.read_log(GOLDEN / "hist_clat.1.log")
    assert (log.kind, log.unit, log.columns, log.lines) == ("clat", "ns", 5, 1792)
    for direction, read in log.directions.items():
        told = job[direction]["clat_ns"]
        assert (read.count, read.min, read.max) == (told["N"], told["min"], told["max"])
        assert (read.mean, read.stddev) == (pytest.approx(told["mean"]), pytest.approx(told["stddev"]))
        assert set(map(int, told["bins"])) <= names
        bins = Histogram.from_buckets(map(int, told["bins"]), told["bins"].values())
        for q in (0.1, 0.5, 0.9, 0.99):
            # Half a bin of fio's, and where the rank falls between two bins.
            assert bins.quantile(q) == pytest.approx(read.histogram.quantile(q), rel=0.03)


def test_series_come_as_lists() -> None:
    read = _core.read_log(GOLDEN / "windowed_bw.1.log", window_ms=500).directions["write"]
    series = read.series
    assert (series.window_ms, series.start_ms, series.count) == (500, [0, 500], [3, 5])
    assert series.sum == [(6513 + 6552 + 6600) * 1024, (6560 + 6480 + 6626 + 6560 + 6520) * 1024]
    assert series.mean == [total / count for total, count in zip(series.sum, series.count, strict=True)]
    assert (series.min[0], series.max[0]) == (6513 * 1024, 6600 * 1024)
    assert (read.first_ms, read.last_ms, read.time_reversals, read.bytes) == (148, 900, 0, 0)
    assert read.histogram is read.histogram


def test_a_histogram_log_gives_a_histogram_per_direction() -> None:
    log = _core.read_histogram_log(GOLDEN / "hist_clat_hist.1.log")
    assert (log.bins, log.coarseness, log.unit_ns, log.lines) == (1856, 0, 1, 6)
    reads = log.directions["read"]
    assert (reads.lines, reads.histogram.count) == (3, 224 + 236 + 186) and not reads.looks_cumulative


def test_the_first_bad_line_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "x_lat.1.log"
    log.write_bytes(b"1, 5, 0, 4096, 0\nrubbish\n2, 6, 1, 4096, 0\n3, 7")
    with pytest.raises(CoreError, match=r"x_lat.1.log: line 2, `rubbish`: 1 columns, expected 5"):
        _core.read_log(log)


def test_other_threads_run_while_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "pipe"
    os.mkfifo(log)
    # Whoever holds the interpreter while it waits for this pipe would wait for ever.
    writer = threading.Thread(target=lambda: log.write_text("1, 5, 0, 4096, 0\n"), daemon=True)
    writer.start()
    assert _core.read_log(log, "lat").directions["read"].count == 1
    writer.join()
