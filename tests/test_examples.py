"""Every example loads, has its line in examples/README.md, and would run here but for its disk."""

from pathlib import Path

import pytest

from ioassay import catalogue, plan, preflight
from ioassay.report import figures
from ioassay.roles import Consent

EXAMPLES = Path(__file__).parent.parent / "examples"
STUDIES = sorted([*EXAMPLES.glob("*.toml"), *EXAMPLES.glob("*.fio")])


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_an_example_is_a_study_and_has_its_line(path: Path) -> None:
    suite = catalogue.load(str(path))
    assert sum(plan.count(suite).values()) > 0
    for study in suite.studies:
        figures.check(study.model_dump())
    assert f"[{path.name}]({path.name})" in (EXAMPLES / "README.md").read_text()


@pytest.mark.fio
@pytest.mark.parametrize("path", [path for path in STUDIES if path.name != "device.toml"], ids=lambda path: path.name)
def test_an_example_would_run_here(path: Path, tmp_path: Path) -> None:
    benches = preflight.assemble(catalogue.load(str(path)), Consent(), tmp_path)
    preflight.ready_tools(benches)
    found = {warning.code for warning in preflight.examine(benches)}
    assert not {"response-unknown", "iodepth-ignored"} & found
