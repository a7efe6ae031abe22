"""What is said of studies that measure nothing."""

from __future__ import annotations

from typing import Any

from ioassay.drivers import DRIVERS, driver

IMITATES = {"null_pure"}
"""It imitates measurements: its repetitions differ by chance."""


def test_what_only_computes_is_deterministic() -> None:
    computed = {name for name in DRIVERS if not driver(name).measures}
    assert {name for name in DRIVERS if driver(name).deterministic} == computed - IMITATES


def test_a_simulation_is_not_measured(lab: Any) -> None:
    simulated, other = lab.study(driver="simulate"), lab.study("other")
    records = lab.records(*(lab.run(study, lambda *_: {"read.bw": 1.0}, 1) for study in (simulated, other)))
    assert not records.is_measured(simulated)
    assert records.is_measured(other)


def test_a_driver_that_this_version_lacks_measures_and_states_nothing_else(lab: Any) -> None:
    study = lab.study(driver="bonnie", responses=[])
    records = lab.records(lab.run(study, lambda *_: {"read.bw": 1.0, "value": 1.0}, 1))
    assert records.is_measured(study)
    assert records.responses(study) == ["read.bw"]
    assert not records.driver(study).page_cache_remedy({})
