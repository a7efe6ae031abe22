"""Levels of factors: when two are the same, what they are called, and those that depend on a machine or another study.

A level may be an expression of the machine, which is a number where a study is planned. It may also be the best level
of an earlier study of the suite, for which something else stands until that study has run.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from ioassay import factors, units
from ioassay.analysis.measurements import cells
from ioassay.api.study import Study as StudyOfApi
from ioassay.errors import StudyError, UsageError
from ioassay.factors import Kind, LevelIndex, level_key, level_number, level_numbers, level_reading, same_level
from ioassay.packs.fio import fio_options
from ioassay.records.record import OK, SKIPPED, Scalar
from ioassay.roles import Consent, Trial
from ioassay.runner import preflight, run
from ioassay.runner.progress import Progress
from ioassay.simulation import options as simulation_options
from ioassay.store.run_folder import RunStore
from ioassay.study import catalog, plan, relative_levels
from ioassay.study.model import Study, Suite
from ioassay.study.relative_levels import Machine

from .corpora import CORPUS, cases


@cases("levels", "same")
def test_levels_are_the_same_where_they_mean_the_same(case: dict[str, Any]) -> None:
    name, (level, other) = case["factor"], case["levels"]
    assert same_level(name, level, other) is same_level(name, other, level) is case["same"]
    assert factors.repeated_level(name, ["other", level, other]) == ((level, other) if case["same"] else None)
    assert factors.distinct_levels(name, [level, other]) == ((level,) if case["same"] else (level, other))


@cases("levels", "numbers")
def test_levels_of_one_kind_are_numbers_and_others_are_none(case: dict[str, Any]) -> None:
    name = case["factor"]
    if "levels" not in case:
        assert level_number(name, case["level"]) == case.get("number")
        return
    wanted = pytest.approx(case["numbers"]) if "numbers" in case else None
    assert (level_reading(name, case["levels"]), level_numbers(name, case["levels"])) == (case.get("kind"), wanted)


@cases("levels", "words")
def test_a_level_and_an_axis_are_called_as_people_read_them(case: dict[str, Any]) -> None:
    said = {
        "title": lambda: factors.axis_title(case["factor"]),
        "label": lambda: factors.level_label(case["factor"], case["level"]),
        "meaning": lambda: factors.level_meaning(case["factor"], case["level"]),
        "condition": lambda: sorted({say({case["factor"]: case["level"]}) for say in (cells.label, plan.describe)}),
    }
    (kind,) = said.keys() & case.keys()
    assert said[kind]() == case[kind]


def test_nothing_is_the_same_as_no_level() -> None:
    assert not same_level("x", None, None) and not same_level("x", "None", None)


@pytest.mark.parametrize("name", ["case", "bs", "direct", "runtime", "run.affinity", "run.scheduler", "rw", "x"])
def test_every_level_is_the_same_as_itself_and_as_its_text(name: str) -> None:
    """Frames turn numbers into text where one of a column's levels is a word."""
    levels: list[Scalar] = [0, 1, 7, -1, 2.5, 1e-05, 2**62, "", "word", "4k", "50%", "1s", "9" * 5000, "٣", "1:2,3-4@5"]
    for level in (*levels, "1" * 400 + "k", "1" * 400 + "s", "5-", "0-99999", "fifo:x", ":", "\u00b2"):
        assert same_level(name, level, level) and same_level(name, level, str(level)), level


@pytest.mark.parametrize(("name", "texts"), [
    ("bs", ["512", "4k", "4KiB", "4kB", "1.5k", "64k", "1M", "1MiB"]),
    ("runtime", ["1", "1s", "1000ms", "1m", "60s", "90", "1.5m"]),
    ("thinktime", ["1", "1us", "1ms", "1000", "2s"]),
    ("rate_cycle", ["1", "1ms", "1s", "1000"]),
])  # fmt: skip
def test_levels_are_the_same_where_fio_is_given_the_same(name: str, texts: list[str]) -> None:
    for one, other in itertools.product(texts, repeat=2):
        assert same_level(name, one, other) is (fio_options.write(name, one) == fio_options.write(name, other))


