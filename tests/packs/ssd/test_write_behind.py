"""Write-behind apart from the choice of victims, and hits next to their bound: every number by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ioassay.packs.ssd.questions import reductions_text, write_buffer
from ioassay.packs.ssd.questions.write_buffer import Ablation, HitBound

POLICIES = ("none", "lru", "idle-cold")
METRIC = "write.lat.mean"
MEANS = {
    ("lru", "off", "a"): 400.0,
    ("lru", "idle", "a"): 200.0,
    ("lru", "off", "b"): 400.0,
    ("lru", "idle", "b"): 100.0,
    ("idle-cold", "off", "a"): 300.0,
    ("idle-cold", "idle", "a"): 180.0,
    ("idle-cold", "off", "b"): 401.0,
    ("idle-cold", "idle", "b"): 100.4,
}
HITS = {"none": 0.0, "lru": 0.2, "idle-cold": 0.3}


def study(lab: Any, **factors: Any) -> Any:
    return lab.study(
        "mine",
        driver="simulate",
        case=[{"name": "a"}, {"name": "b"}],
        factors={"policy": list(POLICIES), **factors},
        responses=[METRIC],
        params={},
    )


def simulated(point: Mapping[str, Any], _: int) -> dict[str, float]:
    mean = MEANS.get((point["policy"], point.get("write_behind", "off"), point["case"]), 500.0)
    optimum = 0.4 if point["case"] == "a" else 0.5
    hits = HITS[point["policy"]] if point["case"] == "a" else 0.001 * (point["policy"] == "lru")
    return {METRIC: mean, "sim.span": 10.0, "sim.hit_ratio": hits, "sim.optimum_hit_ratio": optimum}


def answered(lab: Any, asked: Any, kind: type, measure: Any = simulated) -> Any:
    found = write_buffer.answers(lab.records(lab.run(asked, measure, 1)), asked)
    return [one for one in found if isinstance(one, kind)]


def test_write_behind_is_compared_within_each_policy(lab: Any) -> None:
    asked = study(lab, write_behind=["off", "idle"])
    (one,) = answered(lab, asked, Ablation)
    spread = one.spread("lru", "idle")
    assert spread is not None and vars(spread) == pytest.approx({"least": -0.75, "middle": -0.625, "most": -0.5})
    assert vars(one.spread("none", "idle"))["middle"] == 0
    # 401 against 400, and 100.4 against 100, are ties.
    assert one.leaders("off") == one.leaders("idle") == {("idle-cold",): 1, ("lru", "idle-cold"): 1}
    (finding,) = reductions_text.findings([one])
    assert (
        "Write-behind idle lowers the mean by 57 % (idle-cold) to 62 % (lru), medians of 2 conditions."
        in finding.statement
    )
    assert "With write-behind off, the mean is lowest with idle-cold in 1 of 2 conditions" in finding.statement
    assert list(finding.tables[0].columns)[:4] == ["case", "none, off", "none, idle", "lru, off"]
    assert list(finding.tables[0].rows[1])[3:5] == [400.0, 100.0]


def test_a_study_with_one_write_behind_is_no_ablation(lab: Any) -> None:
    for asked in (study(lab), study(lab, write_behind=["idle"])):
        assert answered(lab, asked, Ablation) == []


def test_hits_are_shares_of_what_is_possible(lab: Any) -> None:
    asked = study(lab)
    (one,) = answered(lab, asked, HitBound)
    assert one.policies == ["lru", "idle-cold"]
    a, b = one.places
    assert (a.share("lru"), a.share("idle-cold")) == pytest.approx((0.5, 0.75))
    # 0.2 % of the possible gain is no win.
    assert (a.most_hits, b.most_hits) == (("idle-cold",), ("lru", "idle-cold"))
    spread = one.spread("idle-cold")
    assert spread is not None and (spread.least, spread.most) == pytest.approx((0.0, 0.75))
    (finding,) = reductions_text.findings([one])
    said = " ".join(map(str, finding.details))
    assert "hits on 40 to 50 % of the written pages" in said
    assert "policies reach a median of 37 % (idle-cold) and 25 % (lru)." in said
    assert list(finding.tables[0].columns) == ["case", "offline optimum", "lru", "idle-cold"]


def test_trials_without_the_bound_have_no_answer(lab: Any) -> None:
    asked = study(lab)
    assert answered(lab, asked, HitBound, lambda point, _: {METRIC: 1.0, "sim.span": 1.0}) == []
