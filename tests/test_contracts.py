"""What every driver, target and monitor of ours promises: the contract tests that plugins have, over our lists.

What a single one does with its own tool or device is tested beside it; tests/test_complete.py sees that it is. The
contract tests themselves fail where an entry breaks its promise.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ioassay import roles, testing
from ioassay.drivers import DRIVERS, driver
from ioassay.drivers.fio import Fio
from ioassay.errors import StudyError, UsageError
from ioassay.formats import dd
from ioassay.monitors import COUNTER, MONITORS, Field, monitor
from ioassay.narrative.finding import Finding
from ioassay.records.record import OK
from ioassay.report.figures.spec import FigureSpec
from ioassay.roles import Consent, Parsed
from ioassay.targets import TARGETS, target
from ioassay.targets.regular_file import FileTarget

LEAST = {"db_bench": {"benchmarks": "fillseq"}, "stress_ng": {"stressor": "cpu"}, "command": {"argv": ["true"]}}
"""What a driver cannot do without."""
TIMED = {
    "fio": ({"rw": "read", "bs": "4k", "runtime": "8s"}, {"kind": "file", "path": "data", "size": "1MiB"}),
    "stress_ng": ({"stressor": "cpu", "timeout": "8s"}, {}),
    "db_bench": ({"benchmarks": "readrandom", "duration": 8}, {"kind": "folder", "path": "."}),
    "null": ({"sleep": "8s"}, {}),
    "null_pure": ({"sleep": 8}, {}),
}
"""Loads that run for a time."""
ESTIMATED = ("iowait", "idle")
"""Idle time is an estimate of the kernel's and may shrink a little (proc_stat(5))."""


def settings(kind: str, folder: Path) -> dict[str, object]:
    """The least that a study says of a target of this kind."""
    least: dict[str, dict[str, object]] = {
        "null": {},
        "file": {"path": str(folder / "data"), "size": "1MiB"},
        "virtual": {"size": "1MiB", "model": "none"},
        "nvmevirt": {
            "module": str(folder / "nvmev.ko"),
            "memmap_start": "1GiB",
            "memmap_size": "512MiB",
            "cpus": [0, 1],
        },
    }
    return least.get(kind, {"path": str(folder / "data")})


def class_of(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


def contract(base: type, entry: str, /, **members: Any) -> None:
    """A class for pytest to collect: TestDriver_fio."""
    title = f"Test{base.__name__.removesuffix('Contract')}_{entry}"
    globals()[title] = type(title, (base,), {"__module__": __name__, **members})


for _name, _entry in DRIVERS.items():
    contract(
        testing.DriverContract, _name, driver=class_of(_entry), params=LEAST.get(_name, {}), timed=TIMED.get(_name)
    )


def _settings_of(kind: str) -> Any:
    return lambda self, folder: settings(kind, folder)


for _name, _entry in TARGETS.items():
    contract(testing.TargetContract, _name, target=class_of(_entry), settings=_settings_of(_name))
for _name, _entry in MONITORS.items():
    contract(testing.MonitorContract, _name, monitor=importlib.import_module(_entry), name=_name, may_fall=ESTIMATED)


def test_every_entry_has_its_contract_tests() -> None:
    made = [f"TestDriver_{name}" for name in DRIVERS] + [f"TestTarget_{name}" for name in TARGETS]
    assert set(made + [f"TestMonitor_{name}" for name in MONITORS]) <= globals().keys()


@pytest.mark.parametrize("name", TIMED)
def test_a_load_of_a_second_is_not_shortened(name: str) -> None:
    keys: Mapping[str, object] = dict.fromkeys(("runtime", "timeout", "sleep", "duration"), 1)
    params = {key: keys.get(key, value) for key, value in TIMED[name][0].items()}
    assert driver(name).shortened(params, 0.25) is None


@pytest.mark.parametrize("kind", [kind for kind in TARGETS if kind not in ("null", "file", "virtual")])
def test_what_a_target_lacks_is_said_before_anything_is_touched(kind: str, tmp_path: Path) -> None:
    made = target({"kind": kind, **settings(kind, tmp_path)}, Consent())
    with pytest.raises(StudyError, match=r"no such|does not exist|is no file|takes root") as found:
        made.inspect(roles.WRITE)
    assert (found.value.key or "").startswith("target.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ask", "error"), [(driver, StudyError), (monitor, UsageError)])
def test_a_name_that_nobody_has_is_answered_with_the_nearest(ask: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="'null'"):
        ask("nul")  # type: ignore[operator]


FAILS = pytest.raises(AssertionError)


# The contract tests themselves


