"""Settings of each kind of target, which are checked before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.corpora import cases

from ioassay.errors import StudyError
from ioassay.roles import NOTHING, READ, WRITE, Consent, Trial
from ioassay.targets import target

TRIAL = Trial("0" * 16, "s", "null", {}, {}, {}, {}, 0, 1, 0)


@cases("targets", "settings")
def test_settings(case: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=case["says"]) as found:
        target(case["settings"], Consent()).inspect(WRITE)
    assert found.value.key == case.get("key", found.value.key)


@pytest.mark.parametrize("kind", ["null", "file", "folder", "device"])
def test_a_load_that_touches_nothing_needs_nothing(kind: str) -> None:
    made = target({"kind": kind} if kind == "null" else {"kind": kind, "path": "/no/x", "size": 4096}, Consent())
    assert list(made.inspect(NOTHING)) == [] == list(made.prepare(NOTHING, lambda text, share: None))
    made.close()


def test_the_null_target_has_no_path() -> None:
    made = target({"kind": "null"}, Consent())
    assert list(made.inspect(WRITE)) == [] == list(made.inspect(READ))
    with made.load(TRIAL) as load:
        assert load.path is None
