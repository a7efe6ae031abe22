"""The simulated drive gives the numbers of DiskSim 4.0 with its SSD extension, measured on a build of it.

The reference program stops when the last request is issued and does not count what is then in flight
(`end="last-issued"`), and gives up at 10,000 outstanding requests. Where a late last request was added to its input,
everything counts (`end="drained"`, the default). A window of 1000 requests never filled there, so `window=None` is
the same. Means are in milliseconds, rounded to the digits that are written here.

The reference's times are floating point, so events that are simultaneous here may be apart there. With reads that moves
the mean of one row by 3 ns; the second drive (`reference_drive`) gives the reference's digits if it computes in floats.

Where the host's queue is long, events at the same instant (a page's end and a transfer's end) decide which request is
next, and the reference's order of equals follows from its event queue. Any rule is as right as another, and the mean
depends on it: such rows are held within the band that rules for equals span (`BANDS`), and the reference lies in it.
"""

from pathlib import Path
from typing import Any

import pytest

from ioassay.simulator import simulate

LAST_ISSUED = {"end": "last-issued", "max_outstanding": 10_000}
DRAINED = {"max_outstanding": 10_000}

# elements, requests a second; mean with a window of 20, mean without a window
STEADY_100K = [
    (8, 1_000, 0.317048, 0.317048),
    (8, 16_000, 0.570518, 0.569589),
    (8, 20_000, 1.119179, 0.856145),
    (8, 22_000, 76.46, 1.218431),
    (16, 2_000, 0.317133, 0.317133),
    (16, 20_000, 0.411426, 0.411414),
    (16, 34_000, 3.749110, 0.622312),
    (48, 1_000, 0.311810, 0.311810),
    (48, 20_000, 0.334438, 0.334437),
    (48, 48_000, 0.511683, 0.382692),
    (48, 52_000, 3.809692, 0.391667),
]
STEADY_1M = [
    (8, 16_000, 0.614173, 0.608599),
    (16, 16_000, None, 0.381158),
    (48, 1_000, 0.311908, 0.311908),
    (48, 20_000, 0.334047, 0.334047),
    (48, 48_000, 0.476426, 0.381478),
]
BANDS = {
    (100_000, 48, 52_000): (3.55, 5.2),
    (100_000, 16, 34_000): (3.57, 4.73),
    (1_000_000, 48, 48_000): (0.47628, 0.47694),
}


def summary(trace: Path, **options: Any) -> dict[str, Any]:
    return simulate(trace, format="disksim", **options).summary


def rounded(mean: float, digits: int = 6) -> Any:
    """The mean to all the digits that the reference printed."""
    return pytest.approx(mean, abs=0.6 * 10**-digits)


def hold(found: dict[str, Any], requests: int, elements: int, rate: int, mean: float) -> None:
    """A row with a window: in its band, or to 1e-4."""
    if band := BANDS.get((requests, elements, rate)):
        assert band[0] < found["mean_response_ms"] < band[1] and band[0] < mean < band[1]
    else:
        assert found["mean_response_ms"] == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize(("elements", "rate", "windowed", "mean"), STEADY_100K)
def test_steady_state_of_100_000_writes(poisson: Any, elements: int, rate: int, windowed: float, mean: float) -> None:
    trace = poisson(100_000, rate)
    assert summary(trace, elements=elements, window=None, **LAST_ISSUED)["mean_response_ms"] == rounded(mean)
    hold(summary(trace, elements=elements, window=20, **LAST_ISSUED), 100_000, elements, rate, windowed)


def test_a_window_that_fills_saturates_before_the_elements_do(poisson: Any) -> None:
    found = summary(poisson(100_000, 22_000), elements=8, window=20, **LAST_ISSUED)
    assert found["saturated"] and found["iops"] == pytest.approx(21_300, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("elements", "rate", "windowed", "mean"), STEADY_1M)
def test_steady_state_of_a_million_writes(
    poisson: Any, elements: int, rate: int, windowed: float | None, mean: float
) -> None:
    trace = poisson(1_000_000, rate)
    assert summary(trace, elements=elements, window=None, **LAST_ISSUED)["mean_response_ms"] == rounded(mean)
    if windowed:
        hold(summary(trace, elements=elements, window=20, **LAST_ISSUED), 1_000_000, elements, rate, windowed)


@pytest.mark.slow
def test_counts_of_the_first_cleanings(poisson: Any) -> None:
    trace = poisson(1_000_000, 16_000)
    without = summary(trace, elements=8, window=None, **LAST_ISSUED)
    assert (without["cleanings"], without["moved_pages"]) == (2_849, 1_779)
    assert summary(trace, elements=8, window=20, **LAST_ISSUED)["cleanings"] == 2_849


CLEANED = {"elements": 8, "blocks": 256, **LAST_ISSUED}
CLEANED_PAGES = 878_976


@pytest.mark.slow
def test_a_small_drive_that_cleans_all_the_time(poisson: Any) -> None:
    trace = poisson(1_000_000, 2_000, CLEANED_PAGES, 7)
    windowed, without = summary(trace, window=20, **CLEANED), summary(trace, window=None, **CLEANED)
    assert windowed["mean_response_ms"] == rounded(2.752212) and windowed["cleanings"] == 67_924
    assert without["mean_response_ms"] == rounded(2.753367) and without["cleanings"] == 67_913
    assert (without["moved_pages"], without["requests"]) == (3_379_282, 999_992)


