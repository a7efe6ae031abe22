"""What the command line changes in a study."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ioassay.errors import UsageError
from ioassay.study import overrides

from .corpora import cases, has

TABLE = {
    "name": "s",
    "until": {"metric": "read.bw"},
    "params": {"bs": "4k", "runtime": "10s"},
    "factors": {"rw": ["read"]},
    "scale": {"quick": {"repetitions": 3, "params": {"runtime": "1s"}, "target": {"size": "1M"}}},
}
SUITE = [
    {"name": "sweep", "factors": {"workers": [1, 2, 4]}},
    {"name": "fixed", "params": {"workers": 3}, "factors": {"method": ["a", "b"]}},
]


@cases("studies", "changes")
def test_options_change_what_they_name_and_nothing_else(case: dict[str, Any]) -> None:
    tables = case.get("studies", SUITE if case.get("suite") else [TABLE])
    before = repr(tables)
    options = {
        "scale": case.get("scale", overrides.FULL),
        "settings": case.get("set", ()),
        "factors": case.get("factor", ()),
        "repetitions": case.get("repetitions"),
    }
    if "refused" in case:
        with pytest.raises(UsageError, match=re.escape(case["refused"])):
            overrides.adjusted_all(tables, **options)
    else:
        found, told = overrides.adjusted_all(tables, **options)
        assert has(list(found), case["becomes"])
        assert [key for key in case.get("lacks", ()) if key in found[0]] == []
        assert [warning.text for warning in told] == case.get("told", [])
    assert repr(tables) == before
