"""What this host cannot do is found out by trying, and said by the doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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
    one = f"import os; os.sched_setaffinity(0, [{min(os.sched_getaffinity(0))}])"
    code = f"{one}; from ioassay.runner import preflight; "
    code += "[print(w.text) for w in preflight.skipped_trials('subsystem-cpu')]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        "subsystem-cpu-policy: run.scheduler = fifo:99: under a real-time policy one processor is left" in done.stdout
    )


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
    argv = [sys.executable, "-m", "ioassay", "doctor", str(tmp_path), "--json"]
    told = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    assert {"facts", "warnings", "unable", "plugins", "realtime_share"} == told.keys()
    assert all({"code", "text", "remedy"} == entry.keys() for entry in told["unable"])
