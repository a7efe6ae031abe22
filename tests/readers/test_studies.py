"""Studies, suites and job files, damaged: the message names the file and the key, and nothing is planned."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from ioassay.drivers import driver
from ioassay.errors import UsageError
from ioassay.roles import Trial
from ioassay.study import catalog, plan
from ioassay.study.model import Suite

from .mutation import withstands

ROOT = Path(__file__).parents[2]
BUILT_IN = [path.read_bytes() for path in catalog.builtin().values()]
EXAMPLES = [path.read_bytes() for path in sorted((ROOT / "examples").glob("*.toml"))]
JOBS = [
    path.read_bytes()
    for path in [*sorted((ROOT / "tests/golden/fio").rglob("job.fio")), ROOT / "examples/database.fio"]
]


def examined(suite: Suite) -> None:
    """What is done with a study before its target is looked at: its points are made, and their parameters checked."""
    for study in suite.studies:
        tool = driver(study.driver)
        for trial in islice(plan.trials(Suite(name=suite.name, title="", studies=[study])), 2):
            checked(tool, trial)


def checked(tool: Any, trial: Trial) -> None:
    tool.validate(trial.params, trial.target)
    tool.access(trial.params)
    tool.touches(trial.params)
    tool.estimate(trial.params, trial.target)


def load(path: Path, copy: bytes) -> None:
    path.write_bytes(copy)
    suite = catalog.load(str(path))
    try:
        examined(suite)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None  # preflight says of which study


@pytest.mark.parametrize("name", ["built-in", "examples"])
def test_studies(tmp_path: Path, name: str) -> None:
    path = tmp_path / "copy.toml"
    goldens = BUILT_IN if name == "built-in" else EXAMPLES
    withstands(lambda copy: load(path, copy), goldens, f"studies {name}", names=str(path))


def test_tables_of_studies(tmp_path: Path) -> None:
    """Damaged as trees and written as TOML again, which has no null and no number beyond 64 bits."""
    import tomllib

    path = tmp_path / "copy.toml"
    goldens = [json.dumps(tomllib.loads(text.decode())).encode() for text in (*BUILT_IN, *EXAMPLES)]

    def read(copy: bytes) -> None:
        try:
            text = tomli_w.dumps(json.loads(copy))
        except (ValueError, TypeError, AttributeError, RecursionError):
            text = copy.decode("utf-8", "replace")
        load(path, text.encode("utf-8", "surrogatepass"))

    withstands(read, goldens, "tables of studies", names=str(path), tree="json")


def test_job_files(tmp_path: Path) -> None:
    path = tmp_path / "copy.fio"
    withstands(lambda copy: load(path, copy), JOBS, "job files", names=str(path))
