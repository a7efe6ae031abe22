"""Processor time that fio does not count: the kernel's threads for io_uring."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ioassay.drivers.fio import fio_metrics
from ioassay.formats.fio_results import CpuUse, Job

FOUND = {"total.ios": 10_000.0, "total.runtime": 2.0}


def job(usr: float, system: float) -> Job:
    return Job("j", 0, 0, {}, runtime_s=2.0, cpu=CpuUse(usr, system))


def used(user_s: float, system_s: float) -> Any:
    return SimpleNamespace(ru_utime=user_s, ru_stime=system_s)


def test_a_job_that_does_all_itself_has_nothing_beside_it() -> None:
    found = fio_metrics.cpu_metrics([job(10, 40)], FOUND, used(0.35, 0.84))  # 1 s, 0.16 s to start, 0.03 s that vary
    assert found == {"cpu.per_io": pytest.approx(100_000), "cpu.uncounted": 0.0}


def test_the_time_of_sqpolls_thread_is_told_and_belongs_to_the_request() -> None:
    found = fio_metrics.cpu_metrics([job(60, 10)], FOUND, used(1.36, 2.0))
    assert found["cpu.uncounted"] == pytest.approx(90, rel=1e-6)
    assert found["cpu.per_io"] == pytest.approx(320_000)


def test_jobs_are_added_up() -> None:
    found = fio_metrics.cpu_metrics([job(10, 40), job(10, 40)], FOUND, used(0.4, 1.76))
    assert found == {"cpu.per_io": pytest.approx(200_000), "cpu.uncounted": 0.0}


@pytest.mark.parametrize("found", [{}, {"total.ios": 0.0, "total.runtime": 2.0}])
def test_without_requests_there_is_no_time_of_one(found: dict[str, float]) -> None:
    assert fio_metrics.cpu_metrics([job(10, 40)], found, used(1, 1)) == {}


def test_results_made_elsewhere_have_no_such_account() -> None:
    assert fio_metrics.cpu_metrics([job(10, 40)], FOUND, None) == {}
