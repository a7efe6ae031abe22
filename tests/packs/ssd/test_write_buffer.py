"""Policies compared: every number by hand, published ones next to ours, saturated runs never as a mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ioassay.analysis import one_factor, published
from ioassay.analysis.one_factor import Outcome
from ioassay.narrative.finding import Finding, Table
from ioassay.packs.ssd.questions import reductions_text, write_buffer
from ioassay.packs.ssd.questions.write_buffer import Rank, Reductions, majority
from ioassay.study.model import Figure, Study

from ...narrative import golden

POLICIES = ("none", "lru", "epo", "idle-cold")
MEANS = {"none": 400.0, "lru": 320.0, "epo": 240.0, "idle-cold": 240.0}
PUBLISHED, ELEMENTS = "write-buffer-reductions", "write-buffer-elements"
METRIC = "write.lat.mean"


def asked(lab: Any, *, name: str = "mine", cases: tuple[str, ...] = (), **factors: Any) -> Study:
    return lab.study(
        name,
        driver="simulate",
        case=[{"name": case} for case in cases],
        factors={"policy": list(POLICIES), **factors},
        responses=[METRIC],
        params={},
    )


def answers(lab: Any, study: Study, measure: Any, repetitions: int = 1) -> list[Reductions]:
    """Of trials that simulated a drive, which have a span."""

    def simulated(point: Mapping[str, Any], repetition: int) -> Any:
        given = measure(point, repetition)
        return None if given is None else {"sim.span": 10.0, **given}

    return write_buffer.reductions(lab.records(lab.run(study, simulated, repetitions)), study)


def found(lab: Any, study: Study, measure: Any, repetitions: int = 1) -> list[Finding]:
    return reductions_text.findings(answers(lab, study, measure, repetitions))


def by_policy(point: Mapping[str, Any], _: int) -> dict[str, float]:
    return {METRIC: MEANS[point["policy"]]}


def rival(share: float) -> Any:
    """idle-cold's mean is epo's times `share`."""

    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        return {METRIC: 240.0 * share if point["policy"] == "idle-cold" else MEANS[point["policy"]]}

    return measure


def cells(table: Table, row: int = 0) -> dict[str, Any]:
    return dict(zip(table.columns, table.rows[row], strict=True))


def test_each_new_policy_is_compared_in_percent_with_each_other(lab: Any) -> None:
    (finding,) = found(lab, asked(lab), by_policy)
    means, epo = finding.tables
    assert cells(means) == MEANS
    assert cells(epo) == {
        "epo against none (%)": -40.0,
        "epo against lru (%)": -25.0,
        "epo against idle-cold (%)": 0.0,
    }
    assert finding.statistics["points"][0]["reductions"]["idle-cold"]["lru"] == pytest.approx(-0.25)
    assert finding.statistics["points"][0]["reductions"]["epo"]["none"] == pytest.approx(-0.4)


def test_the_median_and_the_extremes_are_over_conditions(lab: Any) -> None:
    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        share = {"4MiB": 1.0, "8MiB": 0.9, "16MiB": 0.7}[point["buffer"]]
        return {METRIC: MEANS[point["policy"]] * (share if point["policy"] == "epo" else 1)}

    (one,) = answers(lab, asked(lab, buffer=["4MiB", "8MiB", "16MiB"]), measure)
    spreads = one.spreads("epo")
    assert vars(spreads["none"]) == pytest.approx({"least": -0.58, "middle": -0.46, "most": -0.4})
    assert vars(spreads["lru"]) == pytest.approx({"least": -0.475, "middle": -0.325, "most": -0.25})
    assert [place.where["buffer"] for place in one.places] == ["4MiB", "8MiB", "16MiB"]
    assert one.ranked == ["none", "lru", "epo"] and one.leaders == {("epo",): 3}
    golden.check("reductions", reductions_text.findings([one]))


def test_policies_share_the_lowest_mean_where_none_has_it_alone(lab: Any) -> None:
    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        level = {1: 240.0, 2: 240.0, 3: 320.0}[point["page"]]
        return {METRIC: level if point["policy"] in ("epo", "idle-cold") else MEANS[point["policy"]]}

    study = asked(lab, page=[1, 2, 3])
    (one,) = answers(lab, study, measure)
    assert one.leaders == {("epo",): 2, ("lru", "epo"): 1}
    (sweep,) = one.sweeps
    assert (sweep.policy, sweep.levels, sweep.settles) == ("epo", [1, 2, 3], None)
    assert [round(change.middle, 3) for change in sweep.changes] == [0.0, 0.333]


def falling(share: float) -> Any:
    """Means of epo that are lower by `share` from 48 elements on."""

    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        lower = point["policy"] == "epo" and point["elements"] >= 48
        return {METRIC: MEANS[point["policy"]] * (1 - share if lower else 1)}

    return measure


def test_what_elements_change_stands_next_to_what_was_published(lab: Any) -> None:
    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        share = {"closed:32": 0.5, "closed:48": 0.664}[point["feed"]]
        saturated = point["case"] == "b" and point["elements"] == 64 and point["feed"] == "closed:48"
        return {**falling(share)(point, repetition), "sim.saturated": float(saturated)}

    study = asked(lab, name=ELEMENTS, cases=("a", "b"), feed=["closed:32", "closed:48"], elements=[8, 16, 32, 48, 64])
    *_, finding = found(lab, study, measure)
    assert finding.title == "Mean write total latency with epo by flash elements, here and published"
    (table,) = finding.tables
    assert list(table.columns) == [
        "case",
        "flash elements",
        "published (%)",
        "32 requests outstanding (%)",
        "48 requests outstanding (%)",
    ]
    assert table.rows == [
        ["a", "16 to 48", "-42.3, -66.1", -50.0, -66.4],
        ["b", "16 to 48", "-42.3, -66.1", -50.0, -66.4],
        ["a", "48 to 64", "0.0", 0.0, 0.0],
        ["b", "48 to 64", "0.0", 0.0, "saturated"],
    ]
    assert "changes by -66.4 % to -50.0 % in 4 conditions." in finding.statement
    assert "Published are -42.3 % and -66.1 %, not reproduced: -42.3 %." in finding.statement
    assert "changes by 0.0 % in 3 conditions. Published is no change, within this range." in finding.statement
    assert any("MSST 2011" in caveat for caveat in finding.caveats)


def test_a_published_rise_is_counted_by_condition(lab: Any) -> None:
    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        rises = {"a": 2.0, "b": 1.001, "c": 0.5}[point["case"]] if point["page"] == "4KiB" else 1.0
        return {**by_policy(point, repetition), "write.bw": 1e6 * rises}

    study = asked(lab, name="write-buffer-page", cases=("a", "b", "c"), page=["1KiB", "2KiB", "4KiB"])
    *_, finding = found(lab, study, measure)
    assert finding.response == "write.bw"
    assert [row[-3:] for row in finding.tables[0].rows] == [
        ["1 to 4 KiB", "higher", 100.0],
        ["1 to 4 KiB", "higher", 0.1],
        ["1 to 4 KiB", "higher", -50.0],
    ]
    assert "write bandwidth with epo is higher in 1 and lower in 1 of 3 conditions; published is higher." in (
        finding.statement
    )


def test_levels_that_the_study_lacks_have_no_published_change(lab: Any) -> None:
    study = asked(lab, name=ELEMENTS, cases=("a",), elements=[8, 16])
    assert len(found(lab, study, falling(0.5))) == 1


def test_no_published_reading_contradicts_the_published_table() -> None:
    """BPLRU's factors there are those of the table; no arrival mode of ours is claimed to reproduce them."""
    known: Any = published("trace", PUBLISHED)
    reductions = [trace["reductions"] for trace in known["trace"]]
    factors = [1 / (1 + against["bplru-padded"] / 100) for against in reductions]
    assert [round(factor, 1) for factor in factors[:2]] == [1.8, 2.0] and factors[2] == pytest.approx(122.9, rel=0.02)
    assert not any("BPLRU" in sentence for sentence in known["reading"])
    assert set(known["reasons"]) == {policy for against in reductions for policy in against}
    assert all(-100 < share < 0 for against in reductions for share in against.values())


