"""Everything in a list is complete: its file, its contract, its golden outputs, its document, its tests.

The lists are the literal dictionaries of docs/ADDING.md. A new entry is finished when these tests are green; each
message says what is still to be written. What an entry does is tested beside it, not here.

Drivers, targets and monitors of ours keep the contract tests that plugins have. Those themselves fail where an entry
breaks its promise.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioassay import formats, metrics, roles, testing
from ioassay.drivers import DRIVERS, driver
from ioassay.errors import StudyError, UsageError
from ioassay.monitors import COUNTER, MONITORS, Field, monitor
from ioassay.narrative.finding import Finding
from ioassay.packs.fio.driver import Fio
from ioassay.packs.foreign.disk_tools import DD as dd
from ioassay.records import record
from ioassay.records.record import OK
from ioassay.registry import Contract
from ioassay.report.figures.spec import FigureSpec, read_spec
from ioassay.roles import Consent, Parsed
from ioassay.study import catalog, plan
from ioassay.targets import TARGETS, target
from ioassay.targets.file_targets import FileTarget

from .corpora import CORPUS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "ioassay"
STUDIES = sorted(catalog.builtin().values())
MAX_TRIALS = 10_000


@dataclass(frozen=True)
class List:
    """One of the literal lists, and what its entries have to be."""

    module: str
    name: str
    document: str
    members: frozenset[str]
    """What a file of the room defines when it is meant to be an entry: of the module, or of one of its classes."""

    @property
    def folder(self) -> Path:
        return PACKAGE.joinpath(*self.module.split(".")[1:])

    @property
    def tests(self) -> Path:
        """The folder below tests/ that mirrors the room."""
        return ROOT / "tests" / self.module.split(".")[1]

    @property
    def entries(self) -> dict[str, str]:
        """Name -> `module` or `module:Class`."""
        found: dict[str, str] = getattr(importlib.import_module(self.module), self.name)
        return found

    @property
    def contract(self) -> Contract:
        """That of the registry of the list; a list without one has its `members`."""
        registry = getattr(importlib.import_module(self.module), "REGISTRY", None)
        return registry.contract if registry and registry.own is self.entries else Contract(*self.members)


LISTS = [
    List("ioassay.drivers", "DRIVERS", "docs/drivers.md", frozenset({"command", "parse", "access", "estimate"})),
    List("ioassay.targets", "TARGETS", "docs/targets.md", frozenset({"inspect", "prepare", "load", "close"})),
    List("ioassay.monitors", "MONITORS", "docs/monitors.md", frozenset({"FIELDS"})),
    List("ioassay.analysis", "ANALYSES", "docs/METHOD.md", frozenset({"analyse"})),
    List("ioassay.report.figures", "FIGURES", "docs/figures.md", frozenset({"Spec", "draw"})),
    List("ioassay.analysis", "OVERALL", "docs/METHOD.md", frozenset({"together"})),
    List(
        "ioassay.formats", "PARSERS", "docs/claims.md", frozenset({"NAME", "STREAM", "matches", "looks_like", "read"})
    ),
]
EVERY_LIST = pytest.mark.parametrize("of", LISTS, ids=lambda of: of.name)
EVERY_ENTRY = pytest.mark.parametrize(
    ("of", "name"), [(of, name) for of in LISTS for name in of.entries], ids=lambda value: getattr(value, "name", value)
)


def behind(entry: str) -> Any:
    """The module or class that an entry names."""
    module, _, attribute = entry.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def thing(of: List, name: str) -> Any:
    return behind(of.entries[name])


def defined(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign) and node.value is not None
            else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def meant_as_entries(of: List) -> Iterator[str]:
    """The modules of the room that define, at the top or in one class, all that an entry needs."""
    for path in sorted(of.folder.rglob("*.py")):
        body = ast.parse(path.read_text()).body
        scopes = [body, *(node.body for node in body if isinstance(node, ast.ClassDef))]
        if any(of.members <= defined(scope) for scope in scopes) and path != of.folder / "__init__.py":
            dotted = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            yield f"ioassay.{dotted}".removesuffix(".__init__")


@EVERY_LIST
def test_every_file_that_is_meant_as_an_entry_is_in_its_list(of: List) -> None:
    listed = {target.partition(":")[0] for target in of.entries.values()}
    missing = [module for module in meant_as_entries(of) if module not in listed and not is_part_of(module, listed)]
    assert of.entries, f"{of.module}.{of.name} is empty"
    assert not missing, f"add to {of.module}.{of.name}: {missing}"


def is_part_of(module: str, listed: set[str]) -> bool:
    """A file of a package that is itself listed: drivers.simulate.trace_lookup of drivers.simulate."""
    return any(module.startswith(f"{entry}.") for entry in listed)


@EVERY_ENTRY
def test_an_entry_keeps_its_contract_and_is_documented_and_tested(of: List, name: str) -> None:
    target, found = of.entries[name], thing(of, name)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name), f"'{name}' is no name: lower case, digits and underscores"
    assert target.startswith((f"{of.module}.", "ioassay.packs.")), f"{name}: {target} lies outside {of.module}"
    assert inspect.getdoc(found), f"{target} has no docstring"
    assert not (breach := of.contract.breach(found)), f"{target} {breach}: see docs/ADDING.md"
    heading = re.compile(rf"#.*(?<![\w-]){re.escape(name)}(?![\w-])")
    named = [line for line in text_of(ROOT / of.document).splitlines() if heading.match(line) or f"`{name}`" in line]
    assert named, f"{of.document} does not name `{name}`: say there what it is and what it takes"
    module = target.partition(":")[0]
    imported = f"({re.escape(name)}|{re.escape(module.rpartition('.')[2])})"
    naming = re.compile(rf"""["'`]{re.escape(name)}["'`/]|\b{re.escape(module)}\b|import .*\b{imported}\b""")
    places = [
        *of.tests.rglob("test_*.py"),
        *(ROOT / "tests/packs").rglob("test_*.py"),
        *(ROOT / "tests" / "corpus" / of.tests.name).rglob("*.toml"),
    ]
    assert any(naming.search(text_of(path)) or name in path.stem for path in places), (
        f"neither a file tests/{of.tests.name}/test_*.py nor a table of tests/corpus/{of.tests.name} names `{name}`: "
        "test its contract and its hard cases there"
    )


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@pytest.mark.parametrize("name", LISTS[0].entries)
def test_a_driver_of_an_outside_tool_has_golden_outputs_by_version(name: str) -> None:
    if thing(LISTS[0], name)().tool() is None:
        return  # it has no outputs that another program made
    folder = ROOT / "tests" / "golden" / name
    versions = [path for path in folder.glob("*") if path.is_dir() and path.name != "__pycache__"]
    assert versions, f"capture real outputs of {name} in tests/golden/{name}/<version>/"
    for version in versions:
        assert re.match(r"\d", version.name), f"{version}: name it after the tool's version, such as 3.33"
        assert any(path.stat().st_size for path in version.rglob("*") if path.is_file()), f"{version} is empty"


@pytest.mark.parametrize("name", LISTS[-1].entries)
def test_a_parser_of_claims_has_real_outputs_or_samples_to_read(name: str) -> None:
    captured, written = ROOT / "tests" / "golden" / name, LISTS[-1].tests / "golden"
    kept = [path for version in ("[0-9]*", "documented") for path in captured.glob(f"{version}/**/*") if path.is_file()]
    assert kept or list(written.glob(f"{name}-*")), (
        f"capture outputs of {name} in tests/golden/{name}/<version>/, write them after its documentation in "
        f"tests/golden/{name}/documented/, or write samples in tests/formats/golden/"
    )


def test_a_driver_and_a_target_of_each_list_do_nothing() -> None:
    for of in LISTS[:3]:
        assert "null" in of.entries, f"{of.name} has no null implementation, which measures the laboratory itself"


def test_a_metric_of_a_driver_has_a_dot_and_is_new() -> None:
    for name in ("speed", "read.bw"):
        with pytest.raises(ValueError, match=f"'{name}' cannot be a driver's own metric"):
            metrics.add([metrics.Metric(name, "", "higher", "Speed", str)])


# Studies


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_built_in_study_has_a_finite_plan_and_names_only_what_there_is(path: Path) -> None:
    suite = catalog.load(path.stem)
    assert suite.title and suite.description, f"{path.name}: give it a title and a description"
    planned = sum(plan.count(suite).values())
    assert 0 < planned <= MAX_TRIALS, f"{path.name}: {planned} trials; expected 1 to {MAX_TRIALS}"
    trials = list(plan.trials(suite))
    assert len({trial.id for trial in trials}) == len(trials) == planned, f"{path.name}: two trials are the same"
    drivers, targets, monitors, analyses, figures, *_ = LISTS
    for study in suite.studies:
        assert study.driver in drivers.entries
        assert study.target.kind in targets.entries
        assert set(study.watch.monitors) <= monitors.entries.keys()
        assert set(study.analysis.questions) <= analyses.entries.keys()
        for response in study.analysis.responses:
            assert metrics.metric(response), f"{study.name}: {response}"
        for figure in study.figures:
            assert figure.kind in figures.entries, f"{study.name}: {figure}"
            read_spec(thing(figures, figure.kind).Spec, figure, study.name)


def test_there_are_built_in_studies() -> None:
    assert {path.stem for path in STUDIES} == set(catalog.builtin())
    assert "quick" in catalog.builtin()


# Records


def test_every_schema_of_records_that_ever_was_is_kept() -> None:
    for schema in range(1, record.SCHEMA + 1):
        kept = ROOT / "tests" / "records" / f"v{schema}"
        assert any(kept.glob("*.json")), f"keep real records of schema {schema} in tests/records/v{schema}"


# Contract tests

ENTRIES = tomllib.loads((CORPUS / "lists" / "entries.toml").read_text())
ESTIMATED = ("iowait", "idle")
"""Idle time is an estimate of the kernel's and may shrink a little (proc_stat(5))."""


def settings(kind: str, folder: Path) -> dict[str, object]:
    """The least that a study says of a target of this kind."""
    said = ENTRIES["targets"][kind].items()
    return {key: value.format(folder=folder) if isinstance(value, str) else value for key, value in said}


def contract(base: type, entry: str, /, **members: Any) -> None:
    """A class for pytest to collect: TestDriver_fio."""
    title = f"Test{base.__name__.removesuffix('Contract')}_{entry}"
    globals()[title] = type(title, (base,), {"__module__": __name__, **members})


for _name, _entry in DRIVERS.items():
    _needs = ENTRIES["drivers"].get(_name, {})
    _params, _timed = _needs.get("least", {}), _needs.get("timed")
    contract(testing.DriverContract, _name, driver=behind(_entry), params=_params, timed=_timed)


def _settings_of(kind: str) -> Any:
    return lambda self, folder: settings(kind, folder)


for _name, _entry in TARGETS.items():
    contract(testing.TargetContract, _name, target=behind(_entry), settings=_settings_of(_name))
for _name, _entry in MONITORS.items():
    contract(testing.MonitorContract, _name, monitor=behind(_entry), name=_name, may_fall=ESTIMATED)


@pytest.mark.parametrize("name", [name for name, needs in ENTRIES["drivers"].items() if "timed" in needs])
def test_a_load_of_a_second_is_not_shortened(name: str) -> None:
    params = {key: 1 if value in (8, "8s") else value for key, value in ENTRIES["drivers"][name]["timed"][0].items()}
    assert driver(name).shortened(params, 0.25) is None


@pytest.mark.parametrize("kind", [kind for kind in TARGETS if kind not in ("null", "file", "virtual")])
def test_what_a_target_lacks_is_said_before_anything_is_touched(kind: str, tmp_path: Path) -> None:
    made = target({"kind": kind, **settings(kind, tmp_path)}, Consent())
    with pytest.raises(StudyError, match=r"no such|does not exist|is no file|requires root") as found:
        made.inspect(roles.WRITE)
    assert (found.value.key or "").startswith("target.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ask", "error"), [(driver, StudyError), (monitor, UsageError)])
