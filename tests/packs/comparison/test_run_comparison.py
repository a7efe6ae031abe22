"""Two runs compared: verdicts, error rates, what only one of them has."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ioassay.analysis.condition_comparison import Verdict
from ioassay.packs.comparison import comparison_text, run_comparison
from ioassay.packs.comparison.run_comparison import PROGRAMS, Difference, Unmatched, compare, loss
from ioassay.stats.result import Undefined

from .compared_runs import in_turns


def run(
    lab: Any, seed: int, factor: float = 1.0, noise: float = 0.01, n: int = 8, study: Any = None, **keys: Any
) -> Any:
    rng = np.random.default_rng(seed)
    study = study or lab.study(factors={"bs": ["4KiB", "64KiB"]}, responses=["read.bw", "read.lat.p99"], **keys)

    def measure(point: Any, _: int) -> dict[str, float]:
        level = 1e8 if point.get("bs") == "4KiB" else 5e8
        return {
            "read.bw": factor * level * rng.lognormal(0, noise),
            "read.lat.p99": 1e5 / factor * rng.lognormal(0, noise),
        }

    return lab.records(lab.run(study, measure, n))


def verdicts(found: Any) -> set[str]:
    return {row.verdict for row in found.rows}


def test_the_same_run_is_the_same(lab: Any) -> None:
    found = compare(run(lab, 1), run(lab, 2))
    assert verdicts(found) == {Verdict.SAME}
    assert not found.regression
    assert found.counts == {"same": 4}


def test_a_slower_run_is_slower_in_bandwidth_and_in_latency(lab: Any) -> None:
    found = compare(*in_turns(run(lab, 1), run(lab, 2, factor=0.8)))
    assert verdicts(found) == {Verdict.SLOWER}
    assert found.regression
    row = next(row for row in found.rows if row.response == "read.lat.p99")
    assert row.ratio.ratio == pytest.approx(1.25, rel=0.03)
    assert (
        found.counts == {"slower": 4}
        and found.worst is not None
        and loss(found.worst) == max(loss(row) for row in found.rows)
    )


def test_a_faster_run_is_no_regression(lab: Any) -> None:
    found = compare(*in_turns(run(lab, 1), run(lab, 2, factor=1.3)))
    assert verdicts(found) == {Verdict.FASTER} and not found.regression


def test_noise_leaves_it_undecided(lab: Any) -> None:
    found = compare(run(lab, 1, noise=0.3, n=3), run(lab, 2, noise=0.3, n=3, factor=0.97))
    assert verdicts(found) == {Verdict.UNDECIDED}


def test_a_real_difference_within_the_margin_is_the_same(lab: Any) -> None:
    runs = in_turns(run(lab, 1, noise=0.001), run(lab, 2, noise=0.001, factor=0.98))
    found = compare(*runs, margin=0.05)
    assert verdicts(found) == {Verdict.SAME}
    assert max(row.p_adjusted for row in found.rows) < 1e-6
    assert verdicts(compare(*runs, margin=0.01)) == {Verdict.SLOWER}


def test_a_response_without_a_better_direction_changes(lab: Any) -> None:
    study = lab.study(responses=["cpu.usr"])
    a, b = (
        lab.records(lab.run(study, lambda _, r, level=level: {"cpu.usr": level + 0.1 * r}, 6)) for level in (20.0, 40.0)
    )
    found = compare(*in_turns(a, b))
    assert verdicts(found) == {Verdict.CHANGED} and not found.regression


def test_a_lower_hit_ratio_is_changed_and_fails_no_job(lab: Any) -> None:
    study = lab.study(responses=["sim.hit_ratio", "write.lat.mean"], driver="simulate")
    a, b = (
        lab.records(lab.run(study, lambda *_, one=one: {"sim.hit_ratio": one, "write.lat.mean": 3e5}, 3))
        for one in (0.28, 0.16)
    )
    found = compare(a, b)
    assert verdicts(found) == {Verdict.CHANGED, Verdict.SAME} and not found.regression


def test_single_repetitions_are_undecided_because_of_that(lab: Any) -> None:
    found = compare(run(lab, 1, n=1), run(lab, 2, n=8))
    assert verdicts(found) == {Verdict.UNDECIDED}
    ratio = found.rows[0].ratio
    assert isinstance(ratio, Undefined) and "one repetition only" in ratio.reason


def test_deterministic_runs_compare_exactly(lab: Any) -> None:
    study = lab.study(responses=["value"], driver="simulate")
    first, same, worse = (
        lab.records(lab.run(study, lambda *_, level=level: {"value": level}, 3)) for level in (10.0, 10.0, 8.0)
    )
    assert verdicts(compare(first, same)) == {Verdict.SAME}
    assert verdicts(compare(first, worse)) == {Verdict.SLOWER}


def test_conditions_and_studies_of_one_run_only_are_listed(lab: Any) -> None:
    wide = lab.study(factors={"bs": ["4KiB", "64KiB", "1MiB"]}, responses=["read.bw"])
    narrow = lab.study(factors={"bs": ["4KiB", "64KiB", "16KiB"]}, responses=["read.bw"])
    other = lab.study("other")
    extra = lab.run(other, lambda *_: {"read.bw": 1.0}, 2, first_order=100)
    a = lab.records(lab.run(wide, lambda p, r: {"read.bw": 1.0 + r}, 3), extra)
    found = compare(a, run(lab, 2, study=narrow, n=3))
    assert found.only_a == (Unmatched("study", "bs=1MiB", "read.bw"), Unmatched("other"))
    assert found.only_b == (Unmatched("study", "bs=16KiB", "read.bw"),)
    assert len(found.rows) == 2


def test_different_settings_and_hosts_are_listed(lab: Any) -> None:
    a = run(lab, 1, params={"direct": 1, "iodepth": 1})
    b = run(lab, 2, params={"direct": 1, "iodepth": 32}, description="another text")
    object.__setattr__(b, "host", {"kernel": {"release": "7.0"}})
    found = compare(a, b)
    assert found.differences == (
        Difference("study", "params.iodepth", 1, 32),
        Difference("host", "kernel.release", None, "7.0"),
    )


def test_facts_are_compared_host_by_host(lab: Any) -> None:
    def records(hosts: list[str], **facts: dict[str, Any]) -> Any:
        study = lab.study(run={"hosts": hosts})
        found = lab.records(lab.run(study, lambda *_: {"read.bw": 1e8}, 3), host={"cpu": {"model": "desk"}})
        return replace(found, host={**found.host, "hosts": facts})

    old, new = {"cpu": {"model": "old"}}, {"cpu": {"model": "new"}}
    compared = compare(records(["a", "b"], a=old, b=old), records(["a", "b"], a=old, b=new))
    (found,) = compared.differences
    assert (found.host, found.name, found.a, found.b) == ("b", "cpu.model", "old", "new")
    (apart,) = compare(records(["a"], a=old), records(["c"], c=old)).differences
    assert (apart.subject, apart.a, apart.b) == ("hosts", ["a"], ["c"])
    (moved,) = compare(run(lab, 1), records(["c"], c=old)).differences[-1:]
    assert (moved.subject, moved.a, moved.b) == ("hosts", [], ["c"])


def test_versions_of_tools_are_compared_where_both_are_known(lab: Any) -> None:
    hosts = ({"stress-ng": "0.15", "fio": "fio-3.33"}, {"stress-ng": "0.17", "db_bench": "7.8"})
    a, b = (replace(run(lab, 1), host={"tools": tools}) for tools in hosts)
    assert compare(a, b).differences == (Difference("host", "tools.stress-ng", "0.15", "0.17"),)


def test_two_builds_of_a_tool_are_listed_with_their_paths(lab: Any) -> None:
    hosts = (
        {"fio": "fio-3.33", "db_bench": "db_bench version 7.8.3"},
        {"fio": "fio-3.33", "/opt/new": "new version 7.8.3"},
    )
    a, b = (replace(run(lab, 1), host={"tools": tools}) for tools in hosts)
    assert compare(a, b).differences == (replace(PROGRAMS, a=["db_bench"], b=["/opt/new"]),)


def test_levels_match_whatever_their_spelling(lab: Any) -> None:
    study = lab.study(factors={"numjobs": [1, 2]})
    words = lab.study(factors={"numjobs": ["1", "2"]})
    a, b = (lab.records(lab.run(one, lambda _, r: {"read.bw": 10.0 + r}, 4)) for one in (study, words))
    assert len(compare(a, b).rows) == 2


def test_many_comparisons_of_equal_runs_rarely_cry_regression(lab: Any) -> None:
    """Twenty equal conditions: unadjusted, six runs of ten would show a false difference."""
    false = 0
    for seed in range(40):
        draw = np.random.default_rng(seed).normal
        study = lab.study(factors={"n": list(range(20))}, responses=["read.bw"])
        a, b = (lab.records(lab.run(study, lambda *_, draw=draw: {"read.bw": draw(100, 8)}, 5)) for _ in range(2))
        false += bool({Verdict.SLOWER, Verdict.FASTER} & verdicts(compare(a, b)))
    assert false <= 6


def test_the_result_is_plain_json(lab: Any) -> None:
    found = comparison_text.as_dict(compare(*in_turns(run(lab, 1), run(lab, 2, factor=0.5))))
    text = json.loads(json.dumps(found, allow_nan=False))
    assert text["regression"] is True and text["rows"][0]["verdict"] == "slower"
    assert text["rows"][0]["ratio"]["interval"]["low"] < 0.5 < text["rows"][0]["ratio"]["interval"]["high"]


def test_runs_without_anything_in_common_have_no_rows(lab: Any) -> None:
    a, b = lab.study("a"), lab.study("b")
    found = compare(*(lab.records(lab.run(one, lambda *_: {"read.bw": 1.0}, 2)) for one in (a, b)))
    assert found.rows == () and found.worst is None


def test_drives_without_an_identity_are_no_other_drives(lab: Any) -> None:
    def host(*devices: Any) -> dict[str, Any]:
        return {"identity": {"key": "k"}, "disk": {"devices": devices}}

    hosts = [host({"identity": "a"}), host({"identity": "b"}), host({"name": "sda"}), host("sda", None)]
    found = [[*run_comparison._fact_differences(hosts[0], one)] for one in hosts]
    assert found == [[], [run_comparison.DRIVES], [], []]


def test_results_are_worst_first_and_rows_in_another_unit_are_with_theirs(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4KiB", "64KiB"]}, responses=["read.iops", "read.bw", "read.lat.p99"])

    def records(seed: int, slow: float) -> Any:
        rng = np.random.default_rng(seed)

        def measure(point: Any, _: int) -> dict[str, float]:
            speed = (slow if point["bs"] == "4KiB" else 1.2) * rng.lognormal(0, 0.005)
            return {"read.iops": 1e4 * speed, "read.bw": 4096e4 * speed, "read.lat.p99": 1e5 * rng.lognormal(0, 0.005)}

        return lab.records(lab.run(study, measure, 8))

    found = compare(*in_turns(records(1, 1.2), records(2, 0.6)))
    assert [(group[0].label, [row.response for row in group], group[0].verdict) for group in found.results] == [
        ("bs=4KiB", ["read.iops", "read.bw"], Verdict.SLOWER),
        *((f"bs={size}", names, Verdict.SAME) for size, names in _by_loss(found)),
    ]


def _by_loss(found: Any) -> list[tuple[str, list[str]]]:
    """The rows that are the same, the largest loss first."""
    same = [row for row in found.rows if row.verdict == Verdict.SAME and row.response != "read.bw"]
    pairs = {"read.iops": ["read.iops", "read.bw"], "read.lat.p99": ["read.lat.p99"]}
    ordered = sorted(same, key=lambda row: -loss(row))
    return [(row.label.removeprefix("bs="), pairs[row.response]) for row in ordered]


def test_the_name_of_a_file_that_a_run_removes_is_no_condition_and_its_folder_is(lab: Any) -> None:
    def records(path: str, keep: bool) -> Any:
        target = {"kind": "file", "path": path, "size": "1MiB", "keep": keep}
        return run(lab, 1, study=lab.study(factors={"bs": ["4KiB"]}, responses=["read.bw"], target=target))

    assert compare(records("/a/quick-1", False), records("/a/quick-2", False)).differences == ()
    (folder,) = compare(records("/a/quick-1", False), records("/b/quick-1", False)).differences
    assert (folder.name, folder.a, folder.b) == ("target.path", "/a", "/b")
    (kept,) = compare(records("/a/1", True), records("/a/2", True)).differences
    assert (kept.name, kept.a, kept.b) == ("target.path", "/a/1", "/a/2")
