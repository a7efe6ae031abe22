"""The study `load-latency`: an open loop from what a hard disk can do to what no drive of a workstation does."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ioassay.study import catalog, overrides, plan


def test_the_rates_are_a_geometric_series_that_any_drive_saturates_within() -> None:
    (study,) = catalog.load("load-latency").studies
    rates = [int(rate) for rate in study.levels["rate_iops"]]
    assert rates[0] <= 100 and rates[-1] >= 400_000
    assert {after / before for before, after in itertools.pairwise(rates)} == {2}
    assert study.params["rate_process"] == "poisson"


def test_a_quick_run_takes_some_of_the_rates() -> None:
    whole = catalog.load("load-latency")
    quick = catalog.load("load-latency", lambda table: overrides.scaled(table, "quick"))
    assert plan.count(quick)["load-latency"] < plan.count(whole)["load-latency"] / 2
    assert set(quick.studies[0].levels["rate_iops"]) <= set(whole.studies[0].levels["rate_iops"])


@pytest.mark.fio
def test_rates_below_saturation_are_achieved_and_drawn(tmp_path: Path) -> None:
    words = ("run", "load-latency", "--scale", "quick", "--repetitions", "1", "--json")
    tiny = ("--factor", "rate_iops=100,200,400", "--set", "runtime=500ms", "--set", "target.size=4MiB")
    done = subprocess.run(
        [sys.executable, "-m", "ioassay", *words, *tiny], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["trials"]["ok"] == 3
    assert [figure["name"] for figure in result["figures"]] == ["load_latency", "load_latency_cdf"]
    assert [figure["problem"] for figure in result["figures"]] == ["", ""]
