"""What a simulation says: numbers of tiny traces by hand and of shipped ones, warnings, tables, files, and samples.

A page write takes its element 0.3056 ms (0.1056 over the pins, 0.2 to program); a page crosses the channel in
0.0019072. Page p lies on element p modulo their number.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ioassay
from ioassay.errors import InputError, UsageError
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.simulator import Simulation, check, policies, save, simulate
from ioassay.packs.ssd.simulator.results import file_names
from ioassay.simulation import traces

from ...corpora import cases, rows

TINY = {"elements": 1, "dies": 1, "planes": 1, "blocks": 32, "reserve": 0.5, "min_free": 0.05}
WRITE_MS, CHANNEL_MS = 0.3056, 0.0019072


def run(trace: Any, **options: Any) -> Simulation:
    return simulate(trace, format=None if isinstance(trace, dict) else "disksim", **options)


def codes(done: Simulation) -> list[str]:
    return [warning.code for warning in done.warnings]


def random_writes(requests: int) -> list[tuple[float, int, int]]:
    chance = random.Random(1)
    return [(time_ms, chance.randrange(check(TINY)["pages"]) * 8, 8) for time_ms in range(requests)]


def test_two_writes_to_one_element(lines: Any) -> None:
    found = run(lines((0, 0, 8), (0, 48 * 8, 8))).summary
    first, second = CHANNEL_MS + WRITE_MS, CHANNEL_MS + 2 * WRITE_MS
    assert found["requests"] == found["issued"] == 2 and found["unfinished"] == 0
    assert found["mean_response_ms"] == pytest.approx((first + second) / 2, rel=1e-9)
    assert found["max_ms"] == pytest.approx(second, abs=1e-6)
    assert found["p50_ms"] == pytest.approx((first + second) / 2, rel=5e-4)
    assert found["simulated_s"] == pytest.approx(second / 1000)
    assert found["throughput_mb_s"] == pytest.approx(2 * 4096 / 1e6 / (second / 1000))
    assert found["iops"] == pytest.approx(2 / (second / 1000))
    assert found["mean_utilisation"] == pytest.approx(2 * WRITE_MS / second / 48)
    assert (found["write_amplification"], found["written_pages"]) == (1.0, 2)
    assert (found["cleanings"], found["erases"], found["moved_pages"], found["dead_blocks"]) == (0, 0, 0, 0)
    assert found["wall_s"] > 0 and found["saturated"] is False and found["steady"] is True


@cases("simulator", "outcomes")
def test_numbers_and_warnings_of_tiny_traces(lines: Any, case: dict[str, Any]) -> None:
    prepare = traces.preparation(**case["prepare"]) if "prepare" in case else None
    done = run(lines(*case["lines"]), prepare=prepare, **case.get("options", {}))
    for name, value in case.get("summary", {}).items():
        assert done.summary[name] == (None if value == "none" else pytest.approx(value, rel=1e-6)), name
    for kind, count in case.get("counts", {}).items():
        assert done.response(kind).count == count
    assert codes(done) == case.get("codes", codes(done))
    assert done.nothing == case.get("nothing", done.nothing)
    remedy = (done.warnings[0].remedy or "") if done.warnings else ""
    assert case.get("remedy", "") in remedy


def test_cleaning_is_counted(lines: Any) -> None:
    done = run(lines(*random_writes(4000)), endurance=0, **TINY)
    found = done.summary
    assert found["cleanings"] == found["erases"] > 10 and found["moved_pages"] > 0
    assert found["write_amplification"] == pytest.approx(1 + found["moved_pages"] / 4000)
    assert found["most_element_erases"] == found["least_element_erases"] == found["erases"]
    assert "never-cleaned" not in codes(done)


def test_tables_add_up_to_the_summary(lines: Any) -> None:
    done = run(lines(*random_writes(4000)), endurance=0, slices=50, **TINY)
    found, series, elements = done.summary, done.series, done.elements
    assert series.height <= 50 and elements.height == 1
    assert series["completed"].sum() == series["issued"].sum() == found["requests"]
    for name in ("written_pages", "moved_pages", "cleanings", "erases"):
        assert series[name].sum() == elements[name].sum() == found[name], name
    assert done.utilisation.height == series.height
    assert elements["utilisation"][0] == pytest.approx(found["mean_utilisation"])
    response_ms = (series["mean_response_ms"] * series["completed"]).sum() / found["requests"]
    assert response_ms == pytest.approx(found["mean_response_ms"])


def test_a_preconditioned_drive_has_cleaned() -> None:
    recipe = traces.recipe(requests=2000, range="1MiB", arrivals="poisson:100")
    done = run(recipe, precondition=1, endurance=0, **TINY)
    settled = done.raw["preconditioned"]["write_amplification"][-1]
    assert settled > 1.1 and done.raw["preconditioned"]["settled"]
    assert "never-cleaned" not in codes(done) and done.summary["write_amplification"] > 1.1


def test_saturation_is_said_with_what_to_do() -> None:
    recipe = traces.recipe(requests=100_000, arrivals="poisson:60000")
    done = run(recipe)
    assert done.summary["saturated"] and not done.summary["steady"]
    warning = done.warnings[0]
    assert warning.code == "saturated" and "piled up" in warning.text and "closed:32" in (warning.remedy or "")
    given_up = run(recipe, max_outstanding=10_000)
    assert "given up with 10 k requests outstanding" in given_up.warnings[0].text
    assert given_up.summary["unfinished"] > 10_000
    assert not run(recipe, feed="closed:32").summary["saturated"]
    assert not run(recipe, feed="scaled:2").summary["saturated"]


def test_a_load_that_changes_is_not_steady(lines: Any) -> None:
    singly = [(float(index), index % 48 * 8, 8) for index in range(1000)]
    by_four = [(1000 + index // 4 * 4.0, index // 4 % 48 * 8, 8) for index in range(1000)]
    done = run(lines(*singly, *by_four))
    assert done.summary["saturated"] is False and codes(done)[0] == "unsteady"
    assert "0.3075 ms in the first half" in done.warnings[0].text


def test_blocks_wear_out(lines: Any) -> None:
    done = run(lines(*random_writes(2300)), endurance=2, **TINY)
    assert done.summary["dead_blocks"] > 0 and "worn-out" in codes(done)


def test_the_first_none_are_refused() -> None:
    with pytest.raises(UsageError, match="first is 0, expected at least 1"):
        traces.preparation(first=0)


GOLDEN = rows("simulator", "golden_counts")
SMALL = {"elements": 4, "blocks": 64, "pages_per_block": 16, "endurance": 0, "buffer": "256KiB"}
"""A drive that the traces make clean, and a buffer that they overflow."""


@cases("simulator", "golden_counts")
def test_counts_are_exact(case: dict[str, Any]) -> None:
    """A change of one of them is a change of what is simulated."""
    prepare = {"page_bytes": 4096, "offsets": "down", "sizes": "round-out", "shrink_to_bytes": 64 << 20}
    padding = {"padding": True} if case["policy"] == "bplru" else {}
    options = {**SMALL, **padding, "policy": case["policy"], "mode": case["mode"]}
    raw = simulate(case["trace"], prepare=prepare, **options).raw
    for part in ("tally", "drive"):
        assert {name: raw[part][name] for name in case[part]} == case[part]
    assert raw["all"]["mean_response_ps"] == pytest.approx(case["mean_ps"], rel=1e-12)


def test_all_policies_have_their_counts() -> None:
    assert {policy["name"] for policy in policies()} == {case["policy"] for case in GOLDEN}


FEW = traces.recipe(requests=500)


@pytest.mark.parametrize("csv", [False, True])
def test_tables_and_summary_come_back(tmp_path: Path, csv: bool) -> None:
    done = simulate(FEW)
    folder = tmp_path / "new" / "out"
    written = save(done, folder, {"mean_response_ms": 0.5}, csv=csv)
    assert sorted(written) == sorted(folder.iterdir()) and [path.name for path in written] == file_names(csv)
    read = pl.read_csv if csv else pl.read_parquet
    for table in ("series", "elements", "utilisation"):
        found = read(folder / f"{table}.{'csv' if csv else 'parquet'}")
        assert found.shape == getattr(done, table).shape and found.columns == getattr(done, table).columns
    assert json.loads((folder / "summary.json").read_text()) == {"mean_response_ms": 0.5}


def test_files_are_replaced_only_by_force(tmp_path: Path) -> None:
    done = simulate(FEW)
    (tmp_path / "other").write_text("stays")
    save(done, tmp_path, {"run": 1})
    with pytest.raises(UsageError, match="summary.json exists; --force replaces it"):
        save(done, tmp_path, {"run": 2})
    save(done, tmp_path, {"run": 3}, force=True)
    assert json.loads((tmp_path / "summary.json").read_text()) == {"run": 3}
    assert (tmp_path / "other").read_text() == "stays"
    with pytest.raises(UsageError, match="is a file, expected a folder"):
        save(done, tmp_path / "other", {})


# Hit ratios from a sample of a trace's pages: near those of whole simulations, within their errors


RECIPE = traces.recipe(requests=200_000, reads=0.3, addresses="zipf:0.8", range="2GiB", seed=5)
POLICIES = ("fifo", "lru", "clock", "epo", "fab", "bplru")


def exact(trace: Any, **options: Any) -> tuple[float, float]:
    """The hit ratio of a whole simulation, and of the offline optimum."""
    done = ioassay.simulate(trace, feed="closed:8", window=None, **options)
    return done.summary["hit_ratio"], simulator.offline_optimum(trace, **options).hit_ratio


@pytest.mark.parametrize("policy", POLICIES)
def test_samples_of_a_made_trace_are_near(policy: str) -> None:
    runs = [{"policy": policy, "buffer": buffer} for buffer in ("64MiB", "256MiB")]
    sampled = simulator.sampled_hits(RECIPE, runs, 0.1)
    for options, found in zip(runs, sampled, strict=True):
        ratio, optimum = exact(RECIPE, **options)
        for estimate, whole in ((found.hit_ratio, ratio), (found.optimum, optimum)):
            assert estimate.error is not None and estimate.error < 0.1
            assert abs(estimate.value - whole) <= estimate.error, (options, estimate, whole)
        assert found.sampled_pages < 0.15 * (found.written_pages + found.read_pages)


@pytest.mark.parametrize("trace", sorted(traces.shipped()))
def test_samples_of_shipped_traces_are_within_their_errors(trace: str) -> None:
    prepare = traces.preparation(shrink="8GiB")
    runs = [{"policy": policy, "buffer": "8MiB"} for policy in ("lru", "epo")]
    for options, found in zip(runs, simulator.sampled_hits(trace, runs, 0.5, prepare=prepare), strict=True):
        whole = ioassay.simulate(trace, prepare=prepare, feed="closed:8", window=None, **options).summary["hit_ratio"]
        assert found.hit_ratio.error is not None
        assert abs(found.hit_ratio.value - whole) <= 1.5 * found.hit_ratio.error, (trace, found.hit_ratio, whole)


def test_a_rate_of_one_is_exact() -> None:
    (found,) = simulator.sampled_hits(RECIPE, [{"policy": "lru", "buffer": "16MiB"}], 1.0)
    ratio, optimum = exact(RECIPE, policy="lru", buffer="16MiB")
    assert (found.hit_ratio.value, found.hit_ratio.error) == (pytest.approx(ratio, abs=1e-12), 0)
    assert found.optimum.value == pytest.approx(optimum, abs=1e-12)
    whole = ioassay.simulate(RECIPE, policy="lru", buffer="16MiB", feed="closed:8", window=None).summary
    assert found.read_hit_ratio and found.read_hit_ratio.value == pytest.approx(whole["read_hit_ratio"], abs=1e-12)


def test_an_lru_buffer_has_the_hits_of_the_sampled_curve() -> None:
    curve = traces.mrc(RECIPE, of="writes", sample=0.1, points=40)
    (found,) = simulator.sampled_hits(RECIPE, [{"policy": "lru", "buffer": "64MiB"}], 0.1)
    nearest = min(range(len(curve["size_pages"])), key=lambda at: abs(curve["size_pages"][at] - 16384))
    assert found.hit_ratio.value == pytest.approx(1 - curve["miss_ratio"][nearest], abs=0.03)


def test_a_preparation_and_a_pass_for_all_buffers(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    traces.convert(RECIPE, path)
    runs = [{"policy": "lru", "buffer": size} for size in ("4MiB", "64MiB")]
    for cache in (True, False, True):
        assert simulator.sampled_hits(path, runs, 0.2, cache=cache) == simulator.sampled_hits(RECIPE, runs, 0.2)
    first = simulator.sampled_hits(path, runs, 0.2, prepare=traces.preparation(first=1000))
    assert [each.requests for each in first] == [1000, 1000]
    with path.open("a", encoding="utf-8") as file:
        file.write("nonsense\n")
    with pytest.raises(InputError, match="line 200002"):
        simulator.sampled_hits(path, runs, 0.2)


@cases("simulator", "samples")
def test_what_a_sample_does_not_stand_for_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=case["says"]):
        simulator.sampled_hits(RECIPE, [case["options"]], case["rate"])


def test_a_trace_without_writes_has_a_warning() -> None:
    recipe = traces.recipe(requests=2000, reads=1.0)
    (found,) = simulator.sampled_hits(recipe, [{"policy": "lru"}], 0.5)
    assert found.hit_ratio.value == 0 and [each.code for each in found.warnings] == ["nothing-measured"]
    (few,) = simulator.sampled_hits(traces.recipe(requests=20, range="1MiB"), [{"policy": "lru"}], 0.5)
    assert [each.code for each in few.warnings] == ["small-sample"]


@pytest.mark.parametrize("mode", ["reshape", "inline"])
def test_padding_is_amplification_and_no_throughput(mode: str) -> None:
    recipe = {"requests": 4000, "addresses": ("zipf", [0.9]), "arrivals": ("poisson", [20000.0]), "seed": 1}
    padded = simulate(recipe, policy="bplru-padded", mode=mode, buffer="1MiB", feed="closed:32", elements=8)
    buffer, drive = padded.raw["tally"], padded.raw["drive"]
    own = buffer["evicted_pages"]
    assert buffer["pad_writes"] > 10 * own and drive["written_pages"] == own + buffer["pad_writes"]
    assert padded.summary["write_amplification"] == pytest.approx(drive["written_pages"] / own)
    host = own if mode == "reshape" else 4000
    assert padded.user_bytes("all") == padded.user_bytes("write") == host * 4096 and padded.user_bytes("read") == 0