@pytest.mark.parametrize(
    ("share", "rank"),
    [
        (0.9, Rank.BETTER),
        (1.004, Rank.EVEN),
        (1.1, Rank.WORSE),
    ],
)
def test_the_rival_is_better_even_or_worse(lab: Any, share: float, rank: Rank) -> None:
    (one,) = answers(lab, asked(lab), rival(share))
    assert one.ranks("idle-cold", "epo") == {rank: 1}


def test_zero_has_no_sign(lab: Any) -> None:
    (finding,) = found(lab, asked(lab), rival(1.00001))
    assert "median difference is 0.0 %" in finding.statement
    assert str(cells(finding.tables[1])["epo against idle-cold (%)"]) == "0.0"


def test_a_few_wins_among_many_even_conditions_are_no_victory(lab: Any) -> None:
    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        return rival(0.9 if point["page"] == 1 else 1.0)(point, repetition)

    (one,) = answers(lab, asked(lab, page=[1, 2, 4]), measure)
    ranks = one.ranks("idle-cold", "epo")
    assert ranks == {Rank.BETTER: 1, Rank.EVEN: 2} and majority(ranks) == Rank.EVEN


def test_each_arrival_mode_is_a_finding_of_its_own(lab: Any) -> None:
    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        return {METRIC: 250.0 if point["feed"] == "open" else MEANS[point["policy"]]}

    feeds = ["open", "closed:32", "scaled:0.5"]
    still, busy, _ = found(lab, asked(lab, feed=feeds), measure)
    assert (still.where, busy.where) == ({"feed": "open"}, {"feed": "closed:32"})
    assert cells(still.tables[1])["epo against none (%)"] == 0.0
    assert cells(busy.tables[1])["epo against none (%)"] == -40.0
    assert "feed" not in busy.tables[0].columns


