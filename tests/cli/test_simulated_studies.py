"""Studies of the simulated SSD through the real command line: parallel trials, the page, what `write-buffer` finds."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ioassay.records.record import OK, Record
from ioassay.store import packed_page
from ioassay.store.run_folder import RunStore
from ioassay.study import catalog

from .conftest import ask

SMALL = """
title = "Small"
driver = "simulate"
repetitions = 2
[params]
elements = 4
blocks = 64
window = "none"
buffer = "64KiB"
[factors]
policy = ["none", "lru", "epo"]
feed = ["open", "closed:8"]
[analysis]
responses = ["write.lat.mean", "sim.hit_ratio"]
[[case]]
name = "made"
make = { requests = 3000, arrivals = "poisson:8000", range = "16MiB" }
[[case]]
name = "absent"
trace = "nowhere.spc"
get = "put it there"
"""
FIGURE = """
[[figures]]
kind = "bar"
name = "response"
x = "policy"
y = "write.lat.mean"
"""
NO_TRACES = {"IOASSAY_TRACES": ""}


def records(run: Path) -> list[Record]:
    return list(RunStore.open(run).records())


def shown(run: Path) -> list[Any]:
    """What does not depend on when and where a trial ran."""
    kept = {"sim.wall": None}
    return [(one.trial["id"], one.status, one.reason, {**one.metrics, **kept}) for one in records(run)]


def test_a_simulated_study_runs_in_parallel_and_has_its_page(ioassay: Any, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL + FIGURE)
    words = ("run", "small.toml", "--workers", 2, "--output", "two", "--json")
    answer = ask(*words, cwd=tmp_path, env=NO_TRACES)
    assert answer.code == 0
    trials = answer.json["trials"]
    assert (trials["planned"], trials["ok"], trials["failed"], trials["skipped"]) == (24, 12, 0, 12)
    page = packed_page.unpacked((tmp_path / "two" / "report" / "index.html").read_text())
    assert "Mean write total latency by policy" in page
    assert any("put it there" in warning["remedy"] for warning in answer.json["warnings"] if warning["remedy"])
    assert ioassay("run", "small.toml", "--workers", 1, "--output", "one", "--json", env=NO_TRACES).code == 0
    assert shown(tmp_path / "one") == shown(tmp_path / "two")


# The study of write buffers


@pytest.fixture(scope="module")
def write_buffer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Every study of the suite at its quick scale, and its --json: with the factor levels that the tests need.

    A trial costs more than its simulation, so fewer levels save more time than fewer requests.
    """
    folder = tmp_path_factory.mktemp("write-buffer")
    answer = ask(
        *("run", "write-buffer", "--scale", "quick", "--workers", 2, "--output", "run", "--json"),
        *("--factor", "policy=lru,bplru,epo,idle-cold", "--factor", "feed=open,closed:32"),
        *("--factor", "elements=16"),
        cwd=folder,
        env=NO_TRACES,
        within_s=280,
    )
    assert answer.code == 0, answer.err
    return folder / "run", answer.json


def by_policy(run: Path) -> dict[tuple[str, ...], dict[str, float]]:
    """Mean response of writes with 32 outstanding, by study and point, then by policy; of the trials that ran."""
    found: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for one in records(run):
        point = dict(one.trial["point"])
        if one.status == OK and point["feed"] == "closed:32":
            policy = point.pop("policy")
            found[(one.trial["study"], *map(str, point.values()))][policy] = one.metrics["write.lat.mean"]
    return found


@pytest.mark.slow
def test_the_study_of_write_buffers_runs_whole(write_buffer: tuple[Path, dict[str, Any]]) -> None:
    run, said = write_buffer
    trials = said["trials"]
    assert (trials["failed"], said["failures"]) == (0, [])
    assert trials["ok"] > 0
    assert trials["ok"] + trials["skipped"] == trials["planned"]
    assert (run / "report" / "index.html").stat().st_size > 0
    wanted = [figure.name for study in catalog.load("write-buffer").studies for figure in study.figures]
    assert [figure["name"] for figure in said["figures"]] == wanted
    assert [figure["problem"] for figure in said["figures"] if figure["problem"]] == []
    drawn = {path.name for path in (run / "report" / "figures").iterdir()}
    assert drawn == {f"{name}.{kind}" for name in wanted for kind in ("png", "svg")}


@pytest.mark.slow
def test_with_many_outstanding_spread_evictions_beat_those_that_are_not(
    write_buffer: tuple[Path, dict[str, Any]],
) -> None:
    """Where buffers write behind, idle elements get pages whatever the policy, and LRU may be even."""
    found = by_policy(write_buffer[0])
    assert {study for study, *_ in found} == {study.name for study in catalog.load("write-buffer").studies}
    behind = {where for where in found if where[0] == "write-buffer-inline" or "idle" in where}
    assert behind and behind != found.keys()
    worse = {
        (where, other): (means["epo"], means[other])
        for where, means in found.items()
        for other in ("lru", "bplru")
        if not means["epo"] < means[other] * (1.005 if where in behind else 1)
    }
    assert worse == {}


@pytest.mark.slow
def test_the_simple_rival_is_named_with_its_numbers(write_buffer: tuple[Path, dict[str, Any]]) -> None:
    """Which of the two is better is not for a test to say; that the reader is told how close they are is."""
    compared = [one for one in write_buffer[1]["findings"] if "points" in one["statistics"] and one["where"]]
    studies = {study.name for study in catalog.load("write-buffer").studies}
    conventions = {(finding["study"], finding["where"]["feed"]) for finding in compared}
    assert conventions >= {(study, feed) for study in studies for feed in ("open", "closed:32")}
    for finding in compared:
        assert re.search(
            r"[Ii]dle-cold (is|and|has) [^.]*epo[^.:]*: the median difference is [+-]?\d+\.\d %", finding["statement"]
        ), finding["statement"]
        for point in finding["statistics"]["points"]:
            assert {"epo", "idle-cold"} <= point["means"].keys()
            assert isinstance(point["reductions"]["epo"]["idle-cold"], float)
