"""What messages say of wrong values, and that each list of names has its near one in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay import hints
from ioassay.api.study import Study
from ioassay.errors import IoassayError

SIMULATED = 'title = "x"\ndriver = "simulate"\nrepetitions = 1\n[params]\ntrace = "t.disksim"\n'
NULL = 'title = "x"\ndriver = "null"\n[factors]\nx = [1, 2]\n'


def test_the_nearest_name_is_suggested_or_all_are_named() -> None:
    assert hints.suggestion("lur", ["lru", "epo"]) == "did you mean 'lru'?"
    assert hints.suggestion("what", ["lru", "epo"]) == "known here: epo, lru"
    assert hints.suggestion("what", ["lru", "epo"], "see docs") == "see docs"


def test_a_message_that_named_all_ends_with_the_nearest_where_there_is_one() -> None:
    assert hints.nearest("lur", ["lru", "epo"]) == "; did you mean 'lru'?"
    assert hints.nearest("what", ["lru", "epo"]) == ""
    assert hints.nearest("lru", ["lru", "epo"]) == ""  # something else is wrong


@pytest.mark.parametrize(
    ("table", "near"),
    [
        (SIMULATED + 'policy = "lur"', "lru"),
        (SIMULATED + 'polcy = "lru"', "policy"),
        (SIMULATED + 'drive = "samsung-980"', "samsung-980-pro"),
        (SIMULATED + 'mode = "inlin"', "inline"),
        (SIMULATED + 'cleaning = "gredy"', "greedy"),
        (SIMULATED + 'feed = "opne"', "open"),
        (SIMULATED + 'format = "disksm"', "disksim"),
        (SIMULATED + '[run]\nscheduler = "fifoo"', "fifo"),
        ('title = "x"\ndriver = "simulat"', "simulate"),
        (NULL + '[target]\nkind = "devise"', "device"),
        (NULL + '[watch]\nmonitors = ["cpuu"]', "cpu"),
        (NULL + '[watch]\nwitness = "blok"', "block"),
        (NULL + '[analysis]\nquestions = ["efect"]', "effect"),
        (NULL + '[[figures]]\nkind = "trnd"\nx = "x"\ny = "value"\nname = "n"', "trend"),
        (NULL + '[run]\nsheduler = "rr:1"', "scheduler"),
        ('title = "x"\ndriver = "filesuite"\n[params]\ntests = ["wriet"]', "write"),
    ],
)
def test_a_study_is_refused_with_the_nearest_name(table: str, near: str, tmp_path: Path) -> None:
    (tmp_path / "t.disksim").write_text("0.0 0 8 8 0\n")
    (tmp_path / "s.toml").write_text(table.replace("t.disksim", str(tmp_path / "t.disksim")))
    with pytest.raises(IoassayError, match=f"did you mean '{near}'"):
        Study.read(tmp_path / "s.toml").plan()