def test_a_saturated_run_has_no_mean(lab: Any) -> None:
    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        saturated = point["policy"] == "none" and point["rate"] == 2
        return {METRIC: 9e9 if saturated else MEANS[point["policy"]], "sim.saturated": float(saturated)}

    (finding,) = found(lab, asked(lab, rate=[1, 2]), measure)
    means, epo = finding.tables
    assert [cells(means, row)["none"] for row in (0, 1)] == [400.0, "saturated"]
    assert [cells(epo, row)["epo against none (%)"] for row in (0, 1)] == [-40.0, "saturated"]
    assert cells(epo, 1)["epo against lru (%)"] == -25.0
    assert finding.statistics["points"][1]["means"]["none"] is None
    (one,) = answers(lab, asked(lab, rate=[1, 2]), measure)
    assert vars(one.spreads("epo")["none"])["least"] == pytest.approx(-0.4)  # of the one condition that has a mean
    assert one.saturated == {"none": 1}


def test_a_run_that_saturates_in_one_repetition_has_no_mean_either(lab: Any) -> None:
    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        return {METRIC: MEANS[point["policy"]], "sim.saturated": float(point["policy"] == "lru" and repetition == 1)}

    (finding,) = found(lab, asked(lab), measure, repetitions=3)
    assert cells(finding.tables[0])["lru"] == "saturated"


def test_a_policy_that_never_has_a_mean_is_still_named(lab: Any) -> None:
    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        if point["policy"] == "lru":
            return {"sim.saturated": 1.0}
        return {METRIC: MEANS[point["policy"]], "sim.saturated": 0.0}

    (finding,) = found(lab, asked(lab), measure)
    assert cells(finding.tables[0])["lru"] == "saturated"


def test_skipped_trials_are_left_out(lab: Any) -> None:
    study = asked(lab, cases=("here", "absent"))
    rows = lab.run(study, lambda *point: {"sim.span": 10.0, **by_policy(*point)}, 1)
    for row in rows.trials:
        if row["case"] == "absent":
            row["status"] = "skipped"
    (one,) = write_buffer.reductions(lab.records(rows), study)
    assert [place.where["case"] for place in one.places] == ["here"]


def test_a_study_whose_trials_all_failed_has_no_finding(lab: Any) -> None:
    assert found(lab, asked(lab), lambda *_: None) == []


def test_one_policy_alone_is_compared_with_nothing(lab: Any) -> None:
    assert found(lab, asked(lab), lambda point, _: {METRIC: 1.0} if point["policy"] == "epo" else None) == []


def test_a_missing_mean_of_one_policy_leaves_its_cells_empty(lab: Any) -> None:
    (finding,) = found(
        lab,
        asked(lab, page=[1, 2]),
        lambda point, _: None if point == {"policy": "lru", "page": 2} else by_policy(point, 0),
    )
    assert cells(finding.tables[0], 1)["lru"] is None
    assert cells(finding.tables[1], 1)["epo against lru (%)"] is None


def test_repetitions_have_a_trace_each_and_give_an_interval(lab: Any) -> None:
    """Traces differ by a factor of two; the policies differ alike on each, which passes as blocks show."""

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        noise = 1 + 0.01 * ((repetition + POLICIES.index(point["policy"])) % 3)
        return {METRIC: (1.0, 1.5, 2.0)[repetition] * noise * MEANS[point["policy"]]}

    (one,) = answers(lab, asked(lab), measure, repetitions=3)
    (place,) = one.places
    reduction = place.reduction("epo", "lru")
    assert reduction is not None and reduction.low is not None and reduction.high is not None
    assert reduction.low < -0.25 < reduction.high < -0.2
    assert place.rank("epo", "lru") == Rank.BETTER and one.ranks("idle-cold", "epo") == {Rank.UNDECIDED: 1}
    assert (one.exact, one.leaders) == (False, {("epo",): 1})
    assert "The data do not show it in 1." in found(lab, asked(lab), measure, 3)[0].statement