def test_a_name_that_nobody_has_is_answered_with_the_nearest(ask: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="'null'"):
        ask("nul")  # type: ignore[operator]


FAILS = pytest.raises(AssertionError)


# The contract tests themselves

MEASURED: dict[str, Any] = {
    "study": {"driver": "null", "repetitions": 1, "factors": {"n": [1]}},
    "measure": lambda self, point, repetition: {"value": 1.0},
}
"""What an analysis and a figure are given."""


def broken(contract: type, **members: Any) -> Any:
    """The contract tests of an entry that breaks its promises."""
    return type("OfBroken", (contract,), members)()


class Gullible(Fio):
    def parse(self, trial: Any, outcome: Any, raw: Path) -> Parsed:
        return Parsed(OK)

    def page_cache_remedy(self, params: Mapping[str, Any]) -> str:
        return params["ioengine"]

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        return params


def test_broken_promises_fail_of_drivers(tmp_path: Path) -> None:
    tests = broken(testing.DriverContract, driver=Gullible)
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

    tests = broken(testing.TargetContract, target=Careless, settings=_settings_of("file"))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        tests.test_it_refuses_a_setting_that_it_does_not_know(tmp_path)
    with FAILS:
        tests.test_one_that_was_only_made_has_touched_nothing(tmp_path)


