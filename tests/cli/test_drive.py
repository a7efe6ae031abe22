"""ioassay drive and --drive at the real command line: tables, errors with exit codes, and the same drive everywhere."""

from pathlib import Path

import pytest

from ioassay.simulator import drive_files

from .conftest import Ask
from .drives import served

MINE = """
about = "Mine"
[sources]
me = "me"
[drive]
elements = { value = 4, basis = "assumed", source = "me" }
blocks = { value = 64, basis = "assumed", source = "me" }
page = { value = 8, unit = "KiB", basis = "assumed", source = "me" }
program_us = { value = 0.4, unit = "ms", basis = "measured", source = "me" }
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text(MINE)
    return tmp_path / "mine.toml"


def test_the_list_has_every_built_in_drive(ioassay: Ask) -> None:
    said = ioassay("drive", "list")
    assert said.code == 0 and len(said.out.splitlines()) <= 15
    names = [line.split()[0] for line in said.out.splitlines()]
    assert names == ["drive", *drive_files.builtin()]
    found = ioassay("drive", "list", "--json").json["drives"]
    assert [each["name"] for each in found] == names[1:]


def test_simulate_takes_the_drive_and_options_override_it(ioassay: Ask, mine: Path) -> None:
    made = ioassay("trace", "make", "t.disksim", "--requests", 500, "--arrivals", "poisson:1000", "--range", "16MiB")
    assert made.code == 0, made.err

    def mean(*options: object) -> float:
        said = ioassay("simulate", "t.disksim", *options, "--json")
        assert said.code == 0, said.err
        found: float = said.json["mean_response_ms"]
        return found

    by_options = ["--elements", 4, "--blocks", 64, "--page", "8KiB", "--program-us", 400]
    assert mean("--drive", mine) == mean("--drive", "./mine.toml") == mean(*by_options)
    assert mean("--drive", mine, "--program-us", 200) == mean(*by_options, "--program-us", 200)
    assert mean("--drive", "reference") == mean()


def test_a_served_drive_has_the_options_of_the_drive(ioassay: Ask, mine: Path) -> None:
    """Page and elements of the file, the size that was asked for, and what --set overrides."""
    words = ("--size", "256MiB", "--transport", "nbd:unix:drive.sock", "--no-calibrate", "--drive", "./mine.toml")
    with served(mine.parent, *words) as drive:
        assert drive.told["page_bytes"] == 8192
        assert 2**28 <= drive.told["model_bytes"] < 2**28 * 1.2, "not the 64 blocks of the file"
    with served(mine.parent, *words, "--set", "page=4KiB") as drive:
        assert drive.told["page_bytes"] == 4096
    said = ioassay("device", "serve", "--size", "1GiB", "--transport", "nbd:unix:x.sock", "--drive", "mine")
    assert said.code == 2 and "no drive is called 'mine'" in said.err


@pytest.mark.parametrize("name", drive_files.builtin())
def test_every_built_in_drive_can_be_simulated_and_served(ioassay: Ask, tmp_path: Path, name: str) -> None:
    words = ("--size", "2GiB", "--transport", "nbd:unix:drive.sock", "--no-calibrate", "--drive", name)
    with served(tmp_path, *words) as drive:
        assert drive.told["model_bytes"] >= 2**31
    assert ioassay("trace", "make", "t.disksim", "--requests", 200, "--reads", 0.5, "--range", "1GiB").code == 0
    said = ioassay("simulate", "t.disksim", "--drive", name, "--json")
    assert said.code == 0 and said.json["requests"] == 200, said.err
