"""The contract tests for plugins fail where an entry breaks its promise."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioassay.drivers.fio import Fio
from ioassay.formats import dd
from ioassay.monitors import COUNTER, Field
from ioassay.narrative.finding import Finding
from ioassay.records.record import OK
from ioassay.report.figures.spec import FigureSpec
from ioassay.roles import Parsed
from ioassay.targets.regular_file import FileTarget
from ioassay.testing import AnalysisContract, ClaimsContract, DriverContract, FigureContract, MonitorContract
from ioassay.testing import TargetContract as OfTargets

FAILS = pytest.raises(AssertionError)


class Gullible(Fio):
    def parse(self, trial: Any, outcome: Any, raw: Path) -> Parsed:
        return Parsed(OK)

    def page_cache_remedy(self, params: Mapping[str, Any]) -> str:
        return params["ioengine"]

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        return params


def test_of_drivers(tmp_path: Path) -> None:
    class OfGullible(DriverContract):
        driver = Gullible

    tests = OfGullible()
    with FAILS:
        tests.test_output_that_cannot_be_believed_is_a_failed_trial_with_a_reason("nothing", 0, tmp_path)
    with pytest.raises(KeyError):
        tests.test_it_states_facts_whatever_the_parameters_of_an_old_run_are({})
    with FAILS:
        tests.test_a_load_that_runs_for_a_time_can_be_shortened_and_no_other()


def test_of_targets(tmp_path: Path) -> None:
    class Careless(FileTarget):
        def __init__(self, spec: Mapping[str, Any], *rest: Any, **more: Any) -> None:
            known = {key: value for key, value in spec.items() if key != "no_such_setting"}
            Path(str(spec["path"])).write_text("made too early")
            super().__init__(known, *rest, **more)

    class OfCareless(OfTargets):
        target = Careless

        def settings(self, folder: Path) -> Mapping[str, object]:
            return {"path": str(folder / "data"), "size": "1MiB"}

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        OfCareless().test_it_refuses_a_setting_that_it_does_not_know(tmp_path)
    with FAILS:
        OfCareless().test_one_that_was_only_made_has_touched_nothing(tmp_path)


def test_of_monitors() -> None:
    readings = iter([{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": math.nan}, {"a": math.inf}, {"a": 3.0}, {"a": 2.0}])
    made = SimpleNamespace(name="odd", read=lambda: next(readings))

    class OfOdd(MonitorContract):
        monitor = SimpleNamespace(FIELDS={"a": Field(COUNTER, "", "a count")}, make=lambda root, devices: made)
        name = "odd"

    with pytest.raises(AssertionError, match="b is not in FIELDS"):
        OfOdd().test_it_reads_numbers_of_fields_that_are_documented()
    next(readings)
    with FAILS:
        OfOdd().test_it_reads_numbers_of_fields_that_are_documented()
    with FAILS:
        OfOdd().test_its_counters_never_fall()


STUDY = {"driver": "null", "repetitions": 1, "factors": {"n": [1]}}


def finding(**keys: Any) -> Finding:
    return Finding("study", "q", "value", **{"title": "t", "statement": "It is so.", **keys})


@pytest.mark.parametrize(
    "found",
    [[], [finding(statement="It is so")], [finding(statistics={"a": math.nan})], [finding(statistics={"a": {1}})],
     [finding(statement="word " * 30 + "end.")], ["It is so."]],
    ids=["none", "no sentence", "not a number", "not JSON", "a long sentence", "no finding"],
)  # fmt: skip
def test_of_analyses(found: list[Any], tmp_path: Path) -> None:
    class OfFound(AnalysisContract):
        analysis = SimpleNamespace(analyse=lambda records, study: found)
        study = STUDY

        def measure(self, point: Mapping[str, Any], repetition: int) -> Mapping[str, float]:
            return {"value": 1.0}

    with pytest.raises((AssertionError, TypeError, ValueError)):
        OfFound().test_its_findings_have_words_and_numbers_that_can_be_stored(tmp_path)


def test_of_figures(tmp_path: Path) -> None:
    chart = SimpleNamespace(to_dict=lambda: {"title": {"text": "t"}, "description": ""})

    class OfMute(FigureContract):
        figure = SimpleNamespace(Spec=FigureSpec, draw=lambda records, study, spec: chart)
        kind = "mute"
        study = STUDY

        def measure(self, point: Mapping[str, Any], repetition: int) -> Mapping[str, float]:
            return {"value": 1.0}

    with FAILS:
        OfMute().test_it_has_a_title_and_a_description_for_those_who_cannot_see_it(tmp_path / "a")
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        OfMute().test_records_without_its_metrics_give_a_reason(tmp_path / "b")


def test_of_parsers() -> None:
    output = (Path(__file__).parent / "golden" / "dd" / "9.1" / "plain.txt").read_text()

    def breaking(text: str, argv: Any = ()) -> list[Any]:
        if "\x00" in text:
            raise ValueError("null byte")
        return dd.read(text, argv)

    def of(read: Any) -> ClaimsContract:
        class OfDd(ClaimsContract):
            parser = SimpleNamespace(**{**vars(dd), "read": read})
            program = "dd"
            outputs = (output,)

        return OfDd()

    of(dd.read).test_damaged_output_is_read_or_refused_in_one_line()
    of(dd.read).test_it_keeps_the_contract_of_its_list()
    with pytest.raises(ValueError, match="null byte"):
        of(breaking).test_damaged_output_is_read_or_refused_in_one_line()
    with FAILS:
        of(lambda text, argv: []).test_it_recognises_its_outputs_and_reads_claims_of_its_own()