def test_broken_promises_fail_of_monitors() -> None:
    readings = iter([{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": math.nan}, {"a": math.inf}, {"a": 3.0}, {"a": 2.0}])
    made = SimpleNamespace(name="odd", read=lambda: next(readings))

    monitor = SimpleNamespace(FIELDS={"a": Field(COUNTER, "", "a count")}, make=lambda root, devices: made)
    tests = broken(testing.MonitorContract, monitor=monitor, name="odd")
    with pytest.raises(AssertionError, match="b is not in FIELDS"):
        tests.test_it_reads_numbers_of_fields_that_are_documented()
    next(readings)
    with FAILS:
        tests.test_it_reads_numbers_of_fields_that_are_documented()
    with FAILS:
        tests.test_its_counters_never_fall()


def finding(**keys: Any) -> Finding:
    return Finding("study", "q", "value", **{"title": "t", "statements": "It is so.", **keys})


@pytest.mark.parametrize(
    "found",
    [[], [finding(statements="It is so")], [finding(statistics={"a": math.nan})], [finding(statistics={"a": {1}})],
     [finding(statements="word " * 30 + "end.")], ["It is so."]],
    ids=["none", "no sentence", "not a number", "not JSON", "a long sentence", "no finding"],
)  # fmt: skip
def test_broken_promises_fail_of_analyses(found: list[Any], tmp_path: Path) -> None:
    analysis = SimpleNamespace(analyse=lambda records, study: found)
    tests = broken(testing.AnalysisContract, analysis=analysis, **MEASURED)
    with pytest.raises((AssertionError, TypeError, ValueError)):
        tests.test_its_findings_have_words_and_numbers_that_can_be_stored(tmp_path)


def test_broken_promises_fail_of_figures(tmp_path: Path) -> None:
    chart = {"data": {"values": []}, "mark": "point", "title": {"text": "t"}, "description": ""}
    figure = SimpleNamespace(Spec=FigureSpec, draw=lambda records, study, spec: chart)
    tests = broken(testing.FigureContract, figure=figure, kind="mute", **MEASURED)
    with FAILS:
        tests.test_it_has_a_title_and_a_description_for_those_who_cannot_see_it(tmp_path / "a")
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        tests.test_records_without_its_metrics_give_a_reason(tmp_path / "b")


def test_broken_promises_fail_of_parsers() -> None:
    output = (Path(__file__).parent / "golden" / "dd" / "9.1" / "plain.txt").read_text()

    def breaking(text: str, argv: Any = ()) -> list[Any]:
        if "\x00" in text:
            raise ValueError("null byte")
        return dd.read(text, argv)

    def of(read: Any) -> Any:
        parser = SimpleNamespace(
            **{**{name: getattr(dd, name) for name in formats.REGISTRY.contract.members}, "read": read}
        )
        return broken(testing.ClaimsContract, parser=parser, program="dd", outputs=(output,))

    of(dd.read).test_damaged_output_is_read_or_refused_in_one_line()
    of(dd.read).test_it_keeps_the_contract_of_its_list()
    with pytest.raises(ValueError, match="null byte"):
        of(breaking).test_damaged_output_is_read_or_refused_in_one_line()
    with FAILS:
        of(lambda text, argv: []).test_it_recognises_its_outputs_and_reads_claims_of_its_own()
