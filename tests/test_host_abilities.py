"""What this host cannot do is found out by trying, and said by the doctor."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli import command_server
from tests.cli.conftest import ask

from ioassay import drivers
from ioassay.errors import ConditionError
from ioassay.runner import conditions, preflight

FakeRoot = Callable[..., Path]


@pytest.mark.parametrize(
    ("runtime", "share"), [("950000\n", 0.95), ("-1\n", 1.0), ("0\n", 0.0), (None, None), ("x\n", None)]
)
def test_the_time_that_the_kernel_keeps_from_real_time_tasks(
    fake_root: FakeRoot, runtime: str | None, share: float | None
) -> None:
    tree = {"proc/sys/kernel/sched_rt_period_us": "1000000\n"}
    root = fake_root(tree if runtime is None else {**tree, "proc/sys/kernel/sched_rt_runtime_us": runtime})
    assert preflight.real_time_share(root) == share


def test_what_the_kernel_refuses_is_said_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def rehearse(wanted: conditions.Conditions) -> list[object]:
        if wanted.limits:
            raise ConditionError(f"{wanted.text}: not here")
        return []

    monkeypatch.setattr(conditions, "rehearse", rehearse)
    said = [warning.text for warning in preflight.refused_conditions()]
    assert said == ["run.cpu_limit = 0.5: not here", f"run.memory_limit = {2**26}: not here"]


@pytest.mark.stress
def test_a_host_with_one_processor_is_told_which_trials_it_will_skip() -> None:
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(usable)])
    try:
        said = [warning.text for warning in preflight.skipped_trials("subsystem-cpu")]
    finally:
        os.sched_setaffinity(0, usable)
    wanted = "subsystem-cpu-policy: run.scheduler = fifo:99: under a real-time policy one processor is left"
    assert any(text.startswith(wanted) for text in said)


def test_the_tool_of_each_driver_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert preflight.skipped_trials("subsystem-pipe") == []
    missing = {warning.text: warning.remedy for warning in preflight.missing_tools()}
    assert missing["driver stress_ng: no stress-ng here"] == "apt-get install stress-ng"
    assert len(missing) == len(drivers.tools())
    for tool in drivers.tools().values():
        (tmp_path / tool.executable).touch(0o755)
    assert preflight.missing_tools() == []


def test_the_doctor_says_it_after_its_warnings(tmp_path: Path) -> None:
    told = ask("doctor", tmp_path, "--json", cwd=tmp_path).json
    command_server.end()
    assert {"facts", "warnings", "unable", "plugins", "realtime_share"} == told.keys()
    assert all({"code", "text", "remedy"} == entry.keys() for entry in told["unable"])
