"""Runs that are broken, in use, unreadable or on a full disk: what is said, what is kept, how it goes on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SLOW = 'title = "Slow"\ndriver = "null"\nrepetitions = 40\n[params]\nsleep = "100ms"\n[watch]\nmonitors = []\n'
BIG = 'title = "Big"\ndriver = "null"\nrepetitions = 30\n[params]\nsamples = 2000\n[watch]\nmonitors = []\n'


def records(run: Path) -> list[Path]:
    return sorted(run.glob("trials/*/record.json"))


def test_a_corrupted_record_is_named_and_measured_again_once_it_is_gone(ioassay: Any, a_run: Path) -> None:
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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("plan.jsonl", b"{half\n", "plan.jsonl: line 1 is corrupted"),
        ("plan.jsonl", b"", "plan.jsonl: is empty"),
        ("study.toml", b"title =", "study.toml: is corrupted"),
        ("host.json", b"[]", "host.json: is []; wanted an object"),
        ("host.json", None, "host.json: cannot be read: No such file"),
    ],
)
def test_a_corrupted_run_is_told_with_its_file(
    ioassay: Any, a_run: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is None:
        (a_run / name).unlink()
    else:
        (a_run / name).write_bytes(content)
    answer = ioassay("report", a_run, "--json")
    assert answer.code == 2
    assert message in answer.err
    assert message in answer.json["error"]
    assert len(records(a_run)) == 4


def test_a_corrupted_parquet_file_is_named(ioassay: Any, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(BIG.replace("30", "2"))
    assert ioassay("run", "s.toml", "--output", "run").code == 0
    broken = next((tmp_path / "run").glob("trials/*/series.parquet"))
    broken.write_bytes(broken.read_bytes()[:100])
    answer = ioassay("report", "run")
    assert answer.code == 2
    assert str(broken.relative_to(tmp_path)) in answer.err


def test_a_plan_of_another_study_is_refused(ioassay: Any, a_run: Path) -> None:
    plan = a_run / "plan.jsonl"
    plan.write_text(plan.read_text().replace('"study": "null"', '"study": "other"'))
    answer = ioassay("run", "--resume", a_run)
    assert answer.code == 2
    assert "plan.jsonl has trials of 'other', which study.toml has not" in answer.err


def test_a_plan_cannot_make_the_run_empty_another_folder(ioassay: Any, a_run: Path, tmp_path: Path) -> None:
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


def test_what_is_no_run_is_told_so(ioassay: Any, tmp_path: Path, null_study: Path) -> None:
    for place, what in (("nowhere", "no such folder"), (".", "has no plan.jsonl"), ("null.toml", "is a file")):
        for question in (
            ["report", place],
            ["run", "--resume", place],
            ["compare", place, place],
            ["sql", place, "SELECT 1"],
        ):
            answer = ioassay(*question)
            assert answer.code == 2
            assert f"{place}: {what}; wanted the folder of a run" in answer.err


def test_an_output_that_is_there_is_left_alone(ioassay: Any, a_run: Path, null_study: Path, tmp_path: Path) -> None:
    answer = ioassay("run", null_study, "--output", a_run)
    assert answer.code == 2
    assert (
        f"exists already; wanted a new or an empty folder; to go on with it: ioassay run --resume {a_run}" in answer.err
    )
    for place, what in (
        (tmp_path, "exists already"),
        (null_study, "is a file"),
        (null_study / "x", "cannot be created"),
    ):
        answer = ioassay("run", null_study, "--output", place)
        assert answer.code in (1, 2)
        assert what in answer.err
    assert len(records(a_run)) == 4


def test_a_run_without_any_record_has_a_page_that_says_so(ioassay: Any, a_run: Path) -> None:
    shutil.rmtree(a_run / "trials")
    found = ioassay("report", a_run, "--json")
    assert found.code == 0
    assert found.json["trials"] == {"planned": 4, "ok": 0, "failed": 0, "skipped": 0, "unneeded": 0}
    assert Path(found.json["report"]).is_file()
    told = ioassay("report", a_run)
    assert "4 trials: 4 without a record" in told.out
    assert f"ioassay run --resume {a_run}" in told.out


def test_a_run_whose_trials_all_failed_has_a_page_and_ends_with_1(
    ioassay: Any, tmp_path: Path, null_study: Path
) -> None:
    done = ioassay("run", null_study, "--set", "fail_share=1", "--output", "run", "--json")
    assert done.code == 1
    assert done.json["trials"]["failed"] == 4
    assert done.json["failures"][0]["trials"] == 4
    assert "fail_share" in done.json["failures"][0]["reason"]
    page = (tmp_path / done.json["report"]).read_text()
    assert "fail_share" in page
    told = ioassay("report", "run")
    assert told.code == 0
    assert "4 trials: 4 failed" in told.out
    assert told.err.count("failed:") == 1
    assert "and 3 others" in told.err


def test_a_run_whose_trials_were_all_skipped_says_why_and_ends_with_1(ioassay: Any, null_study: Path) -> None:
    done = ioassay("run", null_study, "--set", "skip_share=1", "--output", "run", "--json")
    assert (done.code, done.json["trials"]["skipped"], done.json["failures"]) == (1, 4, [])
    assert "no trial was measured" in done.err
    (skip,) = done.json["skips"]
    assert skip["trials"] == 4 and "skip_share" in skip["reason"]
    told = ioassay("report", "run")
    assert told.err.count("skipped:") == 1
    assert "and 3 others" in told.err and "skip_share" in told.err


def test_runs_that_share_nothing_are_not_compared(ioassay: Any, a_run: Path, tmp_path: Path, null_study: Path) -> None:
    done = ioassay("run", null_study, "--set", "title=Other", "--factor", "x=7", "--output", "other", "--json")
    assert done.code == 0
    answer = ioassay("compare", a_run, "other", "--json")
    assert answer.code == 2
    assert "share no condition" in answer.json["error"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC", "syntax error"),
        ("", "the query is empty"),
        ("SELECT nothing FROM trials", "nothing"),
        ("COPY trials TO 'stolen.csv'", "file system operations are disabled"),
        ("SELECT * FROM read_text('/etc/hostname')", "file system operations are disabled"),
        ("ATTACH 'stolen.db'", "file system operations are disabled"),
        ("INSTALL httpfs", "disabled"),
        ("SET enable_external_access = true", "configuration has been locked"),
        ("SELECT now()", "cast it"),
    ],
)
def test_a_query_reaches_nothing_but_the_runs(
    ioassay: Any, finished_run: Path, tmp_path: Path, query: str, message: str
) -> None:
    answer = ioassay("sql", finished_run, query, "--json")
    assert answer.code == 2
    assert message in answer.json["error"]
    assert list(tmp_path.iterdir()) == []


def test_runs_of_one_name_are_told_apart_and_none_is_read_twice(
    ioassay: Any, finished_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished_run, tmp_path / "run")
    rows = ioassay("sql", finished_run, "run", "SELECT DISTINCT run FROM trials ORDER BY 1", "--json").json["rows"]
    assert rows == [{"run": str(finished_run)}, {"run": "run"}]
    twice = ioassay("sql", "run", "./run", "SELECT 1")
    assert (twice.code, "named twice" in twice.err) == (2, True)


@pytest.mark.root
def test_a_full_disk_in_the_middle_keeps_all_and_goes_on(
    ioassay: Any, tmp_path: Path, small_disk: Callable[..., Path], more_room: Callable[[Path, int], None]
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
    ioassay: Any, null_study: Path, small_disk: Callable[..., Path]
) -> None:
    disk = small_disk(4)
    answer = ioassay("run", null_study, "--output", disk / "run")
    assert answer.code == 1
    assert "No space left on device; --output names another place" in answer.err
    assert list(disk.iterdir()) == []


@pytest.mark.root
def test_a_read_only_place_is_told_so(
    ioassay: Any, null_study: Path, finished_run: Path, small_disk: Callable[..., Path]
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


def start(*argv: str, cwd: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-I", "-m", "ioassay", *argv]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(what: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    while not what():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_an_interrupted_run_says_how_to_go_on_and_does(ioassay: Any, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SLOW)
    process = start("run", "slow.toml", "--output", "my run", "--json", cwd=tmp_path)
    wait_for(lambda: records(tmp_path / "my run"), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; what was recorded is kept. Go on with: ioassay run --resume 'my run'" in err
    assert "Traceback" not in err
    assert json.loads(out)["exit_code"] == 130
    kept = {path: path.stat().st_mtime_ns for path in records(tmp_path / "my run")}
    (tmp_path / "my run" / "study.toml").write_text(
        (tmp_path / "my run" / "study.toml").read_text().replace("100ms", "1ms")
    )
    assert ioassay("run", "--resume", "my run", "--json").json["trials"]["ok"] == 40
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_run_is_resumed_by_one_at_a_time(ioassay: Any, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SLOW)
    process = start("run", "slow.toml", "--output", "run", cwd=tmp_path)
    wait_for(lambda: records(tmp_path / "run"), process)
    second = ioassay("run", "--resume", "run")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert second.code == 1
    assert "another ioassay is running this run; wait for it or end it" in second.err


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="needs users")
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
