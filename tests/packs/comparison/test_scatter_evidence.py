"""What is known of the scatter from run to run decides what a difference is, and what fails a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from ioassay.analysis.condition_comparison import RunScatter, Verdict
from ioassay.packs.comparison import comparison_text
from ioassay.packs.comparison.run_comparison import Comparison, FailOn, compare
from ioassay.packs.comparison.scatter_evidence import turns

from .compared_runs import in_turns


def runs(lab: Any, factor: float = 1.0, n: int = 6, seed: int = 1, drift: float = 0.0, noise: float = 0.01) -> Any:
    """A, and B at `factor` times its speed; both lose the share `drift` a repetition."""
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]}, responses=["read.iops", "read.bw"])
    random = np.random.default_rng(seed)

    def measured(speed: float, late: float) -> Any:
        def measure(point: Any, block: int) -> dict[str, float]:
            one = speed * (1 - drift * (2 * block + late)) * random.lognormal(0, noise)
            return {"read.iops": 1e4 * one, "read.bw": 4096e4 * one}

        return lab.records(lab.run(study, measure, n))

    return measured(1.0, 0.0), measured(factor, 0.0)


def one_after_the_other(a: Any, b: Any) -> Any:
    return a, replace(b, trials=b.trials.with_columns(b.trials["started_unix_s"] + 1e6))


def verdicts(found: Comparison) -> set[Verdict]:
    return {row.verdict for row in found.rows}


@pytest.mark.parametrize(
    ("factor", "fail_on", "fails"), [(0.8, "known", 0), (0.8, "any", 4), (0.8, "never", 0), (1.3, "any", 0)]
)
def test_two_runs_differ_and_fail_a_job_only_where_that_is_asked_for(
    lab: Any, factor: float, fail_on: str, fails: int
) -> None:
    found = compare(*one_after_the_other(*runs(lab, factor)), fail_on=FailOn(fail_on))
    assert (found.outcome, verdicts(found), found.scatter) == ("differs", {Verdict.DIFFERS}, RunScatter.UNKNOWN)
    said, root = comparison_text.as_dict(found), ElementTree.fromstring(comparison_text.junit_xml(found))
    assert found.regression == said["regression"] == bool(fails)
    assert len([*root.iter("failure")]) == fails and len([*root.iter("skipped")]) == 4 - fails
    assert all("differs between these two runs; run-to-run scatter unknown" in one["reason"] for one in said["rows"])
    assert "a history (--history) or turns (ioassay turns)" in said["statement"]


@pytest.mark.parametrize(("fail_on", "fails"), [("known", True), ("any", True), ("never", False)])
def test_turns_tell_slower_from_scatter(lab: Any, fail_on: str, fails: bool) -> None:
    found = compare(*in_turns(*runs(lab, 0.8)), fail_on=FailOn(fail_on))
    assert (found.outcome, verdicts(found), found.scatter) == ("slower", {Verdict.SLOWER}, RunScatter.TURNS)
    assert found.regression == fails
    assert "Judged by pairs of neighbouring turns" in comparison_text.as_dict(found)["statement"]


@pytest.mark.parametrize(
    ("order", "n", "seen"), [("ABBA", 6, 6), ("BAAB", 5, 5), ("ABAB", 6, 0), ("AABB", 6, 0), ("ABBA", 3, 3)]
)
def test_turns_are_seen_where_pairs_alternate(lab: Any, order: str, n: int, seen: int) -> None:
    a, b = in_turns(*runs(lab, n=n), order=order)
    assert turns(a, b, a.studies[0], b.studies[0]) == [*range(seen)]


def test_a_turn_without_its_partner_is_left_out(lab: Any) -> None:
    a, b = in_turns(*runs(lab))
    last = b.trials.filter(b.trials["repetition"] < 5)
    assert turns(a, replace(b, trials=last), a.studies[0], b.studies[0]) == [*range(5)]
    earlier = b.trials.filter(b.trials["repetition"] != 2)
    assert turns(a, replace(b, trials=earlier), a.studies[0], b.studies[0]) == []


def test_two_turns_are_too_few_to_tell_the_scatter(lab: Any) -> None:
    found = compare(*in_turns(*runs(lab, 0.5, n=2)))
    assert found.scatter == RunScatter.UNKNOWN


def test_a_rate_in_two_units_costs_its_risk_once(lab: Any) -> None:
    a, b = in_turns(*runs(lab, 0.97))
    both = compare(a, b)
    alone = compare(*(replace(run, studies=[_responding(run.studies[0], "read.iops")]) for run in (a, b)))
    assert (len(both.rows), len(alone.rows)) == (4, 2)
    assert [row.interval for row in both.rows if row.response == "read.iops"] == [row.interval for row in alone.rows]


def _responding(study: Any, response: str) -> Any:
    return study.model_copy(update={"analysis": study.analysis.model_copy(update={"responses": [response]})})


def test_a_drift_of_the_machine_is_no_difference_of_turns(lab: Any) -> None:
    drifting = runs(lab, drift=0.01, noise=0.001)
    assert verdicts(compare(*in_turns(*drifting))) <= {Verdict.SAME, Verdict.UNDECIDED}
