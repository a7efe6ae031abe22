"""Rules of text: which fields they find, in which unit, and what they refuse."""

from __future__ import annotations

import pytest

from ioassay.errors import InputError
from ioassay.formats.number_parsing import Quantity, size
from ioassay.formats.text_rules import Rules, Tool
from ioassay.records.record import Claim

RULES = Rules(
    "mine",
    r"^moved (?P<moved>#) (?P<moved_unit>\w+)$",
    r"^mean = (?P<mean_ns>#) ms by (?P<who>\w+)$",
    r"^(?P<requests>#) requests$",
    moved=size,
    mean_ns=1e6,
    requests=1,
)


def test_a_field_has_its_factor_or_its_printed_unit_and_others_are_text() -> None:
    found = RULES.read("x\nmoved 1.5 KiB\nmean = 0.25 ms by me\nmean = 9 ms by you\n12 requests\n")
    assert found["moved"] == Quantity(1536, pytest.approx(102.4), False)
    assert found["mean_ns"] == Quantity(250_000, pytest.approx(10_000), False)
    assert (found.text("who"), found.whole("requests"), found["requests"].whole) == ("me", 12, True)


def test_what_is_not_there_is_nothing_unless_it_has_to_be() -> None:
    found = RULES.read("0 requests")
    assert (found.value("mean_ns"), found.whole("moved"), found.text("who")) == (None, None, "")
    assert found.positive("requests", "mean_ns") == {}
    with pytest.raises(InputError, match="mine printed no 'mean ns': its output is not complete"):
        found["mean_ns"]


@pytest.mark.parametrize("text", ["1.5 requests", "moved 1.2.3 KiB of", "moved 1 XiB", f"{2**63} requests"])
def test_a_number_that_nothing_can_have_measured_is_refused_with_its_field(text: str) -> None:
    try:
        assert not RULES.read(text).numbers
    except InputError as error:
        assert "mine's " in str(error)


def test_a_line_says_what_fits_all_of_it() -> None:
    assert [found.whole("requests") for found in RULES.lines("1 requests\n2 requests more\n 3 requests \n", "req")] == [
        1,
        3,
    ]


def test_a_tool_without_claims_says_what_is_missing_unless_it_may_be_silent() -> None:
    tool = Tool(
        "mine",
        sign="^mine says",
        claims=lambda text, words: [Claim("mine", "read")] * text.count("claim"),
        missing="mine printed nothing",
        silent=lambda text, words: "--quiet" in words,
    )
    assert tool.matches("mine") and not tool.matches("dd")
    assert tool.looks_like("x\nmine says") and not tool.looks_like("x mine says")
    assert tool.read("claim claim") == [Claim("mine", "read")] * 2
    assert tool.read("", ["sudo", "mine", "--quiet"]) == []
    with pytest.raises(InputError, match="mine printed nothing; its output ends with 'end'"):
        tool.read("end", ["--quiet", "mine"])
