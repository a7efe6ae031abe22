"""The captured outputs of real tools, of each version in turn, and the verdict of their driver."""

from __future__ import annotations

from typing import Any

import pytest

from ioassay import metrics

from ..corpora import rows
from .trials import captured, versions

VERSIONS = [(tool, version) for tool in ("fio", "stress_ng") for version in versions(tool)]
CASES = [
    pytest.param(version, case, id=f"{tool} {version}: {case['name']}")
    for tool, version in VERSIONS
    for case in rows("drivers", "captured")
    if case["tool"] == tool
]


@pytest.mark.parametrize(("version", "case"), CASES)
def test_a_captured_run_has_its_verdict(version: str, case: dict[str, Any]) -> None:
    found = captured(case["tool"], version, case["name"])
    assert (found.status, bool(found.reason)) == (case["status"], case["status"] != "ok"), found.reason
    for words in case.get("says", ()):
        assert words in found.reason
    assert bool(found.metrics) == (case["status"] == "ok")
    assert [name for name in found.metrics if not metrics.known(name)] == []
    assert all(found.metrics[name] > 0 for name in case.get("positive", ()))
    bandwidths = sorted(name for name in found.metrics if name.endswith(".bw"))
    assert bandwidths == case.get("bandwidths", bandwidths)
    codes = [warning.code for warning in found.warnings]
    assert codes == case.get("warns", codes)
    if case["tool"] == "fio":
        assert bool(found.claims) == bool(found.buckets) == (case["status"] == "ok")
