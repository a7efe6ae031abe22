"""The real command line: one JSON object on stdout, documented keys, exit codes, progress on a terminal only."""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import ask, ask_alone

COMMANDS = ("quick", "run", "plan", "studies", "report", "compare", "import", "doctor", "sql", "export")
NULL = """
title = "Null"
driver = "null"
repetitions = 3
[params]
metrics = { "read.bw" = 1e8 }
noise = 0.01
[params.effects.x]
1 = 1.0
2 = 1.5
[factors]
x = [1, 2]
[analysis]
responses = ["read.bw"]
[[figures]]
kind = "trend"
name = "x"
x = "x"
y = "read.bw"
"""


def result(*argv: str, cwd: Path, exit_code: int = 0) -> dict[str, Any]:
    answer = ask(*argv, "--json", cwd=cwd)
    assert answer.code == exit_code, answer.err
    return answer.json


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and two runs of it, A and B."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "null.toml").write_text(NULL)
    for name, asked in {"A": ask_alone, "B": ask}.items():
        answer = asked("run", "null.toml", "--output", name, "--json", cwd=folder)
        assert answer.code == 0, answer.err
        (folder / f"{name}.json").write_text(answer.out)
        (folder / f"{name}.err").write_text(answer.err)
    return folder


def test_a_run_says_what_it_came_to(work: Path) -> None:
    found = json.loads((work / "A.json").read_text())
    assert {"run", "report", "trials", "findings", "figures", "warnings"} <= set(found)
    assert found["trials"] == {"planned": 6, "ok": 6, "failed": 0, "skipped": 0, "unneeded": 0}
    assert (work / found["report"]).is_file()
    assert [figure["name"] for figure in found["figures"]] == ["x"]
    assert all((work / figure[kind]).is_file() for figure in found["figures"] for kind in ("png", "svg"))
    assert any(finding["question"] == "conclude" for finding in found["findings"])


def test_without_a_terminal_nothing_is_said_beside_the_result(work: Path) -> None:
    assert (work / "A.err").read_text() == ""