def test_the_registry_knows_the_options_of_fio_and_of_the_simulated_drive_by_their_kinds() -> None:
    durations = [name for name, convert in fio_options._WRITERS.items() if convert.__qualname__.startswith("_time.")]
    assert durations
    for name in durations:
        assert factors.factor(name).kind is Kind.DURATION, name
        assert same_level(name, "2s", fio_options._WRITERS[name]("2s")), name
    kinds = {simulation_options.FLAG: Kind.SWITCH, simulation_options.SIZE: Kind.SIZE}
    known = [option for option in simulation_options.OPTIONS if option.kind in kinds]
    assert {option.kind for option in known} == kinds.keys()
    for option in known:
        assert factors.factor(option.name).kind is kinds[option.kind], option.name


def test_no_name_is_listed_twice() -> None:
    names = [name for entry in factors.FACTORS for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]


# A study's points


def test_a_design_finds_levels_however_they_are_spelled_and_keeps_the_order_of_the_study() -> None:
    design = LevelIndex({"bs": ["64k", "4KiB"], "x": [True, "word"]})
    rows: list[dict[str, Any]] = [{"bs": 4096, "x": "word"}, {"bs": "65536", "x": "true"}, {"bs": "8k", "x": "word"}]
    assert [design.point(row) for row in rows] == [
        {"bs": "4KiB", "x": "word"},
        {"bs": "64k", "x": True},
        {"bs": "8k", "x": "word"},
    ]
    assert [row["bs"] for row in sorted(rows, key=design.place)] == ["65536", 4096, "8k"]
    assert design.in_order("bs", [4096, None, "1M", "64KiB", "4k"]) == ["64KiB", "4k", "1M"]
    assert design.key({"bs": "4k", "x": "true"}) == design.key({"bs": "4KiB", "x": True})
    assert design.lists("bs", "64KiB") and not design.lists("bs", "8k")
    # Two levels that mean the same are no axis.
    assert factors.level_axis_numbers("x", ("1KiB", 1024)) is None
    assert factors.level_axis_numbers("x", ("1KiB", "2KiB")) == [1024, 2048]


def test_levels_of_one_number_have_one_key_where_their_factor_counts_bytes() -> None:
    for size_bytes in (512, 4096, 65536, 2**20, 3 * 2**20):
        shown = units.format_size(size_bytes).replace(" ", "")
        assert level_key("bs", shown) == level_key("bs", size_bytes) == str(size_bytes)


# Levels relative to the machine


MIB = 2**20
HOST = Machine(6, 8192 * MIB + 4096)


def table(**parts: Any) -> dict[str, Any]:
    return {"name": "s", "title": "s", "driver": "null", **parts}


def written(path: Path, table: dict[str, Any], change: Any = None) -> Suite:
    """The suite of a file."""
    path.write_text(tomli_w.dumps(table))
    return catalog.load(str(path), *([change] if change else []))


def resolved(machine: Machine = HOST, **parts: Any) -> dict[str, Any]:
    return relative_levels.resolved(table(**parts), "s.toml", machine)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relative_levels, "this_machine", lambda: HOST)


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


def test_options_take_expressions_and_a_level_that_is_listed_twice_is_refused(host: None, tmp_path: Path) -> None:
    changed = partial(catalog.adjusted_all, settings=["size=ram/2"], factors=["workers=1,nproc"])

    def change(table: Mapping[str, Any]) -> dict[str, Any]:
        return changed([table])[0][0]

    (study,) = written(tmp_path / "s.toml", table(factors={"workers": [1]}), change).studies
    assert study.factors == {"workers": [1, 6]} and study.params == {"size": 4096 * MIB}
    with pytest.raises(StudyError, match="level 2 is listed twice"):
        written(tmp_path / "s.toml", table(factors={"workers": [2, 2, "nproc"]}))


def test_plan_and_ids_have_the_numbers(host: None, tmp_path: Path) -> None:
    relative = written(tmp_path / "s.toml", table(factors={"workers": [1, "nproc"]}, params={"value": "nproc*2"}))
    plain = written(tmp_path / "s.toml", table(factors={"workers": [1, 6]}, params={"value": 12}))
    ids = [[(trial.id, trial.point) for trial in plan.trials(suite)] for suite in (relative, plain)]
    assert ids[0] == ids[1]


