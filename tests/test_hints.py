"""What messages say of wrong values, and that each list of names has its near one in them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ioassay import hints
from ioassay.api.study import Study
from ioassay.errors import IoassayError

from .corpora import CORPUS, cases

STUDIES: dict[str, str] = tomllib.loads((CORPUS / "studies" / "near_names.toml").read_text())["studies"]


def test_the_nearest_name_is_suggested_or_all_are_named() -> None:
    assert hints.suggestion("lur", ["lru", "epo"]) == "did you mean 'lru'?"
    assert hints.suggestion("what", ["lru", "epo"]) == "known here: epo, lru"
    assert hints.suggestion("what", ["lru", "epo"], "see docs") == "see docs"


def test_a_message_that_named_all_ends_with_the_nearest_where_there_is_one() -> None:
    assert hints.nearest("lur", ["lru", "epo"]) == "; did you mean 'lru'?"
    assert hints.nearest("what", ["lru", "epo"]) == ""
    assert hints.nearest("lru", ["lru", "epo"]) == ""  # something else is wrong


@cases("studies", "near_names")
def test_a_study_is_refused_with_the_nearest_name(case: dict[str, str], tmp_path: Path) -> None:
    table = STUDIES.get(case.get("of", ""), "") + case["lines"]
    (tmp_path / "t.disksim").write_text("0.0 0 8 8 0\n")
    (tmp_path / "s.toml").write_text(table.replace("t.disksim", str(tmp_path / "t.disksim")))
    with pytest.raises(IoassayError, match=f"did you mean '{case['near']}'"):
        Study.read(tmp_path / "s.toml").plan()
