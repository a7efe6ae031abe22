"""Files of /proc and /sys and what tools say of drives, damaged: a kernel does not lie, but there are odd ones.

A fact that cannot be read is not known, and a reading that cannot be taken is a warning of the sampler: nothing here
may end a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from ioassay import host, validation
from ioassay.errors import IoassayError, ToolError
from ioassay.host import block_devices, disks, mounts
from ioassay.host.machine import Machine
from ioassay.monitors import MONITORS, monitor
from ioassay.process.supervisor import Captured
from ioassay.verify.witness.observed_command import Counters

from ..corpora import tree
from .mutation import COPIES, withstands

FakeRoot = Callable[[Mapping[str, "str | bytes | Path | None"]], Path]
MACHINE = tree("readers", "machine")
FILES = {name: text for name, text in MACHINE.items() if isinstance(text, str)}
LSCPU = {"lscpu": [{"field": "Model name:", "data": "Example", "children": [{"field": "L2 cache:", "data": "1 MiB"}]}]}
SMART = {
    "smart_status": {"passed": True},
    "temperature": {"current": 40},
    "power_on_time": {"hours": 7},
    "nvme_smart_health_information_log": {"critical_warning": 0, "percentage_used": 1, "media_errors": 0},
}
NVME = {"critical_warning": 0, "temperature": 310, "percent_used": 1, "avail_spare": 100, "media_errors": 0}


@pytest.fixture
def root(fake_root: FakeRoot) -> Path:
    return fake_root(MACHINE)


def damage(root: Path, name: str, look: Callable[[], object], count: int = COPIES) -> None:
    """Each file in turn."""
    for file, text in FILES.items():
        path = root / file

        def read(copy: bytes, path: Path = path) -> None:
            path.write_bytes(copy)
            look()

        withstands(read, [text.encode()], f"{name} {file}", refuses=False, count=max(count // len(FILES), 1))
        path.write_text(text)


@pytest.mark.parametrize("name", MONITORS)
def test_monitors(root: Path, name: str) -> None:
    """The sampler takes ValueError, IndexError and the like of one reading for a warning (`monitors.sampler`)."""
    from ioassay.monitors.sampler import Sampler

    def look() -> None:
        sampler = Sampler([monitor(name, root=root, devices=["nvme0n1"])], 0.25)
        sampler.start()
        sampler.stop()

    damage(root, f"monitor {name}", look, count=COPIES // 8)


def test_host_facts(root: Path) -> None:
    def look() -> None:
        try:
            validation.table(json.dumps(host.facts(root / "data", root, sleep=lambda _: None)), "host.json")
        except IoassayError as error:  # of a device nothing is guessed
            assert "expected" in str(error)

    damage(root, "host", look, count=COPIES // 2)


def test_block_devices_and_mounts(root: Path) -> None:
    def look() -> None:
        for found in (lambda: block_devices.named("nvme0n1", root), lambda: mounts.mount_of(root / "data", root)):
            try:
                device = found()
                if isinstance(device, block_devices.Device):
                    block_devices.family(device, root)
            except IoassayError as error:
                assert str(error)
        block_devices.disk_counters(["nvme0n1"], root)
        try:
            counted = Counters(["nvme0n1"], root)
        except IoassayError:
            return
        counted.begin(7)
        counted.end(7)
        json.dumps(counted.result(None), allow_nan=False)

    damage(root, "block devices", look, count=COPIES // 2)


@pytest.mark.parametrize(("tool", "answer"), [("lscpu", LSCPU), ("smartctl", SMART), ("nvme", NVME)])
def test_answers_of_tools(root: Path, tool: str, answer: object) -> None:
    said = ""

    def capture(argv: Sequence[str]) -> Captured:
        if argv[0] != tool:
            raise ToolError("it is not there")
        return Captured(0, said, "", False)

    def read(copy: bytes) -> None:
        nonlocal said
        said = copy.decode("utf-8", "replace")
        device = block_devices.named("nvme0n1", root)
        assert device is not None
        from ioassay.host import system

        machine = Machine(root, capture)
        json.dumps([system.cpu(machine), disks.health(machine, device)])

    withstands(read, [json.dumps(answer).encode()], f"answers of {tool}", tree="json", refuses=False, count=COPIES // 2)
