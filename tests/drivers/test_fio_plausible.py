"""A part of a request's time that is longer than the whole is left out, and said."""

from ioassay.drivers.fio.fio_outcome import without_impossible
from ioassay.formats.fio_results import Direction, Job, Latency, Results

HOURS_NS = 4.2e13


def latency(mean_ns: float) -> Latency:
    return Latency(100, mean_ns, 1.0, mean_ns / 2, mean_ns * 2)


def results(**latencies: float) -> Results:
    found = {kind: latency(mean_ns) for kind, mean_ns in latencies.items()}
    return Results("fio-3.33", [Job("job", 0, 0, {"read": Direction(100, 409600, 1.0, found)})])


def test_hours_of_completion_in_a_request_of_microseconds_are_left_out() -> None:
    kept, [warning] = without_impossible(results(clat=HOURS_NS, lat=13_000))
    assert set(kept.jobs[0].directions["read"].latencies) == {"lat"}
    assert warning.code == "impossible-latency" and "clat is longer" in warning.text


def test_what_can_be_is_kept_as_it_is() -> None:
    for found in (results(slat=1000, clat=12_000, lat=13_000), results(clat=HOURS_NS), results()):
        assert without_impossible(found) == (found, [])