class Gullible(Fio):
    def parse(self, trial: Any, outcome: Any, raw: Path) -> Parsed:
        return Parsed(OK)

    def page_cache_remedy(self, params: Mapping[str, Any]) -> str:
        return params["ioengine"]

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        return params


def test_broken_promises_fail_of_drivers(tmp_path: Path) -> None:
    class OfGullible(testing.DriverContract):
        driver = Gullible

    tests = OfGullible()
    with FAILS:
        tests.test_output_that_cannot_be_believed_is_a_failed_trial_with_a_reason("nothing", 0, tmp_path)
    with pytest.raises(KeyError):
        tests.test_it_states_facts_whatever_the_parameters_of_an_old_run_are({})
    with FAILS:
        tests.test_a_load_that_runs_for_a_time_can_be_shortened_and_no_other()


def test_broken_promises_fail_of_targets(tmp_path: Path) -> None:
    class Careless(FileTarget):
        def __init__(self, spec: Mapping[str, Any], *rest: Any, **more: Any) -> None:
            known = {key: value for key, value in spec.items() if key != "no_such_setting"}
            Path(str(spec["path"])).write_text("made too early")
            super().__init__(known, *rest, **more)

    class OfCareless(testing.TargetContract):
        target = Careless

        def settings(self, folder: Path) -> Mapping[str, object]:
            return {"path": str(folder / "data"), "size": "1MiB"}

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        OfCareless().test_it_refuses_a_setting_that_it_does_not_know(tmp_path)
    with FAILS:
        OfCareless().test_one_that_was_only_made_has_touched_nothing(tmp_path)


def test_broken_promises_fail_of_monitors() -> None:
    readings = iter([{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": math.nan}, {"a": math.inf}, {"a": 3.0}, {"a": 2.0}])
    made = SimpleNamespace(name="odd", read=lambda: next(readings))

    class OfOdd(testing.MonitorContract):
        monitor = SimpleNamespace(FIELDS={"a": Field(COUNTER, "", "a count")}, make=lambda root, devices: made)
        name = "odd"

    with pytest.raises(AssertionError, match="b is not in FIELDS"):
        OfOdd().test_it_reads_numbers_of_fields_that_are_documented()
    next(readings)
    with FAILS:
        OfOdd().test_it_reads_numbers_of_fields_that_are_documented()
    with FAILS:
        OfOdd().test_its_counters_never_fall()


class Measured:
    """What an analysis and a figure are given: one value."""

    study: ClassVar = {"driver": "null", "repetitions": 1, "factors": {"n": [1]}}

    def measure(self, point: Mapping[str, Any], repetition: int) -> Mapping[str, float]:
        return {"value": 1.0}


def finding(**keys: Any) -> Finding:
    return Finding("study", "q", "value", **{"title": "t", "statement": "It is so.", **keys})


@pytest.mark.parametrize(
    "found",
    [[], [finding(statement="It is so")], [finding(statistics={"a": math.nan})], [finding(statistics={"a": {1}})],
     [finding(statement="word " * 30 + "end.")], ["It is so."]],
    ids=["none", "no sentence", "not a number", "not JSON", "a long sentence", "no finding"],
)  # fmt: skip
def test_broken_promises_fail_of_analyses(found: list[Any], tmp_path: Path) -> None:
    class OfFound(Measured, testing.AnalysisContract):
        analysis = SimpleNamespace(analyse=lambda records, study: found)

    with pytest.raises((AssertionError, TypeError, ValueError)):
        OfFound().test_its_findings_have_words_and_numbers_that_can_be_stored(tmp_path)


def test_broken_promises_fail_of_figures(tmp_path: Path) -> None:
    chart = SimpleNamespace(to_dict=lambda: {"title": {"text": "t"}, "description": ""})

    class OfMute(Measured, testing.FigureContract):
        figure = SimpleNamespace(Spec=FigureSpec, draw=lambda records, study, spec: chart)
        kind = "mute"

    with FAILS:
        OfMute().test_it_has_a_title_and_a_description_for_those_who_cannot_see_it(tmp_path / "a")
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        OfMute().test_records_without_its_metrics_give_a_reason(tmp_path / "b")


def test_broken_promises_fail_of_parsers() -> None:
    output = (Path(__file__).parent / "golden" / "dd" / "9.1" / "plain.txt").read_text()

    def breaking(text: str, argv: Any = ()) -> list[Any]:
        if "\x00" in text:
            raise ValueError("null byte")
        return dd.read(text, argv)

    def of(read: Any) -> testing.ClaimsContract:
        class OfDd(testing.ClaimsContract):
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