def test_on_a_terminal_progress_shows_the_time_left_and_the_point(tmp_path: Path) -> None:
    (tmp_path / "null.toml").write_text(NULL.replace("[params]\n", '[params]\nsleep = "200ms"\n'))
    master, slave = pty.openpty()
    command = [sys.executable, "-I", "-m", "ioassay", "run", "null.toml", "--output", "run"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=slave, env={**os.environ, "COLUMNS": "120"}
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other end is closed: the command has ended
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert process.wait() == 0
    text = shown.decode(errors="replace")
    assert "left" in text
    assert "null x=" in text
    assert "6/6" in text


def test_a_plan_runs_nothing(work: Path) -> None:
    before = sorted(work.iterdir())
    found = result("plan", "null.toml", cwd=work)
    assert found["trials"] == len(found["order"]) == 6
    assert found["studies"][0]["points"] == 2
    assert sorted(work.iterdir()) == before


def test_studies_and_their_schema_are_listed(work: Path) -> None:
    names = {study["name"] for study in result("studies", cwd=work)["studies"]}
    assert {"quick", "block-io", "write-share", "block-size", "mixed-sizes", "jobs"} <= names
    assert "properties" in json.loads(ask("studies", "--schema", cwd=work).out)


def test_a_report_is_made_anew(work: Path) -> None:
    shutil.copytree(work / "A", work / "copy")
    shutil.rmtree(work / "copy" / "report")
    assert result("report", "copy", cwd=work)["trials"]["ok"] == 6
    assert (work / "copy" / "report" / "index.html").is_file()


def test_equal_runs_compare_and_a_regression_ends_with_1(work: Path) -> None:
    found = result("compare", "A", "B", "--junit", "junit.xml", cwd=work)
    assert not found["regression"]
    assert "<testsuites" in (work / "junit.xml").read_text()
    (work / "slow.toml").write_text('name = "null"\n' + NULL.replace("1e8", "5e7"))
    slow = ask("run", "slow.toml", "--output", "C", cwd=work)
    assert slow.code == 0, slow.err
    assert result("compare", "A", "C", cwd=work, exit_code=1)["regression"]


def test_sql_answers_and_reaches_no_other_file(work: Path) -> None:
    found = result("sql", "A", "B", "SELECT run, count(*) AS n FROM trials GROUP BY ALL ORDER BY run", cwd=work)
    assert found["rows"] == [{"run": "A", "n": 6}, {"run": "B", "n": 6}]
    assert result("sql", "A", "B", "SELECT count(name) AS n FROM calls", cwd=work)["rows"] == [{"n": 0}]
    refused = ask("sql", "A", f"SELECT * FROM read_text('{work}/A.json')", cwd=work)
    assert refused.code == 2
    assert "the query failed" in refused.err


def test_the_doctor_answers(work: Path) -> None:
    found = result("doctor", cwd=work)
    assert {"facts", "warnings"} <= set(found)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help(command: str, tmp_path: Path) -> None:
    done = ask(command, "--help", cwd=tmp_path)
    assert done.code == 0
    assert "Usage: ioassay" in done.out


@pytest.mark.parametrize(
    ("argv", "exit_code", "message"),
    [
        (["run", "nothing"], 2, "no study called 'nothing'"),
        (["run"], 2, "no study given"),
        (["run", "null.toml", "--output", "A"], 2, "exists already"),
        (["run", "--resume", "nowhere"], 2, "nowhere: no such folder"),
        (["run", "null.toml", "--set", "colour"], 2, "--set colour: wanted key=value"),
        (["run", "null.toml", "--factor", "x="], 2, "has no levels"),
        (
            ["plan", "null.toml", "--factor", "bs=4k,4KiB"],
            2,
            "null.toml: factors.bs: levels '4k' and '4KiB' are the same",
        ),
        (["run", "null.toml", "--factor", 'x=1,"1"'], 2, "null.toml: factors.x: levels 1 and '1' are the same"),
        (
            ["tune", "null.toml", "--maximize", "read.bw", "--trials", "4", "--range", "y=1s,1000ms"],
            2,
            "'1s' and '1000ms' both mean 1 s",
        ),
        (["report", "nowhere"], 2, "no such folder"),
        (["compare", "A", "B", "--margin", "lots"], 2, "--margin lots"),
        (["import", "null.toml"], 2, "null.toml"),
        (["quick", "--budget", "1s"], 2, "too short"),
        (["quick", "nowhere"], 2, "nowhere"),
        (["sql", "A"], 2, "wanted at least one run and a query"),
        (["frobnicate"], 2, "frobnicate"),
        (["run", "--frob"], 2, "--frob"),
    ],
)
def test_a_mistake_has_its_exit_code_and_message(work: Path, argv: list[str], exit_code: int, message: str) -> None:
    done = ask(*argv, cwd=work)
    assert done.code == exit_code, done.err
    assert message in done.err
    assert "Traceback" not in done.err


def test_an_error_under_json_is_json(work: Path) -> None:
    found = result("run", "nothing", cwd=work, exit_code=2)
    assert found["exit_code"] == 2
    assert "no study called" in found["error"]


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path) -> None:
    done = ask("run", "jobs", "--set", f"target.path={tmp_path}/f", cwd=tmp_path, env={"PATH": "/nonexistent"})
    assert done.code == 1
    assert "apt-get install fio" in done.err


@pytest.mark.root
@pytest.mark.fio
def test_a_device_that_holds_data_ends_with_3(tmp_path: Path, loop_device: Any) -> None:
    device = loop_device(8 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(device)], check=True, capture_output=True)
    changes = ["--set", "target.kind=device", "--set", f"target.path={device}", "--set", "target.size=4MiB"]
    done = ask("run", "jobs", *changes, cwd=tmp_path)
    assert done.code == 3, done.err
    assert "ext4" in done.err
    assert f"--destroy-data={device}" in done.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.fio
@pytest.mark.slow
def test_quick_keeps_its_promises(tmp_path: Path) -> None:
    found = result("quick", ".", "--budget", "15", cwd=tmp_path)
    assert {"run", "report", "target", "warnings", "rows"} <= set(found)
    wanted = {"workload", "metric", "unit", "mean", "median", "ci95", "repetitions"}
    assert all(wanted <= set(row) for row in found["rows"])
    assert len({row["workload"] for row in found["rows"]}) == 6
    assert all(row["repetitions"] >= 3 for row in found["rows"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


@pytest.mark.fio
@pytest.mark.slow
def test_two_quick_runs_compare_without_a_warning(tmp_path: Path) -> None:
    for name in ("A", "B"):
        assert ask("quick", ".", "--budget", "15s", "--output", name, cwd=tmp_path).code == 0
    answer = ask("compare", "A", "B", cwd=tmp_path)
    assert answer.code in (0, 1)
    assert "warning" not in answer.err
    found = result("compare", "A", "B", cwd=tmp_path, exit_code=answer.code)
    assert found["warnings"] == found["only_a"] == found["only_b"] == []
    assert len(found["rows"]) == 24
