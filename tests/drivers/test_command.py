"""The driver command: words, places, metrics by pattern and path, claims, and how a program's end is judged."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.drivers import driver
from ioassay.drivers.command import program_parameters, reported_values
from ioassay.formats import stated_claim, user_pattern
from ioassay.roles import NOTHING, READ, WRITE, Load, Outcome, Parsed, Touch, Trial

GOLDEN = Path(__file__).parent.parent / "golden"
Judge = Callable[..., Parsed]


def trial(params: Mapping[str, Any], **own: Any) -> Trial:
    fields = {"id": "t", "study": "s", "driver": "command", "point": {}, "target": {}, "run": {}} | own
    return Trial(params=params, repetition=2, seed=7, order=0, **fields)


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """What the driver makes of a program's output and end."""

    def parse(params: Mapping[str, Any], stdout: str | bytes = "", stderr: str = "", exit_code: int = 0) -> Parsed:
        (tmp_path / "stdout").write_bytes(stdout if isinstance(stdout, bytes) else stdout.encode())
        (tmp_path / "stderr").write_text(stderr)
        outcome = Outcome(exit_code, None, False, 0.0, 1.5, tmp_path / "stdout", tmp_path / "stderr")
        return driver("command").parse(trial({"argv": ["prog"], **params}), outcome, tmp_path)

    return parse


def reading(**keys: Any) -> dict[str, Any]:
    return {"metrics": {"tool.speed": keys}}


@pytest.mark.parametrize(
    ("keys", "report", "value"),
    [
        ({"regex": "rate: ([0-9.]+)"}, "rate: 12.5 MB/s\n", 12.5),
        ({"regex": "rate: (?P<value>[0-9.]+) (?P<unit>.B/s)", "unit": "bytes/s"}, "rate: 12.5 MB/s\n", 12.5e6),
        ({"regex": "(?P<value>[0-9.]+) (?P<unit>us)", "unit": "ns"}, "took 3.5 us", 3500.0),
        ({"regex": "(?P<value>[0-9.]+)(?P<unit>k)"}, "120k", 120_000.0),
        ({"regex": "^([0-9]+)$", "take": "first"}, "1\n2\n6\n", 1.0),
        ({"regex": "^([0-9]+)$", "take": "last"}, "1\n2\n6\n", 6.0),
        ({"regex": "^([0-9]+)$", "take": "mean"}, "1\n2\n6\n", 3.0),
        ({"regex": "^([0-9]+)$", "take": "sum", "scale": 2}, "1\n2\n6\n", 18.0),
        ({"regex": "^([0-9]+)$", "take": "max"}, "1\n6\n2\n", 6.0),
        ({"regex": "([0-9.e-]+) s"}, b"\xff\xfe caf\xe9 1.5e-05 s\n", 1.5e-05),
        ({"regex": "([0-9.,]+) s"}, "0,25 s", 0.25),
        ({"json": "$.jobs[1].read.bw"}, '{"jobs": [{}, {"read": {"bw": 7}}]}', 7.0),
        ({"json": "$.jobs[*].bw", "take": "sum"}, '{"jobs": [{"bw": 1}, {}, {"bw": 2.5}]}', 3.5),
        ({"json": "$['a name'][*]", "take": "min"}, '{"a name": {"x": 4, "y": 3}}', 3.0),
        ({"json": "$[0]"}, "[9]", 9.0),
        ({"json": '$["p99.9"]', "scale": 1000}, '{"p99.9": 3}', 3000.0),
    ],
)
def test_a_number_is_found_by_pattern_or_path(
    judge: Judge, keys: dict[str, Any], report: str | bytes, value: float
) -> None:
    parsed = judge(reading(**keys), report)
    assert (parsed.status, parsed.reason) == ("ok", "")
    assert parsed.metrics == {"command.time": 1.5, "tool.speed": pytest.approx(value)}


@pytest.mark.parametrize(
    ("keys", "report", "reason"),
    [
        ({"regex": "rate: ([0-9]+)"}, "nothing", "params.metrics.tool.speed.regex 'rate: ([0-9]+)' matches nothing"),
        ({"regex": "([0-9]+)"}, "1 2 3", "3 numbers in stdout, wanted one; state take as one of first, last, mean"),
        ({"regex": r"rate: (\S+)"}, "rate: fast", "params.metrics.tool.speed is 'fast'; wanted a number"),
        ({"regex": r"rate: (\S*)"}, "rate: \n", "wanted a number"),
        ({"regex": "x|([0-9])"}, "x", "wanted a number"),
        ({"regex": r"(?P<value>\d+) (?P<unit>\w+)", "unit": "s"}, "3 parsecs", "has the unit 'parsecs'; wanted ns, us"),
        ({"json": "$.a.b"}, '{"a": 1}', "$.a.b leads to nothing in the JSON of stdout"),
        ({"json": "$.a"}, '{"a": "fast"}', "$.a is 'fast'; wanted a number"),
        ({"json": "$.a"}, '{"a": true}', "$.a is true; wanted a number"),
        ({"json": "$.a"}, '{"a": -1}', "wanted a number from 0"),
        ({"json": "$.a"}, "{", "stdout: is corrupted"),
        ({"json": "$.a"}, "", "wanted one JSON document"),
        ({"json": "$.a"}, '{"a": 1} {"a": 2}', "is corrupted"),
        ({"regex": "(.)", "from": "report.txt"}, "", "the program wrote no file 'report.txt' to its raw folder"),
    ],
)
def test_what_is_no_single_number_fails_the_trial(judge: Judge, keys: dict[str, Any], report: str, reason: str) -> None:
    parsed = judge(reading(**keys), report)
    assert parsed.status == "failed"
    assert reason in parsed.reason


def test_a_report_may_be_a_file_of_the_raw_folder_and_no_link(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"iops": 5}')
    assert judge(reading(json="$.iops", **{"from": "report.json"})).metrics["tool.speed"] == 5.0
    (tmp_path / "link.json").symlink_to(tmp_path / "report.json")
    assert "wrote no file 'link.json'" in judge(reading(json="$.iops", **{"from": "link.json"})).reason


def test_an_output_that_is_no_report_is_not_read(judge: Judge, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(reported_values.LARGEST_OUTPUT_BYTES + 1)
    parsed = judge(reading(regex="(.)", **{"from": "huge"}))
    assert "huge has 64 MiB; wanted at most 64 MiB" in parsed.reason


def test_a_pattern_without_end_fails_the_trial(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_pattern, "_MOST_CPU_S", 0.2)
    parsed = judge(reading(regex=r"(?P<value>(a|aa)+)$"), "a" * 60 + "!")
    assert parsed.status == "failed" and "took more than 0.2 s of CPU time" in parsed.reason


def test_the_end_of_a_program_is_judged(judge: Judge, tmp_path: Path) -> None:
    failed = judge({}, stderr="first\nno space left\n", exit_code=3)
    assert (failed.status, failed.reason) == (
        "failed",
        "prog exited with status 3, wanted 0; it said: no space left",
    )
    assert judge({"exit_status": [0, 3]}, exit_code=3).status == "ok"
    ended = Outcome(None, 9, False, 0.0, 1.0, tmp_path / "stdout", tmp_path / "stderr")
    late = Outcome(None, 15, True, 0.0, 1.0, tmp_path / "stdout", tmp_path / "stderr")
    command = driver("command")
    assert "was ended by signal 9" in command.parse(trial({"argv": ["prog"]}), ended, tmp_path).reason
    assert "raise params.timeout" in command.parse(trial({"argv": ["prog"]}), late, tmp_path).reason


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
    command = driver("command").command(trial(params), load, tmp_path)
    assert command.argv == ["tool", f"--file={tmp_path / 'f'}", "bs=4096", "{bs}", "{print $1}", "t=120"]
    assert command.env == {"SEED": "7-2"}
    assert json.loads(command.files["job.json"]) == {"size": 8192, "out": str(tmp_path)}
    assert (command.cwd, command.timeout_s) == (tmp_path, 5.0)


def test_what_a_program_may_touch_is_stated() -> None:
    command = driver("command")
    loading = {"argv": ["true", "{target}"]}
    assert command.access(loading) == WRITE
    assert command.access({**loading, "access": "read"}) == READ
    assert command.access({"argv": ["true"]}) == NOTHING
    assert command.touches({"argv": ["true"], "reads": ["/a"], "writes": {"/b-{n}": "1MiB"}, "n": 3}) == [
        Touch(Path("/a"), READ),
        Touch(Path("/b-3"), WRITE, 1 << 20),
    ]
    (external,) = command.externals(loading)
    assert external.option == "params.argv = true '{target}'"


def test_kinds_of_claims_are_those_that_users_state() -> None:
    for kind in stated_claim.KINDS:
        assert program_parameters.ClaimPattern(regex="(?P<bytes>.)", kind=kind).kind == kind


STUDY = """
title = "A copy against its block size"
driver = "command"
repetitions = 2
[target]
kind = "file"
path = "testfile"
size = "1MiB"
[params]
argv = ["dd", "if={target}", "of=/dev/null", "bs={bs:bytes}"]
access = "read"
env = { LC_ALL = "C" }
[params.metrics]
"dd.speed" = { regex = ', (?P<value>[0-9.]+) (?P<unit>[kMGT]?B/s)$', from = "stderr", unit = "bytes/s", better = "higher", label = "Speed of the copy", rate = true }
[factors]
bs = ["4KiB", "64KiB"]
[watch]
monitors = []
witness = "off"
"""  # noqa: E501


def ioassay(folder: Path, *words: str, status: int = 0) -> tuple[Any, str]:
    command = [sys.executable, "-m", "ioassay", *words, "--json"]
    environment = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_program_is_measured_from_the_study_to_the_page(tmp_path: Path) -> None:
    (tmp_path / "copy.toml").write_text(STUDY)
    _, refused = ioassay(tmp_path, "run", "copy.toml", status=3)
    assert "params.argv = dd 'if={target}' of=/dev/null 'bs={bs:bytes}' runs a program" in refused
    ran, _ = ioassay(tmp_path, "run", "copy.toml", "--allow-exec", "--output", "run")
    assert ran["trials"]["ok"] == 4
    assert [figure["name"] for figure in ran["figures"]] == ["dd_speed_by_bs"]
    svg = (tmp_path / "run" / "report" / "figures" / "dd_speed_by_bs.svg").read_text()
    assert "Speed of the copy" in svg and "dd.speed" not in svg
    records = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("trials/*/record.json")]
    assert all(record["claims"][0]["bytes"] == 1 << 20 for record in records)
    assert all(record["metrics"]["dd.speed"] > 0 for record in records)


