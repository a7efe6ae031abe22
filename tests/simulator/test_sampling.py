"""Hit ratios from a sample of a trace's pages: near those of whole simulations, within their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay import simulator, traces
from ioassay.errors import InputError, UsageError

from ..corpora import cases

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
