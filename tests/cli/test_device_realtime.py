"""A drive that is served in real time, and one that is calibrated while the machine is busy."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..virtual_drive.nbd import Client
from .drives import COMMAND, PATIENCE_S, served

SERVE = ("--size", "16MiB", "--transport", "nbd:unix:a", "--set", "elements=4")
PAGE = 4096

pytestmark = pytest.mark.root


@pytest.fixture
def busy_processors() -> Iterator[None]:
    """Four programs on each processor that do nothing but run."""
    count = 4 * len(os.sched_getaffinity(0))
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    yield
    for each in running:
        each.kill()
        each.wait()


def classes(process: int) -> dict[str, int]:
    """The scheduling class of each thread, by its name; of the main thread under `main`."""
    found = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        number = int(task.name)
        name = "main" if number == process else (task / "comm").read_text().strip()
        found[name] = os.sched_getscheduler(number) & ~os.SCHED_RESET_ON_FORK
    return found


def test_a_real_time_server_and_its_watchdog_are_the_only_threads_that_run_so(tmp_path: Path) -> None:
    with served(tmp_path, *SERVE, "--realtime", "--keep-awake") as drive, Client(tmp_path / "a") as client:
        client.write(0, b"x" * PAGE)
        assert client.read(0, PAGE) == b"x" * PAGE
        give_up_s = time.monotonic() + PATIENCE_S
        while (told := classes(drive.process.pid)).get("ioassay-watchdo") != os.SCHED_FIFO:
            assert time.monotonic() < give_up_s, told
            time.sleep(0.01)
        assert {name for name, number in told.items() if number == os.SCHED_FIFO} == {"main", "ioassay-watchdo"}
        assert drive.end() == (0, "")


@pytest.mark.alone
def test_a_calibration_on_a_busy_machine_is_uncertain(tmp_path: Path, busy_processors: None) -> None:
    with served(tmp_path, *SERVE) as drive:
        (warning,) = drive.told["warnings"]
        assert warning["kind"] in {"calibration-uncertain", "floor-unknown"}
        assert drive.end()[0] == 0


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (["taskset", "-c", str(min(os.sched_getaffinity(0)))], "realtime is true, wanted two processors or more"),
        (["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"], "wanted root, or a limit of at least 11"),
    ],
)
def test_what_does_not_allow_real_time_is_told(tmp_path: Path, before: list[str], said: str) -> None:
    argv = [*before, *COMMAND, "serve", *SERVE, "--realtime"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert done.returncode > 0
    assert not (tmp_path / "a").exists()
