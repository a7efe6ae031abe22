"""Captures the golden outputs of the installed stress-ng: `python tests/golden/stress_ng/capture.py FOLDER`, as root.

`probes.json` has the answers to the driver's probes. Each case becomes a folder with what stress-ng wrote
(stress-ng.yaml, stdout, stderr) and `case.json`: the parameters and how the process ended. Nothing is edited, but that
the folder's own path is written as /golden and the names of the host and its kernel as `host` and `kernel`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ioassay.drivers.stress_ng import StressNg
from ioassay.process import supervisor
from ioassay.roles import Load, Trial

CASES: dict[str, dict[str, Any]] = {
    "cpu": {"stressor": "cpu", "workers": 2, "timeout": "2s", "cpu-method": "int64", "verify": True},
    "zlib": {"stressor": "zlib", "timeout": "1s", "zlib-mem-level": 9},
    "cache": {"stressor": "cache", "timeout": "1s", "cache-fence": True},
    "pipe-ops": {"stressor": "pipe", "workers": 2, "pipe-ops": 20000},
    "deadline": {"stressor": "cpu", "timeout": "1s", "sched": "deadline", "sched-deadline": 100000},
    "hdd": {"stressor": "hdd", "timeout": "1s", "hdd-bytes": "8MiB"},
    "ioport": {"stressor": "ioport", "timeout": "1s"},
    "netdev": {"stressor": "netdev", "timeout": "1s"},
    "sockdiag": {"stressor": "sockdiag", "timeout": "1s"},
    "no-memory": {"stressor": "vm", "timeout": "1s", "vm-bytes": "900g"},
    "bad-method": {"stressor": "cpu", "timeout": "1s", "cpu-method": "int63"},
    "bad-option": {"stressor": "cpu", "timeout": "1s", "cpu-metod": "int64"},
    "flag-with-value": {"stressor": "cache", "timeout": "1s", "cache-fence": 1},
    "bad-priority": {"stressor": "cpu", "timeout": "1s", "sched": "rr", "sched-prio": 200},
}
AS_NOBODY: dict[str, dict[str, Any]] = {
    "nobody-deadline": {"stressor": "cpu", "timeout": "1s", "sched": "deadline"},
    "nobody-rawdev": {"stressor": "rawdev", "timeout": "1s"},
    "nobody-rtc": {"stressor": "rtc", "timeout": "1s"},
}
NOBODY = 65534

Victim = Callable[[int], int]
"""The process to kill, of one that was started."""


def capture(
    folder: Path, name: str, params: dict[str, Any], work: Path, end_after_s: float = 0, victim: Victim = int
) -> None:
    """Run one case and keep what it left. `end_after_s` kills stress-ng, or what `victim` names of it."""
    raw = work / name
    raw.mkdir(mode=0o777)
    raw.chmod(0o777)
    unasked = StressNg()  # takes what the installed stress-ng does not, too
    command = unasked.command(Trial(name, "golden", "stress_ng", {}, params, {}, {}, 0, 1, 0), nothing(), raw)
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if name in AS_NOBODY else []
    timers: list[threading.Timer] = []

    def start_timer(pid: int) -> None:
        if end_after_s:
            timers.append(threading.Timer(end_after_s, lambda: os.kill(victim(pid), signal.SIGKILL)))
            timers[0].start()

    outcome = supervisor.run(
        [*as_nobody, *command.argv],
        stdout=raw / "stdout",
        stderr=raw / "stderr",
        timeout_s=30,
        cwd=command.cwd,
        on_held=start_timer,
    )
    for timer in timers:
        timer.join()
    left_out = ("stdout", "stderr", "usage", "leftovers")
    ended = {key: value for key, value in dataclasses.asdict(outcome).items() if key not in left_out}
    (raw / "case.json").write_text(json.dumps({"params": params, "outcome": ended}, indent=1) + "\n")
    keep(raw, folder / name, work)


def first_worker(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def nothing() -> Load:
    return Load("null", None, 0, False)


def keep(raw: Path, to: Path, work: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for path in sorted(raw.iterdir()):
        if path.is_file():
            (to / path.name).write_text(anonymous(path.read_text(), work))


def anonymous(text: str, work: Path) -> str:
    machine = platform.uname()
    text = text.replace(str(work), "/golden").replace(machine.release, "kernel").replace(machine.version, "version")
    text = text.replace(f"name: '{machine.node}'", "name: 'host'").replace(f"name: {machine.node}", "name: host")
    return text.replace(f"Linux {machine.node} ", "Linux host ")


def probes(folder: Path, work: Path) -> None:
    os.chdir(work)
    answers = {}
    for name, argv in StressNg().tool().probes.items():
        captured = supervisor.capture(argv, timeout_s=30)
        answers[name] = anonymous(captured.stdout + captured.stderr, work)
    (folder / "probes.json").write_text(json.dumps(answers, indent=1) + "\n")


def main(folder: Path, work: Path) -> None:
    work.chmod(0o755)
    folder.mkdir(parents=True, exist_ok=True)
    probes(folder, work)
    for name, params in {**CASES, **AS_NOBODY}.items():
        capture(folder, name, params, work)
    capture(folder, "killed", {"stressor": "cpu", "timeout": "20s"}, work, end_after_s=0.5)
    worker_killed = {"stressor": "cpu", "workers": 2, "timeout": "3s"}
    capture(folder, "worker-killed", worker_killed, work, end_after_s=1.5, victim=first_worker)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(sys.argv[1]).absolute(), Path(place).resolve())