def test_metrics_of_a_study_are_known_where_its_records_are_read() -> None:
    from ioassay.store import dataset
    from ioassay.study.model import make_study

    keys = {"json": "$.a", "unit": "grains/s", "label": "Speed of sand"}
    params = {"argv": ["true"], "metrics": {"sand.speed": keys}}
    study = make_study({"name": "s", "title": "t", "driver": "command", "params": params}, "s")
    names = ("trials", "hist", "series", "samples", "warnings")
    records = dataset.Dataset(
        root=Path(), studies=[study], host={}, planned={}, drivers={"command": driver("command")},
        **dict.fromkeys(names, dataset._no_calls()),
    )  # fmt: skip
    assert metrics.metric("sand.speed").label == "Speed of sand"
    assert metrics.format_metric("sand.speed", 3.0) == "3 grains/s"
    kept = pickle.dumps(records)
    metrics._OF_STUDIES.clear()
    pickle.loads(kept)
    assert metrics.metric("sand.speed").unit == "grains/s"


@pytest.mark.landlock
def test_a_program_cannot_write_where_the_study_does_not_say(tmp_path: Path) -> None:
    writing = STUDY.replace('"dd", "if={target}", "of=/dev/null", "bs={bs:bytes}"', '"touch", "{where}"')
    writing = writing.partition("[params.metrics]")[0].replace(
        'access = "read"', 'access = "read"\nwrites = { open = "4KiB" }'
    )
    (tmp_path / "touch.toml").write_text(
        writing
        + f'[factors]\nwhere = ["{tmp_path}/open", "{tmp_path}/closed"]\n[watch]\nmonitors = []\nwitness = "off"\n'
    )
    ran, _ = ioassay(tmp_path, "run", "touch.toml", "--allow-exec", "--repetitions", "1", "--output", "run", status=1)
    assert (ran["trials"]["ok"], ran["trials"]["failed"]) == (1, 1)
    (failure,) = ran["failures"]
    assert failure["point"] == {"where": f"{tmp_path}/closed"}
    assert "Permission denied" in failure["reason"] and "confined" in failure["reason"]
    assert not (tmp_path / "closed").exists()
