"""fio's report for people, read into the same shape as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError
from ioassay.formats import fio_text

TEXT = (Path(__file__).parents[1] / "golden" / "fio" / "3.33" / "normal.txt").read_text()


def test_requests_are_exact_and_volumes_are_rounded() -> None:
    results, facts = fio_text.parse(TEXT, "it")
    first = results.jobs[0].directions["read"]
    assert (first.ios, first.ios_stated, first.bytes_stated) == (4130, True, False)
    assert first.bytes == pytest.approx(4130 * 16384, rel=1e-3)
    assert first.rate_bytes_per_s == pytest.approx(first.bytes / first.runtime_s, abs=first.rate_step_bytes_per_s)
    assert (facts.engine, facts.record_bytes, results.jobs[0].syncs) == ("libaio", {}, 0)


def test_latencies_are_in_nanoseconds_whatever_they_are_printed_in() -> None:
    clat = fio_text.parse(TEXT, "it")[0].jobs[0].directions["read"].latencies["clat"]
    assert (clat.count, clat.min_ns, clat.max_ns) == (4130, 1275, pytest.approx(2954.4e3))
    assert (clat.mean_ns, clat.stddev_ns) == (86378.0, 68803.47)


def test_bytes_are_exact_where_all_requests_are_of_one_size() -> None:
    small = TEXT.replace("16.0KiB", "16384B")
    read, write = formats.read([], small)
    assert (read.bytes, write.record_bytes) == ((read.operations or 0) * 16384, 16384)
    assert read.rate_bytes_per_s == pytest.approx((read.bytes or 0) / (read.seconds or 1))
    assert [claim.bytes for claim in formats.read([], TEXT)] == [None, None]


def test_units_of_thousands_are_not_those_of_1024() -> None:
    decimal = TEXT.replace("BW=64.5MiB/s (67.6MB/s)(64.5MiB/", "BW=67.6MB/s (64.5MiB/s)(67.6MB/")
    results, _ = fio_text.parse(decimal, "it")
    assert results.jobs[0].directions["read"].rate_bytes_per_s == 67.6e6


def test_a_report_without_requests_counts_them_from_the_rate() -> None:
    results, _ = fio_text.parse(TEXT.replace("issued rwts", "dropped"), "it")
    first = results.jobs[0].directions["read"]
    assert (first.ios, first.ios_stated, results.jobs[0].syncs) == (round(4125 * 1.001), False, None)
    assert formats.read([], TEXT.replace("issued rwts", "dropped"))[0].operations is None


def test_a_report_of_no_io_is_refused() -> None:
    with pytest.raises(InputError, match="it: has no line of results"):
        fio_text.parse("\n".join(line for line in TEXT.splitlines() if "IOPS=" not in line), "it")
