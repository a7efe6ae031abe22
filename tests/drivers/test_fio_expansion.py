"""What fio itself reads in a job file decides: the lab's reading is held against it, in each case and at random."""

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ioassay.drivers.fio import Fio
from ioassay.errors import SafetyRefusal, StudyError
from ioassay.roles import WRITE

from . import fio_jobs

JOBS = int(os.environ.get("IOASSAY_FIO_JOBS") or (10_000 if os.environ.get("IOASSAY_THOROUGH") else 60))
"""Job files that are held against the real fio; with 10000 this takes some minutes."""
RUNS = max(JOBS // 10, 30)
SEED = int(os.environ.get("IOASSAY_SEED") or 1)
"""The same jobs in every run, so that ./check says the same of the same tree."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where random jobs run, with what they open, and with the environment that they use."""
    for name, value in {**fio_jobs.ENVIRONMENT, "BASE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    for name in ("UNSET", "UNCLOSED"):
        monkeypatch.delenv(name, raising=False)
    made(tmp_path)
    return tmp_path


def made(folder: Path) -> None:
    """Folders, files and links that random jobs name."""
    for place in folder.iterdir():
        shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    for name in (*fio_jobs.FOLDERS, "empty"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("tree/f1", "tree/deep/f2", "x"):
        (folder / name).write_bytes(bytes(16384))
    (folder / "tree" / "link").symlink_to(folder / "x")


def rehearsed(text: str, folder: Path) -> str:
    """'' where fio and the lab read the same, else what one of them says."""
    fio, params = Fio(), {"job": text, "job_path": str(folder / "my.fio"), "job_folder": str(folder)}
    notes = folder.parent / f"{folder.name}-notes"
    notes.mkdir(exist_ok=True)
    try:
        fio.touches(params)
        rehearsal = fio.rehearsal(params, notes)
        assert rehearsal is not None
        for name, content in rehearsal.command.files.items():
            (notes / name).write_bytes(content.encode())
        done = subprocess.run(rehearsal.command.argv, cwd=folder, capture_output=True, timeout=60)
        rehearsal.confirm(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    except (StudyError, SafetyRefusal) as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.fio
def test_random_job_files_are_read_as_fio_reads_them(folder: Path) -> None:
    """No job file that both read may differ in an option or a path, and most are read by both."""
    draw, outcomes = random.Random(SEED), Counter[str]()
    for number in range(JOBS):
        text = fio_jobs.job_file(draw, folder)
        why = rehearsed(text, folder)
        assert not why.startswith("SafetyRefusal"), f"job file {number}:\n{text!r}\n{why}"
        outcomes["refused" if why else "same"] += 1
    assert outcomes["same"] > JOBS // 4, outcomes


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """File -> size and time of its last change, which a write of the same bytes moves too."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.mark.fio
def test_what_random_jobs_write_was_found_before(folder: Path) -> None:
    """fio runs the jobs for real: each file that it makes or changes was named, and each that was named is there."""
    draw, written = random.Random(SEED), 0
    for number in range(RUNS):
        made(folder)
        text = fio_jobs.job_file(draw, folder)
        if rehearsed(text, folder):
            continue
        params = {"job": text, "job_path": str(folder / "my.fio"), "job_folder": str(folder)}
        touches = Fio().touches(params)
        named = {os.path.realpath(touch.path) for touch in touches if touch.access == WRITE}
        (folder.parent / "run.fio").write_bytes(text.encode())
        before = contents(folder)
        log = folder.parent / "logs"
        log.mkdir(exist_ok=True)
        command = ["fio", f"--aux-path={log}", "--fsync=1", "--size=4k", str(folder.parent / "run.fio")]
        subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
        changed = {name for name, state in contents(folder).items() if before.get(name) != state}
        strange = {
            name for name in changed if os.path.realpath(folder / name) not in named and not name.endswith(".log")
        }
        assert not strange, f"job file {number}:\n{text!r}\nwrote {strange}, named {named}"
        written += len(changed)
    assert written > RUNS // 4


@pytest.mark.fio
def test_options_of_engines_are_compared_although_defaults_stand_before_them(folder: Path) -> None:
    text = "[a]\nioengine=io_uring\nhipri=0\nfixedbufs=0\nsize=4k\nfilename=x\n"
    assert rehearsed(text, folder) == ""
    assert rehearsed("[global]\nioengine=libaio\nuserspace_reap=0\n[a]\nsize=4k\n", folder) == ""


@pytest.mark.fio
@pytest.mark.parametrize("end", ["", "\n", "\n \t", "\n;", "\nbs=4k", "\ninclude blank.inc"])
def test_a_last_line_without_a_line_feed_is_read(end: str, folder: Path) -> None:
    (folder / "blank.inc").write_text("bs=4k\n \t ")
    assert rehearsed(f"[global]\nfilename=x\nsize=4k\n[a]{end}", folder) == ""
