"""Captures golden trials of drivers: `python tests/golden/capture_drivers.py FOLDER [fio|stress_ng]`, as root.

driver_captures.toml has the cases. Each becomes a folder with what the tool wrote (its job file, logs, stdout, stderr)
and `case.json`: the parameters and how the process ended. Nothing is edited, but that the working folder is written as
/golden and the names of the host and its kernel as `host` and `kernel`. fio's job of two processes is captured in its
other formats, too, and of stress-ng the answers to the driver's probes. Needs loop devices.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path
from typing import Any

from ioassay.packs.fio.driver import Fio
from ioassay.packs.stress_ng.driver import StressNg
from ioassay.process import supervisor
from ioassay.roles import Load, Trial

CASES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("driver_captures.toml").read_text())
MIB = 2**20


def capture(driver: Any, folder: Path, name: str, case: dict[str, Any], load: Load, work: Path) -> None:
    """Run one case and keep what it left."""
    raw = work / name
    raw.mkdir()
    raw.chmod(0o777)
    params = {key: value for key, value in case.items() if key not in ("on", "end")}
    if "job_path" in params:
        params["job_path"] = str(work / params["job_path"])
    command = driver.command(Trial(name, "golden", driver.name, {}, params, {}, {}, 0, 1, 0), load, raw)
    for file, text in command.files.items():
        (raw / file).write_text(text)
    number, after_s, of_worker = case.get("end", ("SIGKILL", 60, False))

    def end(pid: int) -> None:
        victim = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0] if of_worker else pid
        os.kill(int(victim), signal.Signals[number])

    def start_timer(pid: int) -> None:
        if "end" in case:
            threading.Timer(after_s, end, (pid,)).start()

    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if name.startswith("nobody") else []
    outcome = supervisor.run(
        [*as_nobody, *command.argv],
        stdout=raw / "stdout",
        stderr=raw / "stderr",
        timeout_s=30,
        cwd=command.cwd,
        on_held=start_timer,
    )
    left_out = ("stdout", "stderr", "usage", "leftovers")
    ended = {key: value for key, value in dataclasses.asdict(outcome).items() if key not in left_out}
    (raw / "case.json").write_text(json.dumps({"params": params, "outcome": ended}, indent=1) + "\n")
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).mkdir(parents=True)
    for path in sorted(path for path in raw.iterdir() if path.is_file()):
        (folder / name / path.name).write_text(anonymous(path.read_text(), work))


def anonymous(text: str, work: Path) -> str:
    machine = platform.uname()
    text = text.replace(str(work), "/golden").replace(machine.release, "kernel").replace(machine.version, "version")
    for before, after in (("name: '", "'"), ("name: ", ""), ("Linux ", " ")):
        text = text.replace(f"{before}{machine.node}{after}", f"{before}host{after}")
    return text


def of_fio(folder: Path, work: Path) -> None:
    (work / "testfile").write_bytes(os.urandom(16 * MIB))
    (work / "backing").write_bytes(b"")
    os.truncate(work / "backing", 8 * MIB)
    losetup = ["losetup", "--find", "--show", str(work / "backing")]
    device = Path(subprocess.run(losetup, check=True, capture_output=True, text=True).stdout.strip())
    (work / "mount").mkdir()
    loads = {
        "file": Load("file", work / "testfile", 16 * MIB, False),
        "nothing": Load("null", None, 0, True),
        "missing": Load("file", work / "missing", 16 * MIB, True),
        "device": Load("device", device, 8 * MIB, False),
        "mounted": Load("device", device, 8 * MIB, False),
        "full": Load("file", work / "mount" / "file", 16 * MIB, False),
    }
    try:
        for name, case in sorted(CASES["fio"].items(), key=lambda item: list(loads).index(item[1].get("on", "file"))):
            if case.get("on") == "mounted":
                subprocess.run(["mkfs.ext4", "-q", device], check=True)
                subprocess.run(["mount", device, work / "mount"], check=True)
            capture(Fio(), folder, name, case, loads[case.get("on", "file")], work)
    finally:
        subprocess.run(["umount", work / "mount"], check=False)
        subprocess.run(["losetup", "--detach", device], check=True)
    lines = (work / "randrw-2-jobs" / "job.fio").read_text().splitlines()
    (work / "job.fio").write_text("\n".join(line for line in lines if "_log" not in line) + "\n")
    terse = {f"terse-{version}": ["terse", f"--terse-version={version}"] for version in (3, 4, 5)}
    for name, (form, *flags) in {"normal": ["normal"], **terse}.items():
        argv = ["fio", f"--output-format={form}", *flags, "--eta=never", "job.fio"]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=work)
        (folder / f"{name}.txt").write_text(done.stdout)


def of_stress_ng(folder: Path, work: Path) -> None:
    os.chdir(work)
    answers = {}
    tool = StressNg().tool()
    assert tool is not None
    for name, argv in tool.probes.items():
        captured = supervisor.capture(argv, timeout_s=30)
        answers[name] = anonymous(captured.stdout + captured.stderr, work)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "probes.json").write_text(json.dumps(answers, indent=1) + "\n")
    for name, case in CASES["stress_ng"].items():
        capture(StressNg(), folder, name, case, Load("null", None, 0, False), work)


if __name__ == "__main__":
    for tool in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as place:
            Path(place).chmod(0o755)
            {"fio": of_fio, "stress_ng": of_stress_ng}[tool](Path(sys.argv[1]).absolute() / tool, Path(place).resolve())
