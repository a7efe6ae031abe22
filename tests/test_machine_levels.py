"""Levels and parameters relative to the machine: numbers where a study is planned, expressions beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from ioassay.errors import StudyError
from ioassay.store.run_folder import RunStore
from ioassay.study import catalog, machine_levels, overrides, plan
from ioassay.study.machine_levels import Machine
from ioassay.study.model import Study, Suite

from .corpora import cases

MIB = 2**20
HOST = Machine(6, 8192 * MIB + 4096)


def table(**parts: Any) -> dict[str, Any]:
    return {"name": "s", "title": "s", "driver": "null", **parts}


def resolved(machine: Machine = HOST, **parts: Any) -> dict[str, Any]:
    return machine_levels.resolved(table(**parts), "s.toml", machine)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_levels, "this_machine", lambda: HOST)


@cases("levels", "machine")
def test_an_expression_is_a_number_a_word_of_a_tool_or_refused(case: dict[str, Any]) -> None:
    key = case.get("key", "workers")
    if "number" in case:
        assert resolved(params={key: case["written"]})["params"] == {key: case["number"]}
        return
    for part, written in (("params", case["written"]), ("factors", [case["written"]])):
        with pytest.raises(StudyError) as error:
            resolved(**{part: {key: written}})
        assert all(piece in str(error.value) for piece in ("s.toml", f"{part}.{key}", case["refused"]))


@cases("levels", "resolved")
def test_tables_take_expressions_and_keep_what_was_written(case: dict[str, Any]) -> None:
    found = resolved(**case["study"])
    assert {key: found[key] for key in case["study"]} == case["becomes"]
    wanted = {"processors": 6, "memory_bytes": HOST.memory_bytes, "written": case.get("written")}
    assert found.get("relative") == (wanted if "written" in case else None)


@pytest.mark.parametrize("processors", [1, 2, 4, 64])
def test_levels_are_there_once_and_in_order(processors: int) -> None:
    written = [1, "nproc*4", 2, "nproc", "nproc/2", "nproc*2"]
    levels = resolved(Machine(processors, MIB), factors={"workers": written})["factors"]["workers"]
    assert levels == sorted({1, 2, max(processors // 2, 1), processors, 2 * processors, 4 * processors})


def test_a_plain_level_that_is_listed_twice_is_refused_as_always(host: None, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(tomli_w.dumps(table(factors={"workers": [2, 2, "nproc"]})))
    with pytest.raises(StudyError, match="level 2 is listed twice"):
        catalog.load(str(path))


def loaded(tmp_path: Path, **parts: Any) -> Suite:
    path = tmp_path / "s.toml"
    path.write_text(tomli_w.dumps(table(**parts)))
    return catalog.load(str(path))


def test_plan_and_ids_have_the_numbers(host: None, tmp_path: Path) -> None:
    relative = loaded(tmp_path, factors={"workers": [1, "nproc"]}, params={"value": "nproc*2"})
    plain = loaded(tmp_path, factors={"workers": [1, 6]}, params={"value": 12})
    ids = [[(trial.id, trial.point) for trial in plan.trials(suite)] for suite in (relative, plain)]
    assert ids[0] == ids[1]


def test_a_stored_study_means_the_same_on_another_machine(
    host: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = loaded(tmp_path, factors={"workers": [1, "nproc", "nproc*2"]})
    stored = catalog.to_table(suite)
    assert stored["study"][0]["relative"]["written"] == {"factors.workers": [1, "nproc", "nproc*2"]}
    json.dumps(stored)
    monkeypatch.setattr(machine_levels, "this_machine", lambda: Machine(64, MIB))
    assert catalog.from_table(stored, tmp_path / "study.toml", stored=True) == suite
    assert catalog.from_table(stored, tmp_path / "study.toml").studies[0].factors == {"workers": [1, 6, 12]}


def test_the_run_folder_has_the_numbers_and_the_expressions(host: None, tmp_path: Path) -> None:
    suite = loaded(tmp_path, factors={"workers": [1, "nproc"]})
    store = RunStore.create(tmp_path / "run", suite, {})
    text = (store.root / "study.toml").read_text()
    assert '"nproc"' in text and "processors = 6" in text
    assert RunStore.open(store.root).suite() == suite


def test_options_of_the_command_line_take_expressions(host: None, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(tomli_w.dumps(table(factors={"workers": [1]})))
    change = lambda one: overrides.adjusted(one, settings=["size=ram/2"], factors=["workers=1,nproc"])  # noqa: E731
    (study,) = catalog.load(str(path), change).studies
    assert study.factors == {"workers": [1, 6]} and study.params == {"size": 4096 * MIB}


@pytest.mark.parametrize("key", ["factors.workers", "watch.calls.workers", "case 'a.b'.numjobs", "target.size"])
def test_what_a_written_key_came_to_is_found_again(key: str) -> None:
    found = resolved(
        factors={"workers": [1, "nproc"]},
        watch={"calls": {"workers": ["nproc"]}},
        case=[{"name": "a.b", "numjobs": "nproc"}],
        target={"kind": "file", "path": "f", "size": "ram/2"},
    )
    here = machine_levels.number(Study.model_validate(found), key)
    assert here == {"factors.workers": [1, 6], "watch.calls.workers": [6], "target.size": 4096 * MIB}.get(key, 6)


def test_this_machine_has_processors_and_memory() -> None:
    machine = machine_levels.this_machine()
    assert machine.processors >= 1 and machine.memory_bytes > MIB