def test_a_run_keeps_numbers_and_expressions_and_means_the_same_on_another_machine(
    host: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = written(tmp_path / "s.toml", table(factors={"workers": [1, "nproc", "nproc*2"]}))
    store = RunStore.create(tmp_path / "run", suite, {})
    stored = tomllib.loads((store.root / "study.toml").read_text())
    (relative,) = [study["relative"] for study in stored["study"]]
    assert relative["written"] == {"factors.workers": [1, "nproc", "nproc*2"]} and relative["processors"] == 6
    monkeypatch.setattr(relative_levels, "this_machine", lambda: Machine(64, MIB))
    assert RunStore.open(store.root).suite() == suite
    assert catalog.from_table(stored, tmp_path / "study.toml").studies[0].factors == {"workers": [1, 6, 12]}


@pytest.mark.parametrize("key", ["factors.workers", "watch.calls.workers", "case 'a.b'.numjobs", "target.size"])
def test_what_a_written_key_came_to_is_found_again(key: str) -> None:
    found = resolved(
        factors={"workers": [1, "nproc"]},
        watch={"calls": {"workers": ["nproc"]}},
        case=[{"name": "a.b", "numjobs": "nproc"}],
        target={"kind": "file", "path": "f", "size": "ram/2"},
    )
    here = relative_levels.number(Study.model_validate(found), key)
    assert here == {"factors.workers": [1, 6], "watch.calls.workers": [6], "target.size": 4096 * MIB}.get(key, 6)


def test_this_machine_has_processors_and_memory() -> None:
    machine = relative_levels.this_machine()
    assert machine.processors >= 1 and machine.memory_bytes > MIB


# The best level of an earlier study


BEST = "best of sweep"


class Watching(Progress):
    """Counts the trials that began, and stops the run after so many."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.began: list[Trial] = []
        self._stop_after = stop_after

    def started(self, trial: Trial) -> None:
        if len(self.began) == self._stop_after:
            raise KeyboardInterrupt
        self.began.append(trial)


def suite(tmp_path: Path, **sweep: Any) -> Suite:
    """That of sweep_and_after.toml, with these keys of its first study."""
    both = tomllib.loads((CORPUS / "studies" / "sweep_and_after.toml").read_text())
    first = both["study"][0]
    first |= {key: {**first.get(key, {}), **part} if isinstance(part, dict) else part for key, part in sweep.items()}
    return written(tmp_path / "both.toml", both)


def execute(store: RunStore, shown: Watching | None = None) -> run.Tally:
    benches = preflight.assemble(store.suite(), Consent())
    return run.execute(store, benches, shown or Watching(), 1)


def begun(tmp_path: Path, **keys: Any) -> RunStore:
    return RunStore.create(tmp_path / "run", suite(tmp_path, **keys), {})


def records_of(store: RunStore, study: str) -> list[Any]:
    return [record for record in store.records() if record.trial["study"] == study]


def test_planning_has_a_stand_in_and_no_trials_of_the_waiting_study(tmp_path: Path) -> None:
    made = suite(tmp_path)
    (_, after) = made.studies
    assert after.params["steps"] == 1 and after.relative is not None
    assert after.relative.pending == {"steps": BEST}
    assert relative_levels.references(after) == [relative_levels.Reference("steps", "sweep", "")]
    assert {trial.study for trial in plan.known_trials(made)} == {"sweep"} and plan.count(made)["after"] == 4


def test_the_level_is_that_of_the_earlier_study_in_plan_records_and_study(tmp_path: Path) -> None:
    store = begun(tmp_path)
    tally = execute(store)
    assert (tally.planned, tally.ok) == (16, 16)
    after = [trial for trial in store.trials() if trial.study == "after"]
    assert {trial.params["steps"] for trial in after} == {4}
    assert [trial.order for trial in store.trials()] == list(range(16))
    study = store.suite().studies[1]
    assert study.params["steps"] == 4 and study.relative is not None
    assert study.relative.pending == {} and study.relative.written == {"params.steps": BEST}
    assert "best-level" not in {warning.code for record in records_of(store, "after") for warning in record.warnings}
    # Ids follow the level as if it had been written.
    table = catalog.to_table(store.suite())
    table["study"][1].pop("relative")
    plain = catalog.from_table(table, tmp_path / "plain.toml", stored=True)
    assert [trial.id for trial in plan.trials(plain)] == [trial.id for trial in store.trials()]


@pytest.mark.parametrize("stop_after", [0, 5, 12, 13, 15, None])
def test_a_resumed_run_has_the_same_trials_and_runs_none_twice(tmp_path: Path, stop_after: int | None) -> None:
    whole = RunStore.create(tmp_path / "whole", suite(tmp_path), {})
    execute(whole)
    store, first, second = begun(tmp_path), Watching(stop_after or 0), Watching()
    if stop_after is None:
        store.replace_suite(whole.suite())  # what a run has done that is killed between study and plan
    else:
        with pytest.raises(KeyboardInterrupt):
            execute(store, first)
    execute(store, second)
    assert [trial.id for trial in store.trials()] == [trial.id for trial in whole.trials()]
    ran = [trial.id for trial in (*first.began, *second.began)]
    assert len(ran) == len(set(ran)) == 16


def test_without_a_distinguishable_best_the_smallest_level_is_taken_and_said(tmp_path: Path) -> None:
    store = begun(tmp_path, params={"effects": {"steps": {"1": 0.5, "2": 1.0, "4": 1.001, "8": 1.0}}})
    execute(store)
    records = records_of(store, "after")
    assert store.suite().studies[1].params["steps"] == 2
    assert all(record.status == OK for record in records)
    texts = [warning.text for record in records for warning in record.warnings if warning.code == "best-level"]
    assert {*texts} == {"steps = 2 is the smallest of 2, 4, 8, which are as good or may be, for value in sweep"}


@pytest.mark.parametrize("driver", ["null", "null_pure"])
def test_a_failed_study_makes_the_later_one_skipped_with_the_reason(tmp_path: Path, driver: str) -> None:
    store = begun(tmp_path, driver=driver, params={"fail_share": 1.0})
    tally = execute(store)
    assert (tally.failed, tally.skipped) == (12, 4)
    records = records_of(store, "after")
    assert {record.status for record in records} == {SKIPPED}
    assert {record.reason for record in records} == {"steps = best of sweep: no trial of that study tells a best level"}
    again = Watching()
    assert execute(store, again).skipped == 4 and not again.began


def test_a_later_study_that_the_level_does_not_suit_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = begun(tmp_path)
    benches = preflight.assemble(store.suite(), Consent())

    def refuse(params: Any, target: Any) -> Any:
        raise StudyError(f"{params['steps']} steps are too many", key="steps")

    monkeypatch.setattr(benches[1].driver, "validate", refuse)
    run.execute(store, benches, Watching(), 1)
    assert {record.reason for record in records_of(store, "after")} == {"steps: 4 steps are too many"}


@cases("studies", "best_levels")
def test_a_wrong_reference_names_key_and_value(tmp_path: Path, case: dict[str, Any]) -> None:
    least = {"title": "x", "driver": "null"}
    table = {**least, **case.get("alone", {})}
    if "after" in case:
        sweep = {**least, "name": "sweep", "analysis": {"responses": ["value"]}}
        sweep["factors"] = case.get("factors", {"steps": [1, 2]})
        table = {"title": "x", "study": [sweep, {**least, "name": "after", **case["after"]}]}
    if "says" in case:
        with pytest.raises(StudyError, match=case["says"]):
            written(tmp_path / "alone.toml", table)
    else:
        (study,) = written(tmp_path / "alone.toml", table).studies
        assert study.params == case["alone"]["params"] and study.relative is None


def test_a_suite_whose_study_waits_for_another_cannot_stop_after_a_block(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="after: takes the best level of an earlier study, .* without --blocks"):
        StudyOfApi.of_suite(suite(tmp_path)).run(tmp_path / "run", blocks=1)
