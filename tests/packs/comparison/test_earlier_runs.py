"""A run against the earlier ones of a history: which of them count, and what their scatter decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ioassay
from ioassay.analysis.condition_comparison import RunScatter, Verdict
from ioassay.packs.comparison import comparison_text, run_comparison
from ioassay.packs.comparison.earlier_runs import EarlierRuns, as_run, earlier_runs
from ioassay.packs.comparison.run_comparison import Comparison, Outcome
from ioassay.store.dataset import Dataset

HOST = {"identity": {"key": "k", "machine": "0123456789abcdef"}, "kernel": {"release": "6.1"}}


def run(
    lab: Any, night: int, speed: float, n: int = 3, path: str = "disk/testfile", size: str = "1MiB", **host: Any
) -> Dataset:
    """The run of a night, with repetitions that hardly scatter."""
    target = {"kind": "file", "path": path, "size": size}
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]}, responses=["read.bw"], target=target)
    random = np.random.default_rng(night)
    measured = lab.run(study, lambda *_: {"read.bw": 1e8 * speed * random.lognormal(0, 0.002)}, n)
    records: Dataset = lab.records(measured, host={**HOST, **host})
    began = records.trials["started_unix_s"] + 86400.0 * night
    return replace(records, trials=records.trials.with_columns(started_unix_s=began), root=Path(f"night-{night}"))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "history")


def kept(place: str, runs: Sequence[Dataset]) -> None:
    store = ioassay.history(place)
    assert all(store.add(one) for one in runs)


def nights(lab: Any, count: int, scatter: float = 0.03, level: float = 1.0, first: int = 0) -> list[Dataset]:
    random = np.random.default_rng(1)
    return [run(lab, first + night, level * random.lognormal(0, scatter)) for night in range(count)]


def judged(place: str, b: Dataset, a: Dataset | None = None) -> Comparison:
    earlier = earlier_runs(place, b, a)
    return run_comparison.compare(a or as_run(earlier, b), b, earlier=earlier, is_history=a is None)


def verdicts(found: Comparison) -> set[Verdict]:
    return {row.verdict for row in found.rows}


def of_study(place: str, b: Dataset) -> EarlierRuns:
    return earlier_runs(place, b)["study"]


def test_what_runs_scatter_by_is_no_verdict_and_more_is(lab: Any, place: str) -> None:
    kept(place, nights(lab, 12))
    usual, slow = run(lab, 20, 0.94), run(lab, 20, 0.7)
    found, lost = judged(place, usual), judged(place, slow)
    assert verdicts(found) == {Verdict.UNDECIDED} and not found.regression
    assert verdicts(lost) == {Verdict.SLOWER} and lost.regression
    assert lost.scatter == RunScatter.HISTORY
    assert "Judged by the scatter of 12 earlier runs on this machine." in comparison_text.as_dict(lost)["statement"]
    assert verdicts(run_comparison.compare(nights(lab, 1)[0], usual)) == {Verdict.DIFFERS}


def test_two_runs_are_judged_by_the_scatter_of_the_others(lab: Any, place: str) -> None:
    runs = nights(lab, 12)
    kept(place, runs)
    assert verdicts(judged(place, run(lab, 20, 0.97), runs[-1])) == {Verdict.UNDECIDED}
    assert verdicts(judged(place, run(lab, 20, 0.7), runs[-1])) == {Verdict.SLOWER}
    assert of_study(place, runs[-1]).names == earlier_runs(place, run(lab, 20, 1.0), runs[-1])["study"].names


def test_runs_that_are_later_elsewhere_or_no_measurement_do_not_count(lab: Any, place: str) -> None:
    elsewhere = {"identity": {"key": "k", "machine": "fedcba9876543210"}}
    others = [run(lab, 30, 1.0), run(lab, 3, 1.0, **elsewhere), run(lab, 4, 1.0, path="other/testfile")]
    kept(place, [*nights(lab, 2), *others, run(lab, 6, 1.0, size="2MiB"), run(lab, 5, 1.0, path="disk/another-name")])
    b = run(lab, 20, 1.0)
    kept(place, [b])
    assert len(of_study(place, b).names) == 3


def test_too_few_runs_leave_the_scatter_unknown(lab: Any, place: str) -> None:
    runs = nights(lab, 5)
    kept(place, runs)
    found = judged(place, run(lab, 20, 0.5), runs[-1])
    assert (verdicts(found), found.regression) == ({Verdict.DIFFERS}, False)
    assert "The history has 4 earlier runs, too few" in comparison_text.as_dict(found)["statement"]


@pytest.mark.parametrize("count", [0, 4])
def test_too_few_runs_are_no_baseline(lab: Any, place: str, count: int) -> None:
    kept(place, nights(lab, count))
    b = run(lab, 20, 0.5)
    found = judged(place, b)
    assert (found.outcome, found.rows, found.only_b, found.regression) == (Outcome.MEASURED, (), (), False)
    needed = "earlier runs with these settings, fit and on this machine and target"
    told = f"Nothing to judge by yet: the history has {count} of 5 {needed}."
    assert comparison_text.as_dict(found)["statement"] == told
    assert f"### ioassay: no baseline\n\nstudy\n\n**{told}**" in comparison_text.markdown(b, b, found).replace("`", "")


def test_the_baseline_is_what_holds_since_the_last_change(lab: Any, place: str) -> None:
    kept(place, [*nights(lab, 15, 0.01), *nights(lab, 15, 0.01, level=2.0, first=15)])
    found = judged(place, run(lab, 40, 2.0))
    assert not {Verdict.SLOWER, Verdict.FASTER} & verdicts(found)
    assert all(row.mean_a == pytest.approx(2e8, rel=0.02) and row.n_a == 15 for row in found.rows)


def test_facts_of_the_host_that_differ_from_the_last_run_are_warnings(lab: Any, place: str) -> None:
    kept(place, nights(lab, 5))
    found = judged(place, run(lab, 20, 1.0, kernel={"release": "6.2"}))
    assert [str(comparison_text.warning(one)) for one in found.differences] == [
        "host: kernel is '6.1' in A and '6.2' in B"
    ]
