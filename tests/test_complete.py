"""Everything in a list is complete: its file, its contract, its golden outputs, its document, its tests.

The lists are the literal dictionaries of docs/ADDING.md. A new entry is finished when these tests are green; each
message says what is still to be written. What an entry does is tested beside it, not here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.records import record
from ioassay.registry import Contract
from ioassay.report.figures.spec import read_spec
from ioassay.study import catalog, plan

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "ioassay"
STUDIES = sorted((PACKAGE / "studies").glob("*.toml"))
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
    List("ioassay.monitors", "MONITORS", "docs/monitors.md", frozenset({"FIELDS", "make"})),
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


def thing(of: List, name: str) -> Any:
    """The module or class behind an entry."""
    module, _, attribute = of.entries[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def defined(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
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
    """A file of a package that is itself listed: drivers.fio.driver of drivers.fio."""
    return any(module.startswith(f"{entry}.") for entry in listed)


@EVERY_ENTRY
def test_an_entry_keeps_its_contract_and_is_documented_and_tested(of: List, name: str) -> None:
    target, found = of.entries[name], thing(of, name)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name), f"'{name}' is no name: lower case, digits and underscores"
    assert target.startswith(f"{of.module}."), f"{name}: {target} lies outside {of.module}"
    assert inspect.getdoc(found), f"{target} has no docstring"
    assert not (breach := of.contract.breach(found)), f"{target} {breach}: see docs/ADDING.md"
    heading = re.compile(rf"#.*(?<![\w-]){re.escape(name)}(?![\w-])")
    named = [line for line in text_of(ROOT / of.document).splitlines() if heading.match(line) or f"`{name}`" in line]
    assert named, f"{of.document} does not name `{name}`: say there what it is and what it takes"
    module = target.partition(":")[0]
    imported = f"({re.escape(name)}|{re.escape(module.rpartition('.')[2])})"
    naming = re.compile(rf"""["'`]{re.escape(name)}["'`]|\b{re.escape(module)}\b|import .*\b{imported}\b""")
    tests = any(naming.search(text_of(path)) or name in path.stem for path in of.tests.rglob("test_*.py"))
    assert tests, f"no file tests/{of.tests.name}/test_*.py names `{name}`: test its contract and its hard cases there"


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
    assert 0 < planned <= MAX_TRIALS, f"{path.name}: {planned} trials; wanted 1 to {MAX_TRIALS}"
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
