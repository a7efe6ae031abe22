"""Sizes and durations: what is read, what is refused, how it is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay import units


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4096", 4096),
        (4096, 4096),
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("4kB", 4000),
        ("4KB", 4000),
        ("1M", 2**20),
        ("1.5GiB", 3 * 2**29),
        ("2TB", 2 * 10**12),
        ("0", 0),
        ("512B", 512),
    ],
)
def test_sizes_are_read_as_documented(text: str | int, size_bytes: int) -> None:
    assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "k", "4 foo", "-1", "0.3", "1.0001k", "4kk", "1e3", "KiB", -5])
def test_what_is_no_size_is_refused_and_named(text: str | int) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is not"):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10), ("500ms", 0.5), ("2m", 120), ("1h", 3600), (3, 3), ("1.5", 1.5), ("10us", 1e-5)]
)
def test_durations_are_read_as_documented(text: str | float, seconds: float) -> None:
    assert units.parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("unit", "seconds"),
    [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1), ("m", 60), ("h", 3600), ("d", 86400), ("", 1)],
)
def test_every_unit_of_a_duration(unit: str, seconds: float) -> None:
    assert units.parse_duration_s(f"2{unit}") == pytest.approx(2 * seconds, rel=1e-12)


def test_a_duration_is_shorter_than_a_century() -> None:
    assert units.parse_duration_s(36499 * 86400) == 36499 * 86400
    for beyond in (36500 * 86400, float("nan"), "36500d"):
        with pytest.raises(ValueError, match="not a duration"):
            units.parse_duration_s(beyond)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.5, "0.5 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (75, "1 min 15 s"),
        (3599, "59 min 59 s"),
        (3660, "1 h 1 min"),
    ],
)
def test_durations_are_shown_for_people(seconds: float, shown: str) -> None:
    assert units.format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("processors", "text"),
    [("0-2,5", "0-2,5"), ("5,0,1,2", "0-2,5"), ("3", "3"), ("1,3", "1,3"), (" 0 , 1", "0-1"), ("8191", "8191")],
)
def test_processors_are_lists_of_ranges(processors: str, text: str) -> None:
    assert units.format_processors(units.parse_processors(processors)) == text


@pytest.mark.parametrize("processors", ["", "2-1", "8192", "0-8192", "a", "1,,2"])
def test_what_is_no_list_of_processors_is_refused(processors: str) -> None:
    with pytest.raises(ValueError, match="wanted a list of processors"):
        units.parse_processors(processors)


@pytest.mark.parametrize("text", ["", "10x", "s", "-1s", -1])
def test_what_is_no_duration_is_refused(text: str | float) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        units.parse_duration_s(text)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 B"),
        (4096, "4 KiB"),
        (1023 * 1024, "1023 KiB"),
        (2**20 - 1, "1 MiB"),
        (1536, "1.5 KiB"),
        (2**40, "1 TiB"),
        (999, "999 B"),
        (999.6, "1000 B"),
        (1023, "1023 B"),
        (1023.4, "1023 B"),
        (1023.5, "1 KiB"),
        (1024**6, "1 EiB"),
        (5000 * 1024**6, "5000 EiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_sizes_are_shown_in_the_unit_that_fits(value: int, shown: str) -> None:
    assert units.format_size(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(999.6, "1 µs"), (1500, "1.5 µs"), (2.5e9, "2.5 s"), (-1500, "-1.5 µs")])
def test_latencies_are_shown_in_the_unit_that_fits(value: float, shown: str) -> None:
    assert units.format_ns(value) == shown


@given(st.integers(min_value=0, max_value=2**60))
def test_plain_byte_counts_survive_the_round_trip(size_bytes: int) -> None:
    assert units.parse_size(str(size_bytes)) == size_bytes


@given(st.floats(min_value=1e-3, max_value=1e15))
def test_no_number_is_shown_in_exponents(value: float) -> None:
    assert "e" not in units.format_rate(value) + units.format_ns(value) + units.format_count(value)
