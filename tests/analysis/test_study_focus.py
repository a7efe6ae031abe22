"""All sweeps of a suite in one table, and the summary of a study of peaks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ioassay.analysis import OVERALL, conclusion
from ioassay.analysis.optimum import Outcome
from ioassay.analysis.peak_cause import Cause, Explanation
from ioassay.narrative import conclude_text, peak_text
from ioassay.narrative.finding import Finding
from ioassay.narrative.pipeline import analyse_all
from ioassay.store.dataset import Dataset

RATE = "bogo_ops_real_rate"


def study(lab: Any, name: str, factors: Any, **keys: Any) -> Any:
    return lab.study(name, factors=factors, responses=[RATE], driver="stress_ng", lead="peak", **keys)


def workers(lab: Any, name: str = "cpu", cores: int = 4, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    made = study(lab, name, {"workers": [1, 2, 3, 4, 6, 8]})
    return lab.run(made, lambda p, _: {RATE: 1e3 * min(p["workers"], cores) * rng.lognormal(0, 0.01)}, 5)


def policies(lab: Any) -> Any:
    rng = np.random.default_rng(2)
    made = study(lab, "policies", {"cpu-method": ["int16", "int64"], "run.scheduler": ["fifo:99", "idle", "other"]})
    level = {"idle": 500, "other": 900}

    def measure(p: Any, _: int) -> Any:
        known = level.get(p["run.scheduler"])
        return known and {RATE: known * rng.lognormal(0, 0.01)}

    return lab.run(made, measure, 5, first_order=1000)


def never(lab: Any) -> Any:
    made = study(lab, "ports", {"workers": [1, 2, 4]})
    return lab.run(made, lambda *_: None, 2, first_order=2000)


def whole(lab: Any) -> Dataset:
    records: Dataset = lab.records(workers(lab), policies(lab), never(lab), host={"cpu": {"cpus": 4}})
    return records


def overview(records: Dataset) -> list[Finding]:
    return peak_text.findings(conclusion.together(records))


def test_every_sweep_has_its_row_with_best_value_plateau_and_law(lab: Any) -> None:
    (found,) = overview(whole(lab))
    rows = {row[0]: row for row in found.tables[0].rows}
    assert set(rows) == {"cpu", "policies (method int16)", "policies (method int64)", "ports"}
    cpu = dict(zip(found.tables[0].columns, rows["cpu"], strict=True))
    assert cpu["Best"].endswith(" workers")
    assert " k bogo ops/s (" in cpu["Value"] and " to " in cpu["Value"]
    assert cpu["Plateau"] == "from 4 workers (as many as processors)"
    assert cpu["Scaling law"].startswith("up to 4 workers: Amdahl")
    assert "Not measured: fifo (priority 99)" in rows["policies (method int16)"][1]
    assert rows["ports"][1] == "Nothing was measured: all 6 trials failed (the tool crashed)."
    assert found.statement == (
        "Best, or perhaps as good: 4 to 8 workers (cpu), other (policies, method int16) and other (policies, "
        "method int64). "
        "3 studies with 4 sweeps: the data identify a best value in 3 and a plateau in 1. "
        "1 of the plateaus begins at the number of this machine's processors (4). 1 sweep could not be measured."
    )
    json.dumps(found.as_dict(), allow_nan=False)


def test_the_answer_of_a_suite_says_why_the_growth_of_its_sweeps_ends(lab: Any) -> None:
    cpu, *others = conclusion.together(whole(lab))
    explained = replace(cpu, peak=replace(cpu.peak, explanation=Explanation(Cause.PROCESSORS, 3, 2, 4, (), {})))
    (found,) = peak_text.findings([explained, *others])
    assert str(found.statements[2]) == "Why growth ends: processors full in 1 sweep."


def test_machines_read_the_same_numbers_under_stable_names(lab: Any) -> None:
    (found,) = overview(whole(lab))
    cpu, *_ = found.statistics["sweeps"]
    assert cpu["study"] == "cpu" and cpu["response"] == RATE and cpu["plateau"] == [4, 8]
    assert cpu["interval"]["low"] < cpu["mean"] < cpu["interval"]["high"]
    assert cpu["best"] in cpu["not_worse"] and 0 < cpu["confidence"] <= 1


def test_one_study_and_studies_of_something_else_have_no_table(lab: Any) -> None:
    assert conclusion.together(lab.records(workers(lab))) == []
    other = lab.run(lab.study("other", factors={"bs": ["4k", "8k"]}), lambda *_: {"read.bw": 1e8}, 3, first_order=900)
    assert conclusion.together(lab.records(workers(lab), other)) == []


def test_the_summary_of_a_study_of_peaks_begins_with_its_best_value_and_plateau(lab: Any) -> None:
    records = whole(lab)
    (found,) = conclude_text.findings(conclusion.analyse(records, records.studies[0]))
    assert found.statements[:1] == conclude_text.opening(conclusion.focus(records, records.studies[0]))[:1]


def test_few_repetitions_have_a_number_that_would_do(lab: Any) -> None:
    rng = np.random.default_rng(3)
    made = study(lab, "noisy", {"workers": [1, 2, 4]})
    records = lab.records(lab.run(made, lambda p, _: {RATE: 1e3 * rng.lognormal(0, 0.05)}, 2))
    focus = conclusion.focus(records, made)
    assert focus is not None
    (one,) = focus.peaks["workers"]
    assert one.outcome == Outcome.UNDECIDED
    assert isinstance(one.needed, int) and one.needed > one.fewest == 2


def test_tools_that_claim_nothing_are_said_once_for_the_whole_run(lab: Any) -> None:
    from ioassay.records.observation import Observation

    records = lab.records(workers(lab), workers(lab, "again", seed=5))
    seen = {row["trial"]: Observation("bpf", "block", ("block",)) for row in records.trials.iter_rows(named=True)}
    found = [one for one in analyse_all(replace(records, observations=seen)) if one.question == "unclaimed"]
    assert len(found) == 1 and found[0].study == ""
    assert found[0].statistics["studies"] == ["cpu", "again"]


def test_every_listed_module_answers_for_the_run(lab: Any) -> None:
    import importlib

    for module in OVERALL.values():
        assert importlib.import_module(module).together(whole(lab)) is not None


@pytest.mark.parametrize("repetitions", [1, 2])
def test_poor_data_still_have_their_row(lab: Any, repetitions: int) -> None:
    made = study(lab, "poor", {"workers": [1, 2]})
    poor = lab.run(made, lambda p, _: {RATE: 1e3 * p["workers"]}, repetitions, first_order=5000)
    (found,) = overview(lab.records(workers(lab), poor))
    assert len(found.tables[0].rows) == 2
    json.dumps(found.as_dict(), allow_nan=False)