@pytest.mark.slow
def test_a_small_drive_near_saturation(poisson: Any) -> None:
    """The host's queue is long: the order of equals moves single cleanings, of 67,710."""
    found = summary(poisson(1_000_000, 4_000, CLEANED_PAGES, 7), window=20, **CLEANED)
    assert found["mean_response_ms"] == pytest.approx(125.29, rel=1e-4)
    assert found["cleanings"] == pytest.approx(67_710, abs=15)


@pytest.mark.slow
def test_a_small_drive_beyond_saturation_is_given_up(poisson: Any) -> None:
    found = summary(poisson(1_000_000, 8_000, CLEANED_PAGES, 7), window=20, **CLEANED)
    assert found["saturated"] and found["requests"] == 110_190
    assert found["mean_response_ms"] == pytest.approx(44.4, rel=1e-3)


# Requests, requests a second, their sizes in pages, share of reads, seed; elements, window; mean, longest
MIXED = [
    ((15_000, 20_000, (1,), 0.5, 1), 48, None, 0.233004, 0.843958),
    ((15_000, 60_000, (1,), 0.5, 2), 48, None, 0.266978, 1.343566),
    ((15_000, 60_000, (1,), 0.5, 2), 48, 20, 0.281759, 1.343566),
    ((15_000, 150_000, (1,), 0.7, 3), 48, None, 0.328351, 2.360462),
    ((15_000, 10_000, (1, 2, 4, 8, 16), 0.5, 4), 48, None, 0.331809, 1.627695),
    ((15_000, 10_000, (1, 2, 4, 8, 16), 0.5, 4), 16, None, 1.467554, 8.682359),
    ((15_000, 20_000, (1, 2, 4, 8, 16), 0.5, 5), 48, None, 0.553299, 3.878869),
    ((15_000, 20_000, (1, 2, 4, 8, 16), 0.5, 5), 48, 20, 0.568331, 4.265966),
    ((15_000, 8_000, (16,), 0.7, 6), 48, None, 0.493203, 3.291920),
    ((5_000, 300, (1,) * 9 + (256,), 0.5, 7), 48, None, 0.436191, 4.871511),
    ((15_000, 200_000, (1,), 1.0, 8), 48, None, 0.212620, 1.129006),
    ((15_000, 5_000, (1, 4), 0.9, 9), 8, 20, 0.192418, 0.986474),
]


@pytest.mark.parametrize(("load", "elements", "window", "mean", "longest"), MIXED)
def test_reads_and_writes(
    mixed: Any, load: tuple[Any, ...], elements: int, window: int | None, mean: float, longest: float
) -> None:
    found = summary(mixed(*load), elements=elements, window=window, **LAST_ISSUED)
    assert found["requests"] == load[0]
    if window is None:
        assert found["mean_response_ms"] == pytest.approx(mean, rel=6e-6) and found["max_ms"] == rounded(longest)
    else:
        assert found["mean_response_ms"] == pytest.approx(mean, rel=1e-4)


def test_a_read_waits_for_the_write_before_it(lines: Any) -> None:
    trace = lines((0, 0, 2048), (0.001, 80, 8, 1), (100, 0, 8, 1), (200, 0, 8, 1))
    assert summary(trace, window=None, **LAST_ISSUED)["mean_response_ms"] == rounded(1.635900)


# Requests as (ms, first sector, sectors, read); mean
ONE_REQUEST = [
    ((0, 0, 8), {}, 0.307507),
    ((0, 0, 2), {"page": "1KiB"}, 0.226877),
    ((0, 0, 4), {"page": "2KiB"}, 0.253754),
    ((0, 0, 8), {"page": "1KiB"}, 0.228307),
    ((0, 0, 8), {"page": "2KiB"}, 0.254707),
    ((0, 0, 8, 1), {}, 0.132507),
    ((0, 0, 48 * 8), {}, 0.397146),
    ((0, 0, 64 * 8), {}, 0.733261),
    ((0, 0, 64 * 8, 1), {}, 0.383261),
]


@pytest.mark.parametrize(("request_", "options", "mean"), ONE_REQUEST)
def test_one_request_alone(lines: Any, request_: tuple[float, ...], options: dict[str, Any], mean: float) -> None:
    found = summary(lines(request_), **options)
    assert found["mean_response_ms"] == rounded(mean) and found["max_ms"] == rounded(mean)


# Pages written at time 0; window, mean, longest
AT_ONCE = [
    ((0, 48), 20, 0.460307, 0.613107),
    ((0, 1), 20, 0.308461, 0.309414),
    (range(64), 1000, 0.421098, None),
    (range(64), 20, 0.670618, None),
    (range(48), 1000, 0.352326, None),
    (range(48), 20, 0.554349, None),
    (range(0, 48 * 48, 48), 1000, 7.489107, 14.670707),
    (range(0, 48 * 48, 48), 20, 7.489107, 14.670707),
]


@pytest.mark.parametrize(("pages", "window", "mean", "longest"), AT_ONCE)
def test_writes_at_one_time(lines: Any, pages: Any, window: int, mean: float, longest: float | None) -> None:
    found = summary(lines(*((0, page * 8, 8) for page in pages)), window=window)
    assert found["mean_response_ms"] == rounded(mean)
    assert longest is None or found["max_ms"] == rounded(longest)
