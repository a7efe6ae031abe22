"""Everything in a list is complete: its file, its contract, its golden outputs, its document, its tests.

The lists are the literal dictionaries of docs/ADDING.md. A new entry is finished when these tests are green; each
message says what is still to be written. What an entry does is tested beside it, not here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
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
from ioassay.store import packed_page
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


# A driver is one package and one line


MADE_UP = '''"""A driver that no list of the package has: it counts grains of sand."""

from ioassay.metrics import RATE, Metric
from ioassay.roles import NOTHING, Command, Driver, Estimate, Parsed, Tool


class Sieve(Driver):
    """Runs python3 as if it were a sieve."""

    name = "sieve"
    measures = True
    length_key = "pause"
    responses = ("sieve.speed",)
    metrics = (Metric("sieve.speed", "grains/s", "higher", "Speed of the sieve", "{:.0f} grains/s".format, RATE),)

    def tool(self):
        return Tool("python3", ["python3", "--version"], (3,), "python3")

    def configure(self, version, probes):
        assert version.startswith("Python 3")

    def validate(self, params, target):
        return ()

    def access(self, params):
        return NOTHING

    def touches(self, params):
        return ()

    def estimate(self, params, target):
        return Estimate(seconds=0.1, written_bytes=0)

    def shortened(self, params, share):
        return None

    def command(self, trial, load, raw):
        return Command(["python3", "-c", f"print({trial.params['mesh']} * 1000 + {trial.seed} % 10)"], timeout_s=60)

    def parse(self, trial, outcome, raw):
        return Parsed("ok", metrics={"sieve.speed": float(outcome.stdout.read_text())})
'''
SIEVED = """
title = "How fast does sand fall?"
driver = "sieve"
repetitions = 3
[factors]
mesh = [1, 2, 4]
[watch]
monitors = []
witness = "off"
"""
LISTED = """
from ioassay.__main__ import main
from ioassay.drivers import DRIVERS
DRIVERS["sieve"] = "sieve:Sieve"
main()
"""
"""`ioassay` as it is with one more line in the list."""


def test_a_new_driver_is_one_package_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "sieve.py").write_text(MADE_UP)
    (tmp_path / "sand.toml").write_text(SIEVED)

    def ioassay(*words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
        command = [sys.executable, "-c", LISTED, *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    ran = json.loads(ioassay("run", "sand.toml", "--output", "run", "--json"))
    assert ran["trials"]["ok"] == 9
    assert json.loads((tmp_path / "run" / "host.json").read_text())["tools"]["python3"].startswith("Python 3")
    page = packed_page.unpacked((tmp_path / "run" / "report" / "index.html").read_text())
    assert "Speed of the sieve" in page and re.search(r"400\d grains/s", page)
    assert [figure["name"] for figure in ran["figures"]] == ["sieve_speed_by_mesh"]
    svg = (tmp_path / "run" / "report" / "figures" / "sieve_speed_by_mesh.svg").read_text()
    assert "Speed of the sieve" in svg and "sieve.speed" not in svg
    doubts = {finding["statistics"]["code"] for finding in ran["findings"] if finding["question"] == "caveats"}
    assert "short" in doubts


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
