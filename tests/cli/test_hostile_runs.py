"""Runs that are broken, in use, unreadable or on a full disk: what is said, what is kept, how it goes on."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Ask, start
from .terminal import until

SLOW = 'title = "Slow"\ndriver = "null"\nrepetitions = 5\n[params]\nsleep = "100ms"\n[watch]\nmonitors = []\n'
BIG = 'title = "Big"\ndriver = "null"\nrepetitions = 30\n[params]\nsamples = 2000\n[watch]\nmonitors = []\n'


def records(run: Path) -> list[Path]:
    return sorted(run.glob("trials/*/record.json"))


def test_a_corrupted_record_is_named_and_measured_again_once_it_is_gone(ioassay: Ask, a_run: Path) -> None:
    broken = records(a_run)[0]
    broken.write_text('{"schema": 1, "tri')
    for question in (
        ["report", a_run],
        ["run", "--resume", a_run],
        ["sql", a_run, "SELECT 1"],
        ["compare", a_run, a_run],
    ):
        answer = ioassay(*question)
        assert answer.code == 2
        assert f"{broken}: is corrupted" in answer.err
        assert f"remove it and measure that trial again with: ioassay run --resume {a_run}" in answer.err
    kept = {path: path.stat().st_mtime_ns for path in records(a_run)[1:]}
    broken.unlink()
    assert ioassay("run", "--resume", a_run, "--json").json["trials"]["ok"] == 4
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_corrupted_parquet_file_is_named(ioassay: Ask, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(BIG.replace("30", "2"))
    assert ioassay("run", "s.toml", "--output", "run").code == 0
    broken = next((tmp_path / "run").glob("trials/*/series.parquet"))
    broken.write_bytes(broken.read_bytes()[:100])
    answer = ioassay("report", "run")
    assert answer.code == 2
    assert str(broken.relative_to(tmp_path)) in answer.err


def test_a_plan_of_another_study_is_refused(ioassay: Ask, a_run: Path) -> None:
    plan = a_run / "plan.jsonl"
    plan.write_text(plan.read_text().replace('"study": "null"', '"study": "other"'))
    answer = ioassay("run", "--resume", a_run)
    assert answer.code == 2
    assert "plan.jsonl has trials of 'other', which study.toml has not" in answer.err


def test_a_plan_cannot_make_the_run_empty_another_folder(ioassay: Ask, a_run: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").touch()
    plan = a_run / "plan.jsonl"
    first, *others = plan.read_text().splitlines()
    trial = {**json.loads(first), "id": "../../thesis"}
    plan.write_text("\n".join([json.dumps(trial), *others]))
    answer = ioassay("run", "--resume", a_run)
    assert answer.code == 2
    assert "id: wanted 16 hexadecimal digits; found '../../thesis'" in answer.err
    assert (tmp_path / "thesis" / "chapter").exists()


@pytest.mark.fio
def test_no_long_line_of_a_job_file_hides_a_file_that_fio_writes(ioassay: Ask, tmp_path: Path) -> None:
    """fio reads 8191 bytes of a line, and takes the rest for the next one."""
    padding = "x" * (8191 - len("description="))
    (tmp_path / "precious").write_text("precious")
    hiding = f"description={padding}filename=precious\nfilename=harmless\n"
    (tmp_path / "my.fio").write_text(f"[a]\nrw=write\nbs=4k\nsize=4k\n{hiding}")
    assert ioassay("run", "my.fio", "--repetitions", 1).code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.fio", "precious"]
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.root
def test_a_full_disk_in_the_middle_keeps_all_and_goes_on(
    ioassay: Ask, tmp_path: Path, small_disk: Callable[..., Path], more_room: Callable[[Path, int], None]
) -> None:
    disk = small_disk(450)
    (tmp_path / "big.toml").write_text(BIG)
    answer = ioassay("run", "big.toml", "--output", disk / "run", "--json")
    assert answer.code == 1
    assert "No space left on device; everything recorded before is kept" in answer.err
    assert f"ioassay run --resume {disk / 'run'}" in answer.json["error"]
    kept = {path: path.stat().st_mtime_ns for path in records(disk / "run")}
    assert 0 < len(kept) < 30
    report = ioassay("report", disk / "run")
    assert report.code == 1
    assert f"all records are kept. Fix that, then run: ioassay report {disk / 'run'}" in report.err
    more_room(disk, 50_000)
    assert ioassay("run", "--resume", disk / "run", "--json").json["trials"]["ok"] == 30
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.root
def test_a_disk_without_any_room_is_told_at_once(
    ioassay: Ask, null_study: Path, small_disk: Callable[..., Path]
) -> None:
    disk = small_disk(4)
    answer = ioassay("run", null_study, "--output", disk / "run")
    assert answer.code == 1
    assert "No space left on device; --output names another place" in answer.err
    assert list(disk.iterdir()) == []


@pytest.mark.root
def test_a_read_only_place_is_told_so(
    ioassay: Ask, null_study: Path, finished_run: Path, small_disk: Callable[..., Path]
) -> None:
    disk = small_disk(20_000)
    shutil.copytree(finished_run, disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    answers = {
        ("run", null_study): "Read-only file system; --output names another place",
        ("quick", "."): ".: cannot be written: Read-only file system; name another folder",
        ("report", "run"): "run/report: Read-only file system; all records are kept",
        ("run", "--resume", "run"): "Read-only file system; everything recorded before is kept",
    }
    for question, message in answers.items():
        answer = ioassay(*question, cwd=disk)
        assert answer.code in (1, 2)
        assert message in answer.err


SEARCH = ("--maximize", "value", "--trials", "16", "--confirm", "3", "--workers", "2")


@pytest.mark.parametrize("search", [False, True], ids=["run", "search"])
def test_what_is_interrupted_says_how_to_go_on_and_does(search: bool, ioassay: Ask, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SLOW + "[factors]\nx = [1, 2, 3, 4, 5, 6, 7, 8]\n")
    folder, verb = tmp_path / "my run", "tune" if search else "run"
    words = (verb, "slow.toml", *(SEARCH if search else ()), "--output", folder.name, "--json")
    with start(*words, cwd=tmp_path, of_its_own=True) as running:
        until(lambda: records(folder) or running.has_ended())
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130, running.err
        assert f"interrupted; what was recorded is kept. Go on with: ioassay {verb} --resume 'my run'" in running.err
        assert json.loads(running.out)["exit_code"] == 130
    kept = {path: path.stat().st_mtime_ns for path in records(folder)}
    if not search:
        (folder / "study.toml").write_text((folder / "study.toml").read_text().replace("100ms", "1ms"))
    answer = ioassay(verb, "--resume", folder.name, "--json")
    assert answer.code == 0
    assert len(answer.json["history"] if search else records(folder)) == len(records(folder)) > len(kept) > 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_run_is_resumed_by_one_at_a_time(ioassay: Ask, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SLOW.replace("= 5", "= 4000"))
    with start("run", "slow.toml", "--output", "run", cwd=tmp_path, of_its_own=True) as running:
        until(lambda: records(tmp_path / "run") or running.has_ended())
        second = ioassay("run", "--resume", "run")
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 130
    assert second.code == 1
    assert "another ioassay is running this run; wait for it or end it" in second.err


@pytest.mark.root
def test_a_run_of_somebody_else_is_told_so(finished_run: Path, nobody: list[str]) -> None:
    done = subprocess.run(
        [*nobody, sys.executable, "-I", "-m", "ioassay", "report", str(finished_run)],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.returncode in (1, 2)
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr
