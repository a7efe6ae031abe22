"""Sizes, durations and processors: what is read, what is refused, how it is shown; and the registry of metrics."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay import metrics, units

from .corpora import cases

READ: dict[str, Any] = {
    "size": units.parse_size,
    "duration": units.parse_duration_s,
    "processors": lambda text: units.format_processors(units.parse_processors(text)),
}
SHOWN: dict[str, Any] = {
    "size": units.format_size,
    "duration": units.format_duration,
    "latency": units.format_ns,
}


@cases("units", "read")
def test_a_text_is_read_as_documented_or_refused_by_name(case: dict[str, Any]) -> None:
    read = READ[case["as"]]
    if "refused" in case:
        with pytest.raises(ValueError, match=case["refused"]):
            read(case["text"])
    else:
        wanted = case["is"]
        assert read(case["text"]) == (wanted if isinstance(wanted, str) else pytest.approx(wanted, rel=1e-12))


@cases("units", "shown")
def test_a_number_is_shown_in_the_unit_that_fits(case: dict[str, Any]) -> None:
    assert SHOWN[case["as"]](case["value"]) == case["shown"]


@given(st.integers(min_value=0, max_value=2**60))
def test_plain_byte_counts_survive_the_round_trip(size_bytes: int) -> None:
    assert units.parse_size(str(size_bytes)) == size_bytes


@given(st.floats(min_value=1e-3, max_value=1e15))
def test_no_number_is_shown_in_exponents(value: float) -> None:
    assert "e" not in units.format_rate(value) + units.format_ns(value) + units.format_count(value)


@cases("units", "metrics")
def test_a_metric_has_unit_direction_label_and_kind(case: dict[str, Any]) -> None:
    found = metrics.metric(case["id"])
    for key in case.keys() & {"unit", "better", "label", "kind"}:
        assert getattr(found, key) == case[key]
    if "thousand" in case:
        assert found.format(1000) == case["thousand"]
    assert metrics.known(case["id"]) or not case.get("known", True)
