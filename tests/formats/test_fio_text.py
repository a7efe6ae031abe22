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


@pytest.mark.parametrize(
    ("iops", "rate", "volume", "time", "latency", "wanted"),
    [
        ("250", "2B", "5B", "2000msec", "nsec", (500, 2, 1, 5, 1.0)),
        ("1.5k", "2.5kB", "5KiB", "2sec", "usec", (3000, 2500, 100, 5120, 1e3)),
        ("1.5M", "2.5MiB", "5MB", "3000000usec", "msec", (4_500_000, 2.5 * 2**20, 0.1 * 2**20, 5_000_000, 1e6)),
        ("1G", "2GB", "5.5TiB", "1msec", "sec", (1_000_000, 2e9, 1e9, 11 * 2**39, 1e9)),
    ],
)
def test_every_unit_of_a_report(
    iops: str, rate: str, volume: str, time: str, latency: str, wanted: tuple[float, ...]
) -> None:
    report = (
        "j: (groupid=3, jobs=2): err= 5: pid=1\n"
        f"  read: IOPS={iops}, BW={rate}/s (1B/s)({volume}/{time})\n"
        f"     lat ({latency}): min=1, max=2k, avg=1.5M, stdev=2.5G\n"
    )
    (job,) = fio_text.parse(report, "it")[0].jobs
    done = job.directions["read"]
    unit = wanted[-1]
    assert (job.name, job.group, job.error, job.errors, job.runtime_s) == ("j", 3, 5, 1, done.runtime_s)
    assert (done.ios, done.rate_bytes_per_s, done.rate_step_bytes_per_s, done.bytes) == pytest.approx(wanted[:-1])
    whole = done.latencies["lat"]
    assert (whole.min_ns, whole.max_ns, whole.mean_ns, whole.stddev_ns) == pytest.approx(
        (unit, 2e3 * unit, 1.5e6 * unit, 2.5e9 * unit)
    )
