"""Why a peak ends: the cause that counters of made-up trials give."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ioassay.analysis import optimum
from ioassay.analysis.optimum import LITTLE, Outcome, Peak
from ioassay.analysis.peak_cause import Cause, PerOperation, Use, resource_use
from ioassay.narrative import peak_text, phrases
from ioassay.records.observation import COUNTERS, Observation
from ioassay.records.record import Environment

LEVELS = (1, 2, 4, 8)
Counters = Mapping[str, Any]


def environment(busy: float, **keys: Any) -> Environment:
    """Two processors for a second."""
    own = keys.pop("own", busy)
    shares = {"own_share": own, "others_share": 0.0, "kernel_share": 0.0, "steal_share": 0.0}
    return Environment(**{"seconds": 1.0, "processors": 2, **shares, "idle_share": 1 - busy, **keys})


def observation(**counters: float) -> Observation:
    return Observation(COUNTERS, COUNTERS, (COUNTERS,), counters={"user_s": 1.0, "system_s": 0.1, **counters})


def samples(monitor: str, **counters: float) -> list[tuple[str, str, float, float]]:
    """Two readings a second apart: counters grow from 0; names have '.' for '__'."""
    named = {name.replace("__", "."): value for name, value in counters.items()}
    gauges = ("limit", "quota_us", "period_us", "limit_bytes")
    return [
        (monitor, name, time_s, value if time_s or name.endswith(gauges) else 0.0)
        for name, value in named.items()
        for time_s in (0.0, 1.0)
    ]


def peak(
    lab: Any,
    rate: Callable[[int], float],
    counters: Callable[[int, float], Counters],
    *,
    factor: str = "numjobs",
    response: str = "read.iops",
    noise: float = 0.01,
    repetitions: int = 4,
    **keys: Any,
) -> Peak:
    """`counters(level, jitter)` is what is recorded of a trial; jitter is about 1."""
    chance = random.Random(7)

    def measure(point: Mapping[str, Any], _: int) -> dict[str, Any]:
        jitter = chance.gauss(1, noise)
        level = int(point[factor])
        return {response: 1e4 * rate(level) * chance.gauss(1, noise), **counters(level, jitter)}

    study = lab.study(factors={factor: list(LEVELS)}, responses=[response], **keys)
    records = lab.records(lab.run(study, measure, repetitions), host={"cpu": {"cpus": 2}})
    (found,) = optimum.measured(records, study, response)[factor]
    return found


def two(level: int) -> float:
    """Grows to the second worker."""
    return min(level, 2)


def constant(_: int) -> float:
    return 1.0


def full(level: int, jitter: float) -> Environment:
    return environment(min(0.49 * level * jitter, 0.99))


def idle(_: int, jitter: float) -> Environment:
    return environment(0.3 * jitter)


def waiting(level: int, jitter: float) -> list[Any]:
    share = {1: 0.01, 2: 0.03, 4: 0.5, 8: 0.75}[level] * jitter
    return samples("schedstat", run_ns=1e9 * (1 - share), wait_ns=1e9 * share)


CASES: dict[str, tuple[Cause, Callable[[int], float], Callable[[int, float], Counters]]] = {
    "processors": (Cause.PROCESSORS, two, lambda n, j: {"_environment": full(n, j), "_samples": waiting(n, j)}),
    "processors from the first": (
        Cause.PROCESSORS,
        constant,
        lambda n, j: {"_environment": environment(0.97), "_samples": waiting(n, j)},
    ),
    "throttled": (
        Cause.QUOTA,
        two,
        lambda n, j: {
            "_environment": environment(0.4),
            "_samples": samples(
                "cgroup", cpu__periods=10, cpu__throttled=0 if n < 2 else 8 * j, cpu__quota_us=5e4, cpu__period_us=1e5
            ),
        },
    ),
    "memory": (
        Cause.MEMORY,
        two,
        lambda n, j: {"_environment": environment(0.5, pressure={"memory": 0.0 if n < 4 else 0.6 * j})},
    ),
    "memory with full processors": (
        Cause.MEMORY,
        two,
        lambda n, j: {
            "_environment": environment(min(0.49 * n, 0.99), pressure={"memory": 0.0 if n < 4 else 0.6 * j}),
        },
    ),
    "limit of I/O": (
        Cause.IO_LIMIT,
        two,
        lambda n, j: {
            "_environment": idle(n, j),
            "_samples": samples("cgroup", **{"254:0__reads": min(n * 490, 990), "254:0__read_limit_iops": 1000}),
        },
    ),
    "disk": (
        Cause.DISK,
        two,
        lambda n, j: {
            "_environment": idle(n, j),
            "read.lat.mean": 1e6 * max(n / 2, 1) * j,
            "_samples": samples("disk", vda__io_ms=min(960 * j, 990)),
        },
    ),
    "lock": (
        Cause.LOCK,
        two,
        lambda n, j: {
            "_environment": idle(n, j),
            "_observation": observation(voluntary_switches=100 if n < 3 else 5e4 * j),
        },
    ),
    "run queue": (Cause.RUN_QUEUE, two, lambda n, j: {"_environment": idle(n, j), "_samples": waiting(n, j)}),
    "network": (
        Cause.NETWORK,
        two,
        lambda n, j: {
            "_environment": idle(n, j),
            "_samples": samples("net", eth0__rx_packets=1e4, eth0__rx_dropped=0 if n < 4 else 900 * j),
        },
    ),
    "stalls": (
        Cause.STALLS,
        two,
        lambda n, j: {
            "_environment": idle(n, j),
            "_samples": samples(
                "perf",
                cycles__count=1e9,
                cycles__enabled_ns=2e9,
                cycles__running_ns=1e9,
                instructions__count=2e9 / (1 if n < 4 else 3 * j),
                instructions__enabled_ns=1e9,
                instructions__running_ns=1e9,
            ),
        },
    ),
    "contention": (
        Cause.CONTENTION,
        two,
        lambda n, j: {"_environment": environment(0.5, own=(0.1 if n < 3 else 0.4) * j)},
    ),
    "none": (
        Cause.NONE,
        two,
        lambda n, j: {
            "_environment": idle(n, j),
            "_observation": observation(voluntary_switches=1e4 * two(n) * j),
            "_samples": samples("disk", vda__io_ms=950 * j),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_counter_that_explains_a_peak_is_its_cause(lab: Any, name: str) -> None:
    cause, rate, counters = CASES[name]
    found = peak(lab, rate, counters).explanation
    assert found is not None and found.cause is cause
    json.dumps(found.statistics(LEVELS), allow_nan=False)


def test_every_cause_has_a_case() -> None:
    assert {cause for cause, *_ in CASES.values()} == set(Cause)


def test_the_evidence_has_the_numbers_of_the_levels_about_the_end(lab: Any) -> None:
    _, rate, counters = CASES["processors"]
    found = peak(lab, rate, counters).explanation
    assert found is not None and (found.before, found.end, found.after) == (0, 1, 2)
    busy, wait = found.evidence
    assert busy.counter is Use.BUSY and busy.end == pytest.approx(0.98, abs=0.01) and busy.reaches
    assert wait.counter is Use.WAIT and wait.before < 0.02 and wait.after == pytest.approx(0.5, abs=0.02)


def test_a_change_within_the_noise_is_no_cause(lab: Any) -> None:
    counters = lambda n, j: {"_environment": environment(min(0.85 * j, 1.0))}  # noqa: E731
    found = peak(lab, two, lambda n, j: counters(n, j) if n < 2 else counters(n, j * 1.08), noise=0.2, repetitions=3)
    assert found.explanation is None or found.explanation.cause is Cause.NONE


def test_a_busy_device_without_a_queue_is_no_cause(lab: Any) -> None:
    found = peak(
        lab,
        two,
        lambda n, j: {
            "_environment": idle(n, j),
            "read.lat.mean": 1e6 * j,
            "_samples": samples("disk", vda__io_ms=990),
        },
    )
    assert found.explanation is not None and found.explanation.cause is Cause.NONE


def test_waiting_for_each_other_is_seen_where_other_programs_fill_the_processors(lab: Any) -> None:
    counters = lambda n, j: {  # noqa: E731
        "_environment": environment(0.99, own=0.3, others_share=0.6),
        "_observation": observation(voluntary_switches=100 if n < 3 else 5e4 * j),
    }
    found = peak(lab, two, counters).explanation
    assert found is not None and found.cause is Cause.LOCK and found.others == pytest.approx(0.6)


def test_processors_that_other_programs_fill_are_no_cause_without_a_wait_for_them(lab: Any) -> None:
    counters = lambda *_: {"_environment": environment(0.99, own=0.2, others_share=0.75)}  # noqa: E731
    found = peak(lab, constant, counters).explanation
    assert found is not None and found.cause is Cause.NONE


def test_a_share_of_a_limit_is_that_of_the_study_or_of_the_point(lab: Any) -> None:
    counters = lambda n, j: {"_environment": environment(0.5, own=min(0.24 * n * j, 0.498))}  # noqa: E731
    found = peak(lab, two, counters, run={"cpu_limit": 1.0}).explanation
    assert found is not None and found.cause is Cause.QUOTA
    assert found.readings[Use.QUOTA].end == pytest.approx(0.97, abs=0.03)


def test_a_tool_that_binds_its_processes_has_the_processors_that_it_names(lab: Any) -> None:
    def counters(n: int, j: float) -> Counters:
        ticks = {
            "cpu0__user": 99,
            "cpu0__idle": 1,
            "cpu1__user": 1,
            "cpu1__idle": 99,
            "all__user": 100,
            "all__idle": 100,
        }
        return {"_environment": environment(0.5), "_samples": [*samples("cpu", **ticks), *waiting(n, j)]}

    study = {"params": {"taskset": "0"}, "driver": "stress_ng"}
    found = peak(lab, constant, counters, factor="workers", response="bogo_ops_real_rate", **study).explanation
    assert found is not None and found.cause is Cause.PROCESSORS
    assert found.readings[Use.BUSY].end == pytest.approx(0.99)


def test_the_call_of_a_lock_is_named_where_calls_were_counted(lab: Any) -> None:
    import dataclasses

    import polars as pl

    _, rate, counters = CASES["lock"]
    study = lab.study(factors={"numjobs": list(LEVELS)}, responses=["read.iops"])
    chance = random.Random(1)

    def measure(p: Mapping[str, Any], _: int) -> dict[str, Any]:
        return {"read.iops": 1e4 * rate(p["numjobs"]) * chance.gauss(1, 0.01), **counters(p["numjobs"], 1.0)}

    records = lab.records(lab.run(study, measure, 4))
    row = {"study": study.name, "trial": "t", "errors": 0, "per_second": 1.0, "by": "bpf"}
    calls = [{**row, "numjobs": 4, "name": name, "count": count} for name, count in (("read", 900), ("futex", 500))]
    records = dataclasses.replace(records, calls=pl.DataFrame(calls))
    (found,) = optimum.measured(records, study, "read.iops")["numjobs"]
    assert found.explanation is not None and found.explanation.lock == "futex"


def test_nothing_is_asked_of_other_factors_responses_and_outcomes(lab: Any) -> None:
    _, _, counters = CASES["processors"]
    assert peak(lab, two, counters, factor="rwmixread").explanation is None
    assert peak(lab, two, counters, response="read.lat.p99").explanation is None
    assert peak(lab, float, counters).explanation is None  # it still grows at the last level
    assert peak(lab, two, lambda *_: {}).explanation is None  # nothing was recorded


def test_what_certainly_grows_little_has_a_cause_although_no_level_is_best(lab: Any) -> None:
    limit = lambda *_: {  # noqa: E731
        "_environment": environment(0.3),
        "_samples": samples("cgroup", **{"254:0__reads": 990, "254:0__read_limit_iops": 1000}),
    }
    found = peak(lab, constant, limit, noise=0.05)
    assert found.outcome is Outcome.UNDECIDED and found.most_growth and 0 < found.most_growth < LITTLE
    assert found.explanation is not None and (found.explanation.cause, found.explanation.end) == (Cause.IO_LIMIT, 0)
    assert f"at most {phrases.percent(found.most_growth)} beyond 1 " in str(peak_text.causes(found)[0])
    assert peak(lab, constant, limit, noise=0.3).explanation is None  # it may grow by more
    assert peak(lab, constant, lambda *_: {"_environment": environment(0.3)}, noise=0.05).explanation is None


def test_a_rate_that_is_asked_for_has_a_cause_too(lab: Any) -> None:
    _, rate, counters = CASES["processors"]
    found = peak(lab, rate, counters, factor="rate_iops").explanation
    assert found is not None and found.cause is Cause.PROCESSORS


def test_what_was_not_recorded_of_every_trial_is_missing(lab: Any) -> None:
    counters = lambda n, j: {"_environment": full(n, j), "_samples": waiting(n, j) if n > 1 else []}  # noqa: E731
    found = peak(lab, two, counters).explanation
    assert found is not None and found.cause is Cause.PROCESSORS
    assert Use.WAIT not in found.readings and PerOperation.CPU in found.readings


def test_events_that_had_no_counter_all_the_time_are_scaled(lab: Any) -> None:
    _, _, counters = CASES["stalls"]
    study = lab.study(factors={"numjobs": [1]}, responses=["read.iops"])
    records = lab.records(lab.run(study, lambda *_: {"read.iops": 1.0, **counters(1, 1.0)}, 1))
    (used,) = resource_use(records, study).values()
    assert used[Use.STALLS] == pytest.approx(1.0)  # 1e9 cycles in half of the time, 2e9 instructions
