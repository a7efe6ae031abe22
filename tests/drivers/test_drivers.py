"""Tables of all drivers: settings that are judged before anything runs, command lines, versions, captured outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.drivers import DRIVERS, driver
from ioassay.errors import StudyError, ToolError
from ioassay.roles import NOTHING, Load

from ..corpora import cases, rows
from .trials import NOWHERE, captured, offered, trial, versions

TABLES = ("fio", "simulate", "stress_ng", "db_bench", "filesuite", "replay", "null", "command")


@cases("drivers", *(f"settings_{name}" for name in TABLES))
def test_settings_are_judged_before_anything_runs(case: dict[str, Any]) -> None:
    params, target = case["params"], case.get("target", {})
    for made in map(offered, case["drivers"]):
        if "refused" in case:
            with pytest.raises(StudyError) as caught:
                made.validate(params, target)
            assert caught.value.key == case["refused"]
            assert case["says"] in str(caught.value)
            assert str(caught.value).count(case["refused"]) == 1 or not case["refused"]
        if "warns" in case:
            found = made.validate(params, target)
            assert [warning.code for warning in found] == case["warns"]
            assert all(case.get("says", "") in warning.text for warning in found)
            assert all(warning.remedy or warning.code == "will-be-skipped" for warning in found)
        if "access" in case:
            assert made.access(params) == case["access"]
        if "externals" in case:
            found = [f"{each.option} {each.effect}" for each in made.externals(params)]
            assert len(found) == len(case["externals"])
            assert all(text in said for text, said in zip(case["externals"], found, strict=True))
        if "seconds" in case:
            least, most = case["seconds"]
            assert least <= made.estimate(params, target).seconds <= most
        for name in {"written_bytes", "recorded_bytes"} & case.keys():
            found = getattr(made.estimate(params, target), name)
            assert ("unknown" if found is None else found) == case[name]


@cases("drivers", "command_lines")
def test_a_command_line_says_what_the_study_asks_for(case: dict[str, Any]) -> None:
    load = NOWHERE if case.get("kind") == "null" else Load("folder", Path("/data"), 0, read_only=False)
    command = offered(case["driver"]).command(trial(case["driver"], case["params"], seed=7), load, Path("/raw"))
    words, held = list(command.argv), case.get("holds", [])
    assert any(words[place:][: len(held)] == held for place in range(len(words))), words
    assert set(case.get("has", ())) <= set(words)
    assert not [word for word in words if word.startswith(tuple(case.get("lacks", ())))]


def test_a_value_longer_than_fios_line_is_refused() -> None:
    with pytest.raises(StudyError, match="more than the 8190 bytes") as caught:
        offered("fio").validate(
            {"rw": "read", "description": "x" * 8192}, {"kind": "file", "path": "f", "size": "1MiB"}
        )
    assert caught.value.key == "params.description"


@cases("drivers", "versions")
def test_a_version_that_is_too_old_or_strange_is_refused_with_the_one_wanted(case: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=case["says"]):
        driver(case["driver"]).configure(case["version"], {})


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_carries_the_name_that_it_is_asked_for_by(name: str) -> None:
    assert driver(name).name == name
    assert driver(name) is not driver(name)


def test_an_unknown_driver_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(StudyError, match="did you mean 'fio'") as caught:
        driver("fyo")
    assert caught.value.key == "driver"


@pytest.mark.parametrize("name", ["null", "simulate"])
def test_a_driver_without_a_tool_starts_no_process_and_touches_nothing(name: str, tmp_path: Path) -> None:
    made = driver(name)
    assert made.tool() is None
    assert made.command(trial(name, {}), NOWHERE, tmp_path) is None
    assert (made.access({}), list(made.touches({}))) == (NOTHING, [])
    assert driver("simulate").measures is False


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
