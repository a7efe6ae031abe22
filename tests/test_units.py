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
