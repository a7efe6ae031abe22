"""How warnings are shown: each with its remedy, and not dozens of one kind."""

import pytest

from ioassay.cli import console
from ioassay.records.record import Warning_


def test_a_warning_has_its_remedy_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    console.warnings([Warning_("odd", "something is odd", "mend it")])
    assert capsys.readouterr().err == "warning: something is odd [odd]\n    remedy: mend it\n"


def test_of_many_of_a_kind_the_first_are_shown_and_the_rest_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = [Warning_("odd", f"number {number} is odd") for number in range(1, 41, 2)]
    console.warnings([*many, {"code": "even", "text": "number 2 is even", "remedy": ""}])
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "warning: number 1 is odd [odd]",
        "warning: number 3 is odd [odd]",
        "warning: number 5 is odd [odd]",
        "warning: 17 more of this kind; the report and --json have them all [odd]",
        "warning: number 2 is even [even]",
    ]
