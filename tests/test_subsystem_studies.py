"""The studies of subsystems: every sweep is there at both scales, short at `quick`, and runs where a small host can.

What stress-ng makes of them is not tested here: that takes minutes, and differs from host to host.
"""

from typing import Any

import pytest

from ioassay.study import catalog, machine_levels, overrides, plan
from ioassay.study.machine_levels import Machine
from ioassay.study.model import Study, Suite

WORKERS = [1, 2, 3, 4, 6, 8, 16]
"""Of the host with four processors that these tests plan for, whichever they run on."""
POLICIES = ["batch", "fifo:99", "idle", "other", "rr:99"]
SWEEPS: dict[str, tuple[str, dict[str, list[Any]]]] = {
    "subsystem-cpu-workers": ("cpu", {"cpu-method": ["int16", "int64"], "workers": WORKERS}),
    "subsystem-cpu-policy": ("cpu", {"cpu-method": ["int16", "int64"], "run.scheduler": POLICIES}),
    "subsystem-cache-l1-workers": ("l1cache", {"workers": WORKERS}),
    "subsystem-cache-l1-sets": ("l1cache", {"l1cache-sets": [2**power for power in range(10)]}),
    "subsystem-cache-fence": ("cache", {"cache-fence": [False, True], "workers": WORKERS}),
    "subsystem-io-ioprio": ("ioprio", {"workers": WORKERS}),
    "subsystem-io-ioport": ("ioport", {"workers": WORKERS}),
    "subsystem-memory-zlib": ("zlib", {"zlib-mem-level": list(range(1, 10))}),
    "subsystem-memory-shm": ("shm", {"workers": WORKERS[:-1]}),
    "subsystem-network-netdev": ("netdev", {"workers": WORKERS}),
    "subsystem-network-sockdiag": ("sockdiag", {"workers": WORKERS}),
    "subsystem-pipe-pipeherd": ("pipeherd", {"workers": WORKERS}),
    "subsystem-pipe-pipe": ("pipe", {"workers": WORKERS}),
    "subsystem-scheduler-deadline": ("cpu", {"sched-deadline": list(range(100_000, 500_001, 20_000))}),
    "subsystem-scheduler-rr": ("cpu", {"sched-prio": list(range(1, 100, 5))}),
}
SUBSYSTEMS = ("cpu", "cache", "io", "memory", "network", "pipe", "scheduler")
QUICK_S = 270
"""Of load; starting trials and the report take the rest of six minutes."""


@pytest.fixture(autouse=True)
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_levels, "this_machine", lambda: Machine(4, 2**33))


def quick(name: str) -> Suite:
    return catalog.load(name, lambda table: overrides.scaled(table, "quick"))


def load_s(study: Study) -> float:
    (trials,) = plan.count(Suite(name="one", title="", studies=[study])).values()
    return trials * float(str(study.params["timeout"]).removesuffix("s"))


def test_the_suite_has_every_sweep_once() -> None:
    assert [study.name for study in catalog.load("subsystems").studies] == list(SWEEPS)


@pytest.mark.parametrize("subsystem", SUBSYSTEMS)
def test_the_suite_of_a_subsystem_has_its_sweeps(subsystem: str) -> None:
    names = [study.name for study in catalog.load(f"subsystem-{subsystem}").studies]
    assert names == [name for name in SWEEPS if name.startswith(f"subsystem-{subsystem}-")]


@pytest.mark.parametrize("name", SWEEPS)
def test_a_study_sweeps_what_it_says(name: str) -> None:
    stressor, factors = SWEEPS[name]
    (study,) = catalog.load(name).studies
    assert (study.driver, study.params["stressor"], study.factors) == ("stress_ng", stressor, factors)
    assert study.max_repetitions >= 3


@pytest.mark.parametrize("name", SWEEPS)
def test_the_quick_scale_has_levels_of_every_factor(name: str) -> None:
    _, factors = SWEEPS[name]
    (study,) = quick(name).studies
    assert study.factors.keys() == factors.keys()
    for factor, levels in study.factors.items():
        assert set(levels) <= set(factors[factor]), factor
        assert len(levels) >= min(4, len(factors[factor])), f"{factor}: too few levels for a knee"
    assert study.max_repetitions >= 3


@pytest.mark.parametrize("processors", [1, 2, 3, 8, 64, 256])
def test_sweeps_of_workers_go_past_the_processors_of_every_host(
    processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_levels, "this_machine", lambda: Machine(processors, 2**33))
    for name, (_, factors) in SWEEPS.items():
        if "workers" in factors:
            (study,), (short,) = catalog.load(name).studies, quick(name).studies
            levels = study.factors["workers"]
            assert 1 in levels and processors in levels and max(levels) >= 2 * processors
            assert 3 <= len(levels) <= 10 and set(short.factors["workers"]) <= set(levels)


@pytest.mark.parametrize("name", SWEEPS)
def test_system_calls_are_counted_during_each_sweep(name: str) -> None:
    (study,) = catalog.load(name).studies
    assert study.watch.calls is True and study.watch.witness == "block"
    (short,) = quick(name).studies
    assert 2 <= len(plan.points_called(short)) <= 5
    assert short.watch.monitors == study.watch.monitors


def test_the_quick_scale_loads_the_machine_for_less_than_five_minutes() -> None:
    assert sum(load_s(study) for study in quick("subsystems").studies) <= QUICK_S


def test_real_time_policies_of_stress_ng_leave_a_processor_of_three_to_the_lab() -> None:
    (study,) = catalog.load("subsystem-scheduler-rr").studies
    assert study.params["sched"] == "rr"
    assert 0 < study.params["workers"] < 3
