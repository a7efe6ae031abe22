"""The driver command: places, metrics by pattern and path, claims, and how a program's end is judged."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.drivers import driver
from ioassay.formats import user_claims
from ioassay.packs.command import driver as command_driver
from ioassay.roles import READ, WRITE, Load, Parsed, Touch
from ioassay.store import dataset
from ioassay.study.model import make_study

from ...cli.conftest import ask
from ...corpora import CORPUS, cases
from ...drivers.trials import GOLDEN, ended, trial

Judge = Callable[..., Parsed]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """What the driver makes of a program's output and end."""

    def parse(params: dict[str, Any], stdout: str | bytes = "", stderr: str = "", **how: Any) -> Parsed:
        outcome = ended(tmp_path, stdout, stderr, **{"duration_s": 1.5, **how})
        return driver("command").parse(trial("command", {"argv": ["prog"], **params}), outcome, tmp_path)

    return parse


def reading(**keys: Any) -> dict[str, Any]:
    return {"metrics": {"tool.speed": keys}}


@cases("drivers", "command_readings")
def test_a_number_is_found_by_pattern_or_path(judge: Judge, case: dict[str, Any]) -> None:
    parsed = judge(reading(**case["keys"]), case["report"])
    if "fails" in case:
        assert parsed.status == "failed"
        assert case["fails"] in parsed.reason
    else:
        assert (parsed.status, parsed.reason) == ("ok", "")
        assert parsed.metrics == {"command.time": 1.5, "tool.speed": pytest.approx(case["value"])}


def test_a_number_among_bytes_that_are_no_text_is_found(judge: Judge) -> None:
    parsed = judge(reading(regex="([0-9.e-]+) s"), b"\xff\xfe caf\xe9 1.5e-05 s\n")
    assert parsed.metrics["tool.speed"] == pytest.approx(1.5e-05)


def test_a_report_may_be_a_file_of_the_raw_folder_and_no_link(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"iops": 5}')
    assert judge(reading(json="$.iops", **{"from": "report.json"})).metrics["tool.speed"] == 5.0
    (tmp_path / "link.json").symlink_to(tmp_path / "report.json")
    assert "wrote no file 'link.json'" in judge(reading(json="$.iops", **{"from": "link.json"})).reason


