"""The registry: every family of names has its unit, direction and label."""

import pytest

from ioassay import metrics


@pytest.mark.parametrize(
    ("name", "unit", "better", "label", "shown"),
    [
        ("read.bw", "bytes/s", "higher", "Read bandwidth", "1 kB/s"),
        ("total.iops", "IOPS", "higher", "Total IOPS", "1 k"),
        ("write.lat.mean", "ns", "lower", "Write total latency, mean", "1 µs"),
        ("write.clat.p99.9", "ns", "lower", "Write completion latency, 99.9th percentile", "1 µs"),
        ("read.slat.max", "ns", "lower", "Read submission latency, maximum", "1 µs"),
        ("read.lat.p50", "ns", "lower", "Read total latency, median", "1 µs"),
        ("total.lat.mean", "ns", "lower", "Total latency, mean", "1 µs"),
        ("cpu.usr", "%", "none", "CPU usr", "1000.0 %"),
        ("cpu.per_io", "ns", "lower", "Processor time of a request", "1 µs"),
        ("fillseq.drive.write.bytes", "bytes", "none", "fillseq: Bytes of writes that the drive counted", "1000 B"),
        ("load.drive.write.bytes", "bytes", "none", "Bytes of writes that the drive counted", "1000 B"),
        ("multireadrandom.ops_rate", "ops/s", "higher", "Rate of multireadrandom", "1 k"),
        ("drive.faults", "faults", "none", "Faults of the drive that struck", "1 k"),
        ("cpu.uncounted", "%", "none", "CPU of threads that the tool leaves out", "1000.0 %"),
    ],
)
def test_names_have_unit_direction_and_label(name: str, unit: str, better: str, label: str, shown: str) -> None:
    found = metrics.metric(name)
    assert (found.unit, found.better, found.label) == (unit, better, label)
    assert found.format(1000) == shown


def test_an_unknown_name_is_usable_and_has_no_unit() -> None:
    found = metrics.metric("strange.thing")
    assert (found.unit, found.better) == ("", "none")
    assert not metrics.known("strange.thing")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("read.bw", metrics.RATE),
        ("total.iops", metrics.RATE),
        ("reader/read.bw", metrics.RATE),
        ("bogo_ops_real_rate", metrics.RATE),
        ("bogo_ops_cpu_rate", ""),
        ("cpu_used", ""),
        ("read.lat.p99", ""),
        ("extra.cache_ops_per_second", ""),
        ("extra.compression_rate_mb_per_s", ""),
        ("context_switches", ""),
    ],
)
def test_only_what_all_workers_do_together_a_second_is_a_rate(name: str, kind: str) -> None:
    assert metrics.metric(name).kind == kind
