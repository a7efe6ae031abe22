"""Runs that are killed at random instants: what is there before them is all that is there after the next command."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ioassay.errors import ConditionError
from ioassay.host import cgroup
from ioassay.roles import Consent
from ioassay.runner import conditions, preflight, run
from ioassay.runner.conditions import Conditions
from ioassay.runner.progress import Progress
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study
from ioassay.targets import ownership_mark

from ..patience import until
from .command_server import PATIENCE_S
from .conftest import Ask, command

STUDY = """
title = "Ends"
repetitions = 50
seed = 1
[watch]
monitors = []
witness = "off"
"""
FILE = """
driver = "fio"
[target]
kind = "file"
path = "disk/testfile"
size = "16MiB"
keep = false
[params]
rw = "randwrite"
bs = "4k"
ioengine = "psync"
runtime = "100ms"
"""
FOLDER = """
driver = "filesuite"
[target]
kind = "folder"
path = "disk"
[params]
tests = ["write"]
record = "4KiB"
size = "4MiB"
"""
VIRTUAL = """
driver = "fio"
[target]
kind = "virtual"
size = "32MiB"
form = "device"
model = "none"
ways = ["fuse"]
calibrate = false
[params]
rw = "randwrite"
bs = "4k"
ioengine = "libaio"
direct = 1
runtime = "100ms"
"""
ATTEMPTS = int(os.environ.get("IOASSAY_KILLS") or (20 if os.environ.get("IOASSAY_THOROUGH") else 2))
VARIABLE = "IOASSAY_TEST_OF_KILLS"
LONGEST_S = 2.0
"""After this a run has long begun its trials, also where others keep the processors busy."""
pytestmark = pytest.mark.fio


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path, for sockets: all that a run leaves is in it."""
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        (Path(name) / "disk").mkdir()
        yield Path(name)
        for pid in processes(Path(name)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def table(text: str, limits: str = "") -> str:
    driver, _, rest = text.strip().partition("\n")
    return f"{driver}\n{STUDY}{limits}\n{rest}\n"


def limits_here() -> str:
    """Limits that need a control group, where this user may make one."""
    try:
        conditions.rehearse(Conditions(memory_limit=2**28))
    except ConditionError:
        return ""
    return '[run]\nmemory_limit = "256MiB"\ncpu_limit = 1.5\n'


@contextmanager
def started(place: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A run of its own, whose environment marks all that it starts; it does not outlive the test."""
    environment = {**os.environ, VARIABLE: str(place), "TMPDIR": str(place)}
    with subprocess.Popen(
        command("run", *words), cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as runner:
        try:
            yield runner
        finally:
            runner.kill()


def processes(place: Path) -> list[int]:
    """Living processes of the runs of a test."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{VARIABLE}={place}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def running(place: Path, words: bytes) -> list[int]:
    """Those of them that have such words in their command line; `job.fio`: a trial, not a question for the version."""
    found = []
    for pid in processes(place):
        with suppress(OSError):
            if words in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def groups(pid: int) -> list[Path]:
    found = ((folder, name) for folder, below, _ in os.walk("/sys/fs/cgroup") for name in below)  # others go meanwhile
    return sorted(Path(folder, name) for folder, name in found if name.startswith(f"ioassay-{pid}-"))


def left(place: Path, pid: int) -> list[str]:
    """Groups, mounts, loop devices, processes and files of a run, but for its own folder."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{place}/" in line]
    loops = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            loops.append(path.read_text())
    files = [str(path) for path in [*place.glob("disk/*"), *place.glob("disk/.*"), *place.glob("ioassay-*")]]
    shared = [path.name for path in Path("/dev/shm").iterdir() if str(pid) in re.findall(r"\d+", path.name)]
    known = [*map(str, groups(pid)), *mounts, *(file for file in loops if f"{place}/" in file), *files, *shared]
    return [*known, *(f"process {number}" for number in processes(place))]


def run_next(root: Path) -> None:
    """What the next command does that runs trials; its page would only take time."""
    table = {"name": "next", "title": "Next", "driver": "null", "watch": {"monitors": [], "witness": "off"}}
    suite = Suite(name="next", title="Next", studies=[make_study(table, "next.toml")])
    benches = preflight.assemble(suite, Consent())
    run.execute(RunStore.create(root, suite, {}), benches, Progress())


@pytest.mark.slow
@pytest.mark.parametrize("text", [FILE, FOLDER], ids=["file", "folder"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_at_any_instant_leaves_nothing(
    place: Path, text: str, number: signal.Signals, seed: int
) -> None:
    instants = random.Random(seed)
    (place / "s.toml").write_text(table(text, limits_here()))
    for attempt in range(ATTEMPTS):
        with started(place, "s.toml", "--output", f"out-{attempt}") as runner:
            time.sleep(instants.uniform(0, LONGEST_S))
            runner.send_signal(number)
            runner.communicate(timeout=PATIENCE_S)
        until(lambda: not processes(place))
        run_next(place / f"next-{attempt}")
        assert left(place, runner.pid) == []


@pytest.mark.parametrize(
    "text", [FILE, FOLDER, pytest.param(VIRTUAL, marks=pytest.mark.root)], ids=["file", "folder", "virtual drive"]
)
def test_a_run_that_is_killed_in_a_trial_leaves_nothing_before_any_other_command(place: Path, text: str) -> None:
    long = text.replace("100ms", "60s").replace('size = "4MiB"', 'size = "1GiB"')
    (place / "s.toml").write_text(table(long, limits_here()))
    with started(place, "s.toml", "--output", "out") as runner:
        until(lambda: running(place, b"job.fio") or list(place.glob("disk/.ioassay-*/*")))
        runner.kill()
    until(lambda: not left(place, runner.pid))


@pytest.mark.root
@pytest.mark.parametrize("ends", ["drive", "run"])
def test_a_drive_that_is_killed_fails_its_trial_alone_and_goes_with_an_interrupted_run(place: Path, ends: str) -> None:
    runtime = "5s" if ends == "drive" else "60s"
    (place / "s.toml").write_text(
        table(VIRTUAL.replace("100ms", runtime)).replace("repetitions = 50", "repetitions = 2")
    )
    with started(place, "s.toml", "--output", "out") as runner:
        until(lambda: running(place, b"job.fio"))
        assert left(place, runner.pid)
        if ends == "drive":
            os.kill(*running(place, b"serve"), signal.SIGKILL)
        else:
            runner.send_signal(signal.SIGINT)
        said, _ = runner.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in said and left(place, runner.pid) == []
    found = [json.loads(path.read_text()) for path in place.glob("out/trials/*/record.json")]
    if ends == "run":
        assert runner.returncode == 130 and "--resume out" in said
        return
    first, second = sorted(found, key=lambda record: str(record["started_unix_s"]))
    reason = "the virtual drive ended during the trial, killed by SIGKILL"
    assert (first["status"], first["reason"], second["status"]) == ("failed", reason, "ok")
    assert second["metrics"]["drive.write.ios"] > 0


@pytest.mark.root
def test_the_groups_of_a_run_whose_helpers_were_killed_too_go_with_the_next_command(place: Path) -> None:
    if not (limits := limits_here()):
        pytest.skip("needs control groups")
    (place / "s.toml").write_text(table(FILE.replace("100ms", "60s"), limits))
    with started(place, "s.toml", "--output", "out") as runner:
        until(lambda: groups(runner.pid) and running(place, b"job.fio"))
        end_all(place)
    until(lambda: not processes(place) and not any(list(cgroup.members_of(one)) for one in groups(runner.pid)))
    run_next(place / "next")
    assert groups(runner.pid) == []
    assert (
        ownership_mark.read(place / "disk/testfile") is not None
    )  # nobody is left who could know that it was not to stay


def end_all(place: Path) -> None:
    """SIGKILL for a run and its helpers at once, as the end of a container does: stopped first, so that none acts."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in processes(place):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def test_a_file_that_stays_is_named_with_the_command_that_removes_it(place: Path, ioassay: Ask) -> None:
    folder = place / "disk" / "a folder"
    folder.mkdir()
    path = "disk/a folder/it's here"
    text = FILE.replace("disk/testfile", path).replace("keep = false\n", "")
    (place / "s.toml").write_text(table(text).replace("repetitions = 50", "repetitions = 1"))
    answer = ioassay("run", "s.toml", "--output", "out", cwd=place)
    assert answer.code == 0, answer.err
    lines = [line.strip() for line in (answer.out + answer.err).splitlines()]
    assert f"kept    {place / path} (16 MiB), which the next run uses again" in lines
    (removal,) = [line.removeprefix("to remove it: ") for line in lines if line.startswith("to remove it: ")]
    assert shlex.split(removal)[:2] == ["rm", "--"]
    subprocess.run(["sh", "-c", removal], check=True)
    assert list(folder.iterdir()) == []


def test_an_interrupted_run_names_the_file_that_stays(place: Path) -> None:
    text = FILE.replace("keep = false\n", "").replace("100ms", "60s")
    (place / "s.toml").write_text(table(text))
    with started(place, "s.toml", "--output", "out") as runner:
        until(lambda: running(place, b"job.fio"))
        runner.send_signal(signal.SIGINT)
        said, _ = runner.communicate(timeout=PATIENCE_S)
    assert runner.returncode == 130
    assert f"to remove it: rm -- {place}/disk/testfile" in said


def test_a_users_path_without_system_folders_leaves_no_file(place: Path, ioassay: Ask) -> None:
    """A login of Debian's has no /usr/sbin: without wipefs nobody knows what a file holds, and it stays."""
    (place / "study.toml").write_text(table(FILE).replace("repetitions = 50", "repetitions = 1"))
    programs = os.pathsep.join(dict.fromkeys(str(Path(shutil.which(name) or "").parent) for name in ("fio", "sh")))
    assert shutil.which("wipefs", path=programs) is None
    answer = ioassay("run", "study.toml", "--output", "out", "--json", cwd=place, env={"PATH": programs})
    assert answer.code == 0, answer.err
    assert answer.json["kept_files"] == []
    assert list((place / "disk").iterdir()) == []