def test_no_order_is_claimed_of_traces_that_disagree(lab: Any) -> None:
    random = np.random.default_rng(4)

    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        return {METRIC: 300.0 * random.lognormal(0, 0.3)}

    (one,) = answers(lab, asked(lab), measure, repetitions=3)
    assert one.leaders == {("none", "lru", "epo"): 1} and one.undecided == 3
    assert "The data do not show a difference in 3 comparisons." in reductions_text.findings([one])[0].statement
    assert one.ranks("idle-cold", "epo") == {Rank.UNDECIDED: 1}
    study = asked(lab)
    (effects,) = one_factor.effects(lab.records(lab.run(study, measure, 3)), study, METRIC)
    assert effects.effects[0].outcome == Outcome.UNDECIDED


def test_published_reductions_stand_next_to_both_arrival_modes(lab: Any) -> None:
    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        mean = MEANS["none"] if point["feed"] == "open" else MEANS[point["policy"]]
        return {METRIC: mean, "sim.utilisation": 0.003 if point["feed"] == "open" else 1.0}

    study = asked(lab, name=PUBLISHED, cases=("Financial1-like", "another"), feed=["open", "closed:32"])
    *others, finding = found(lab, study, measure)
    assert len(others) == 2
    (table,) = finding.tables
    assert table.rows == [
        ["Financial1-like", "none", -38.9, 0.0, -40.0, ""],
        ["Financial1-like", "lru", -33.1, 0.0, -25.0, ""],
    ]
    assert list(table.columns)[:5] == [
        "trace",
        "epo against",
        "published (%)",
        "at the original time stamps (%)",
        "32 requests outstanding (%)",
    ]
    assert any("MSST 2011" in caveat for caveat in finding.caveats)
    golden.check("reductions_published", [finding])


def test_the_slip_in_the_published_table_has_a_note(lab: Any) -> None:
    study = asked(lab, name=PUBLISHED, cases=("TPC-C-like",), feed=["closed:32"])
    study.factors["policy"] = ["bplru-padded", "epo"]
    _, finding = found(lab, study, lambda point, _: {METRIC: 1.0 if point["policy"] == "epo" else 20.0})
    ((case, other, published, ours, note),) = finding.tables[0].rows
    assert (case, other, published, ours) == ("TPC-C-like", "bplru-padded", -99.2, -95.0)
    assert "-99.9, a slip" in note


def test_a_saturated_run_next_to_a_published_number_has_no_mean(lab: Any) -> None:
    def measure(point: Mapping[str, Any], _: int) -> dict[str, float]:
        return {METRIC: MEANS[point["policy"]], "sim.saturated": float(point["policy"] == "none")}

    _, finding = found(lab, asked(lab, name=PUBLISHED, cases=("TPC-C",), feed=["open"]), measure)
    assert finding.tables[0].rows[0] == ["TPC-C", "none", -42.3, "saturated", ""]


def test_a_study_of_ones_own_has_no_published_column(lab: Any) -> None:
    findings = found(lab, asked(lab, name="mine", cases=("Financial1",), feed=["open"]), by_policy)
    assert len(findings) == 1
    assert not any("published" in column for table in findings[0].tables for column in table.columns)


def test_traces_that_nobody_published_of_have_no_published_table(lab: Any) -> None:
    findings = found(lab, asked(lab, name=PUBLISHED, cases=("my disk",), feed=["open"]), by_policy)
    assert len(findings) == 1


def test_a_study_without_policies_gives_nothing(lab: Any) -> None:
    study = lab.study(driver="simulate", factors={"buffer": ["4MiB", "8MiB"]}, responses=[METRIC])
    assert found(lab, study, lambda *_: {METRIC: 1.0}) == []


def test_trials_that_simulated_no_drive_give_nothing(lab: Any) -> None:
    study = asked(lab)
    assert write_buffer.reductions(lab.records(lab.run(study, by_policy, 1)), study) == []


def test_a_study_without_a_mean_latency_gives_nothing(lab: Any) -> None:
    assert found(lab, asked(lab), lambda *_: {"write.bw": 1.0}) == []


def test_absorbed_writes_are_in_no_mean_of_reshaped_traces(lab: Any) -> None:
    inline = asked(lab).model_copy(update={"params": {"mode": "inline"}})
    (reshaped,), (inside,) = answers(lab, asked(lab), by_policy), answers(lab, inline, by_policy)
    assert (reshaped.absorbs, inside.absorbs) == (True, False)


def test_the_first_answer_is_of_the_feed_that_the_first_figure_shows_and_every_sentence_names_its_own(lab: Any) -> None:
    figure = {"kind": "lines", "name": "drawn", "x": "feed", "y": METRIC, "where": {"feed": "closed:32"}}
    study = asked(lab, feed=["open", "closed:32"]).model_copy(update={"figures": [Figure(**figure)]})
    first, second = found(lab, study, by_policy)
    for finding, words in ((first, "With 32 requests outstanding, "), (second, "At the original time stamps, ")):
        assert all(str(sentence).startswith(words) for sentence in finding.statements)