def test_an_output_that_is_no_report_is_not_read(judge: Judge, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(command_driver.LARGEST_OUTPUT_BYTES + 1)
    parsed = judge(reading(regex="(.)", **{"from": "huge"}))
    assert "huge has 64 MiB; expected at most 64 MiB" in parsed.reason


def test_a_pattern_without_end_fails_the_trial(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_claims, "_MOST_CPU_S", 0.2)
    parsed = judge(reading(regex=r"(?P<value>(a|aa)+)$"), "a" * 60 + "!")
    assert parsed.status == "failed" and "took more than 0.2 s of CPU time" in parsed.reason


def test_the_end_of_a_program_is_judged(judge: Judge) -> None:
    failed = judge({}, stderr="first\nno space left\n", exit_code=3)
    assert failed.status == "failed"
    assert failed.reason == "prog exited with status 3, expected 0; it said: no space left"
    assert judge({"exit_status": [0, 3]}, exit_code=3).status == "ok"
    assert "was ended by signal 9" in judge({}, exit_code=None, signal=9).reason
    assert "raise params.timeout" in judge({}, exit_code=None, signal=15, timed_out=True).reason


def test_claims_are_those_that_the_study_states(judge: Judge) -> None:
    stated = {"claims": [{"regex": "(?P<bytes>[0-9]+) bytes", "kind": "write", "from": "stderr"}]}
    (claim,) = judge(stated, stderr="wrote 4096 bytes").claims
    assert (claim.source, claim.kind, claim.bytes) == ("user", "write", 4096)
    assert "params.claims[0].regex" in judge(stated, stderr="wrote nothing").reason


def test_without_any_the_claims_of_a_known_tool_are_read(judge: Judge) -> None:
    said = (GOLDEN / "dd" / "9.1" / "plain.txt").read_text()
    claims = judge({"argv": ["dd", "if={target}", "of=/dev/null", "bs=64k"]}, stderr=said).claims
    assert claims and {(claim.source, claim.paths) for claim in claims} == {("dd", ())}
    assert judge({"argv": ["prog"]}, "nothing that is known").claims == []


def test_places_are_filled_in(tmp_path: Path) -> None:
    params = {
        "argv": ["tool", "--file={target}", "bs={bs:bytes}", "{flag}", "{{bs}}", "{print $1}", "t={time:seconds}"],
        "env": {"SEED": "{seed}-{repetition}"},
        "files": {"job.json": '{"size": {size}, "out": "{raw}"}'},
        "cwd": "{raw}",
        "timeout": "5s",
        "bs": "4KiB",
        "flag": "",
        "time": "2m",
    }
    load = Load("file", tmp_path / "f", 8192, read_only=False)
    command = driver("command").command(trial("command", params, seed=7, repetition=2), load, tmp_path)
    assert command.argv == ["tool", f"--file={tmp_path / 'f'}", "bs=4096", "{bs}", "{print $1}", "t=120"]
    assert command.env == {"SEED": "7-2"}
    assert json.loads(command.files["job.json"]) == {"size": 8192, "out": str(tmp_path)}
    assert (command.cwd, command.timeout_s) == (tmp_path, 5.0)


def test_what_a_program_may_touch_is_stated() -> None:
    params = {"argv": ["true"], "reads": ["/a"], "writes": {"/b-{n}": "1MiB"}, "n": 3}
    assert driver("command").touches(params) == [Touch(Path("/a"), READ), Touch(Path("/b-3"), WRITE, 1 << 20)]


def test_kinds_of_claims_are_those_that_users_state() -> None:
    for kind in user_claims.KINDS:
        assert command_driver.ClaimPattern(regex="(?P<bytes>.)", kind=kind).kind == kind


def test_a_program_is_measured_from_the_study_to_the_page(tmp_path: Path) -> None:
    shutil.copy(CORPUS / "drivers" / "command_copy.toml", tmp_path / "copy.toml")
    refused = ask("run", "copy.toml", "--json", cwd=tmp_path)
    assert refused.code == 3
    assert "params.argv = dd 'if={target}' of=/dev/null 'bs={bs:bytes}' runs a program" in refused.err
    answer = ask("run", "copy.toml", "--json", "--allow-exec", "--output", "run", cwd=tmp_path)
    assert answer.code == 0, answer.err
    ran = json.loads(answer.out)
    assert ran["trials"]["ok"] == 4
    assert [figure["name"] for figure in ran["figures"]] == ["dd_speed_by_bs"]
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert "Speed of the copy" in page and ">dd.speed<" not in page
    records = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("trials/*/record.json")]
    assert all(record["claims"][0]["bytes"] == 1 << 20 for record in records)
    assert all(record["metrics"]["dd.speed"] > 0 for record in records)


def test_metrics_of_a_study_are_known_where_its_records_are_read() -> None:
    keys = {"json": "$.a", "unit": "grains/s", "label": "Speed of sand"}
    params = {"argv": ["true"], "metrics": {"sand.speed": keys}}
    study = make_study({"name": "s", "title": "t", "driver": "command", "params": params}, "s")
    nothing = dict.fromkeys(("trials", "hist", "series", "samples", "warnings"), dataset._no_calls())
    made = {"command": driver("command")}
    records = dataset.Dataset(root=Path(), studies=[study], host={}, planned={}, drivers=made, **nothing)
    assert metrics.metric("sand.speed").label == "Speed of sand"
    assert metrics.format_metric("sand.speed", 3.0) == "3 grains/s"
    kept = pickle.dumps(records)
    metrics._OF_STUDIES.clear()
    pickle.loads(kept)
    assert metrics.metric("sand.speed").unit == "grains/s"


@pytest.mark.landlock
def test_a_program_cannot_write_where_the_study_does_not_say(tmp_path: Path) -> None:
    study = (CORPUS / "drivers" / "command_touch.toml").read_text()
    (tmp_path / "touch.toml").write_text(study.replace("HERE", str(tmp_path)))
    answer = ask("run", "touch.toml", "--json", "--allow-exec", "--repetitions", "1", "--output", "run", cwd=tmp_path)
    assert answer.code == 1, answer.err
    ran = json.loads(answer.out)
    assert (ran["trials"]["ok"], ran["trials"]["failed"]) == (1, 1)
    (failure,) = ran["failures"]
    assert failure["point"] == {"where": f"{tmp_path}/closed"}
    assert "Permission denied" in failure["reason"] and "confined" in failure["reason"]
    assert not (tmp_path / "closed").exists()
