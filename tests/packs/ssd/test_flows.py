"""Several loads at once on a simulated drive: in Python, on the command line, in studies. The engine: crates/sim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import StudyError, UsageError
from ioassay.packs.ssd.driver import Simulate
from ioassay.packs.ssd.simulator import check, flows, simulate, sweep
from ioassay.simulation import traces

from ...cli.conftest import Ask
from ...corpora import cases
from .test_simulate_driver import measured

SMALL: dict[str, Any] = {"elements": 2, "blocks": 16, "reserve": 0.3, "min_free": 0.07}


def numbers(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name != "wall_s"}


@pytest.mark.parametrize(
    ("flow", "recipe", "feed"),
    [
        ("read,depth=4", {"reads": 1.0, "arrivals": "none"}, "closed:4"),
        ("write,rate=poisson:3000", {"arrivals": "poisson:3000"}, "open"),
        ("mixed,read_share=0.3,zipf:0.9,depth=2", {"reads": 0.3, "addresses": "zipf:0.9"}, "closed:2"),
        ("write,size=16KiB,sequential", {"sizes": "16KiB", "align": "16KiB", "addresses": "sequential"}, "closed:1"),
    ],
)
def test_one_flow_is_its_recipe(flow: str, recipe: dict[str, Any], feed: str) -> None:
    capacity = check(SMALL)["capacity_bytes"] // 16384 * 16384
    made = traces.recipe(**{"requests": 3000, "arrivals": "none", "range": capacity, **recipe})
    wanted = numbers(simulate(made, feed=feed, window=None, **SMALL).summary)
    done = simulate(flows(f"{flow},requests=3000,range=0-{capacity}"), **SMALL)
    assert numbers(done.summary) == wanted
    (of_flow,) = done.flows.values()
    assert of_flow["p99_ms"] == wanted["p99_ms"] and of_flow["iops"] == wanted["iops"]


def test_flows_share_the_drive_and_keep_their_ranges_and_ends() -> None:
    loads = ["read,depth=2,seconds=50ms,range=0-50%,name=timed", "write,rate=200,range=50-100%", "mixed,requests=400"]
    done = simulate(flows(*loads), **SMALL)
    found = done.flows
    assert list(found) == ["timed", "write", "mixed"]
    assert found["mixed"]["requests"] == 400 == sum(found["mixed"][kind]["requests"] for kind in ("read", "write"))
    assert found["timed"]["requests"] / 0.05 == pytest.approx(found["timed"]["iops"], rel=0.01)
    assert found["write"]["iops"] == pytest.approx(200, rel=0.1)
    assert sum(each["requests"] for each in found.values()) == done.summary["requests"]
    assert done.raw["flows"]["timed"]["read"]["count"] == found["timed"]["requests"]
    assert done.summary == {**simulate(flows(*loads), **SMALL).summary, "wall_s": done.summary["wall_s"]}
    other = simulate(flows(*loads, seed=2), **SMALL)
    assert other.summary["mean_response_ms"] != done.summary["mean_response_ms"]


def test_a_sweep_gives_what_single_runs_give() -> None:
    load = flows("read,depth=4,requests=500", {"operation": "write", "rate": 100})
    runs = [{**SMALL, "elements": elements} for elements in (2, 4)]
    swept = [numbers(done.summary) for done in sweep(load, runs)]
    assert swept == [numbers(simulate(load, **run).summary) for run in runs]


@cases("simulator", "flows")
def test_what_cannot_be_is_refused_with_its_part(case: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        simulate(flows(case["flows"]), **SMALL, **case.get("options", {}))
    assert str(error.value).startswith(case["says"])


def test_the_command_shows_each_flow(ioassay: Ask) -> None:
    drive = ["--elements", "2", "--blocks", "32", "--reserve", "0.3"]
    loads = ["--flow", "read,depth=2,requests=100", "--flow", "mixed,rate=500"]
    lines = ioassay("simulate", *loads, *drive).out.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("flow "))
    assert [line.split("  ")[0] for line in lines[head + 1 :]] == ["read", "mixed, reads", "mixed, writes"]
    said = ioassay("simulate", *loads, *drive, "--json").json
    assert said["flows"]["read"]["requests"] == 100 and said["flows"]["mixed"].keys() > {"iops", "read", "write"}
    both = ioassay("simulate", "oltp", *loads)
    assert both.code == 2 and "trace is given with --flow, expected one of both" in both.err


def test_a_study_measures_each_flow(tmp_path: Path) -> None:
    params = {**SMALL, "flows": "read,depth=1,requests=300;write,rate=300,name=other"}
    found = measured(tmp_path, params)
    assert found["read/read.ios"] == 300 and found["read/read.lat.p99"] >= found["read/read.lat.p50"] > 0
    assert found["other/write.iops"] == pytest.approx(300, rel=0.2)
    assert found["total.ios"] == found["read/total.ios"] + found["other/total.ios"]
    assert "sim.optimum_hit_ratio" not in found
    assert found != measured(tmp_path, params, repetition=1)
    estimate = Simulate().estimate(params, {})
    assert 0 < estimate.seconds < 1


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"flows": "read,depth=x"}, "params.flows"),
        ({"flows": 3}, "params.flows"),
        ({"flows": "read", "trace": "oltp"}, "params.trace"),
        ({"flows": "read", "elephants": 1}, "params.elephants"),
    ],
)
def test_a_study_names_the_parameter_that_is_wrong(params: dict[str, Any], key: str) -> None:
    with pytest.raises(StudyError) as error:
        Simulate().validate({**SMALL, **params}, {})
    assert error.value.key == key
