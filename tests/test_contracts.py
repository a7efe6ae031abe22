"""What every driver, target and monitor of ours promises: the contract tests that plugins have, over our lists.

What a single one does with its own tool or device is tested beside it; tests/test_complete.py sees that it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay import roles
from ioassay.drivers import DRIVERS, driver
from ioassay.errors import StudyError, UsageError
from ioassay.monitors import MONITORS, monitor
from ioassay.roles import Consent
from ioassay.targets import TARGETS, target
from ioassay.testing import DriverContract, MonitorContract, TargetContract

LEAST = {"db_bench": {"benchmarks": "fillseq"}, "stress_ng": {"stressor": "cpu"}, "command": {"argv": ["true"]}}
"""What a driver cannot do without."""
TIMED = {
    "fio": ({"rw": "read", "bs": "4k", "runtime": "8s"}, {"kind": "file", "path": "data", "size": "1MiB"}),
    "stress_ng": ({"stressor": "cpu", "timeout": "8s"}, {}),
    "db_bench": ({"benchmarks": "readrandom", "duration": 8}, {"kind": "folder", "path": "."}),
    "null": ({"sleep": "8s"}, {}),
    "null_pure": ({"sleep": 8}, {}),
}
"""Loads that run for a time."""
ESTIMATED = ("iowait", "idle")
"""Idle time is an estimate of the kernel's and may shrink a little (proc_stat(5))."""


def settings(kind: str, folder: Path) -> dict[str, object]:
    """The least that a study says of a target of this kind."""
    least: dict[str, dict[str, object]] = {
        "null": {},
        "file": {"path": str(folder / "data"), "size": "1MiB"},
        "virtual": {"size": "1MiB", "model": "none"},
        "nvmevirt": {
            "module": str(folder / "nvmev.ko"),
            "memmap_start": "1GiB",
            "memmap_size": "512MiB",
            "cpus": [0, 1],
        },
    }
    return least.get(kind, {"path": str(folder / "data")})


def class_of(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


def contract(base: type, entry: str, /, **members: Any) -> None:
    """A class for pytest to collect: TestDriver_fio."""
    title = f"Test{base.__name__.removesuffix('Contract')}_{entry}"
    globals()[title] = type(title, (base,), {"__module__": __name__, **members})


for _name, _entry in DRIVERS.items():
    contract(DriverContract, _name, driver=class_of(_entry), params=LEAST.get(_name, {}), timed=TIMED.get(_name))


def _settings_of(kind: str) -> Any:
    return lambda self, folder: settings(kind, folder)


for _name, _entry in TARGETS.items():
    contract(TargetContract, _name, target=class_of(_entry), settings=_settings_of(_name))
for _name, _entry in MONITORS.items():
    contract(MonitorContract, _name, monitor=importlib.import_module(_entry), name=_name, may_fall=ESTIMATED)


def test_every_entry_has_its_contract_tests() -> None:
    made = [f"TestDriver_{name}" for name in DRIVERS] + [f"TestTarget_{name}" for name in TARGETS]
    assert set(made + [f"TestMonitor_{name}" for name in MONITORS]) <= globals().keys()


@pytest.mark.parametrize("name", TIMED)
def test_a_load_of_a_second_is_not_shortened(name: str) -> None:
    keys: Mapping[str, object] = dict.fromkeys(("runtime", "timeout", "sleep", "duration"), 1)
    params = {key: keys.get(key, value) for key, value in TIMED[name][0].items()}
    assert driver(name).shortened(params, 0.25) is None


@pytest.mark.parametrize("kind", [kind for kind in TARGETS if kind not in ("null", "file", "virtual")])
def test_what_a_target_lacks_is_said_before_anything_is_touched(kind: str, tmp_path: Path) -> None:
    made = target({"kind": kind, **settings(kind, tmp_path)}, Consent())
    with pytest.raises(StudyError, match=r"no such|does not exist|is no file|takes root") as found:
        made.inspect(roles.WRITE)
    assert (found.value.key or "").startswith("target.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ask", "error"), [(driver, StudyError), (monitor, UsageError)])
def test_a_name_that_nobody_has_is_answered_with_the_nearest(ask: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="'null'"):
        ask("nul")  # type: ignore[operator]
