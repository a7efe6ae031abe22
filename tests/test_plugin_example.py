"""examples/plugin is installed without a network: its own tests pass, and its study reaches the page."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli import command_server
from tests.cli.conftest import ask

from ioassay.store import packed_page

PLUGIN = Path(__file__).parent.parent / "examples" / "plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the plugin is installed to; pip builds it in a copy, and the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "dist"))
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(folder / "site"), folder / "source"]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    return folder / "site"


def test_its_own_tests_pass(site: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site), "HOME": str(site.parent)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=site.parent / "source", env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "failed" not in done.stdout and "skipped" not in done.stdout


def test_its_study_runs_to_the_page(site: Path, tmp_path: Path) -> None:
    shutil.copy(PLUGIN / "copy.toml", tmp_path)
    words = ("run", "copy.toml", "--repetitions", "2", "--output", "run", "--json")
    ran = ask(*words, cwd=tmp_path, env={"PYTHONPATH": str(site), "HOME": str(tmp_path)}).json
    command_server.end()
    assert ran["trials"]["ok"] == 8
    (finding,) = [finding for finding in ran["findings"] if finding["question"] == "block_cost"]
    assert finding["statistics"]["ns_per_byte"] != 0
    assert [(figure["name"], figure["problem"]) for figure in ran["figures"]] == [("block_time", "")]
    assert json.loads((tmp_path / "run" / "host.json").read_text())["tools"]["dd"].startswith("dd (coreutils)")
    page = packed_page.unpacked((tmp_path / "run" / "report" / "index.html").read_text())
    assert "The fixed cost of a block" in page and "Time of a block" in page
    claims = [json.loads(path.read_text())["claims"] for path in (tmp_path / "run").glob("trials/*/record.json")]
    assert [claim["bytes"] for (claim,) in claims] == [1 << 24] * 8


def test_its_readme_shows_the_files_that_it_has() -> None:
    text = (PLUGIN / "README.md").read_text()
    for path in [*PLUGIN.glob("src/*/*.py"), *PLUGIN.glob("tests/*.py"), PLUGIN / "copy.toml"]:
        assert path.name in text, f"README.md does not say what {path.name} is"
