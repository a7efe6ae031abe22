"""The drivers `filesuite` and `iozone` have their parameters in common; what each does with them."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.drivers import driver, file_tests
from ioassay.drivers.filesuite import Filesuite
from ioassay.drivers.iozone import Iozone
from ioassay.errors import StudyError, ToolError
from ioassay.roles import WRITE, Load, Outcome, Parsed, Trial

GOLDEN = Path(__file__).parent.parent / "golden" / "iozone" / "3.471"
FOLDER = {"kind": "folder", "path": "."}
BOTH = pytest.mark.parametrize("name", ["filesuite", "iozone"])


def trial(params: dict[str, Any]) -> Trial:
    return Trial("id", "study", "filesuite", {}, params, FOLDER, {}, 0, 7, 0)


def load(folder: Path) -> Load:
    return Load("folder", folder, 0, False)


def outcome(folder: Path, stdout: str, exit_code: int | None = 0) -> Outcome:
    (folder / "stdout").write_text(stdout)
    (folder / "stderr").write_text("")
    return Outcome(exit_code, None, False, 0.0, 1.0, folder / "stdout", folder / "stderr")


def measured(tmp_path: Path, params: dict[str, Any]) -> Parsed:
    suite = Filesuite()
    suite.validate(params, FOLDER)
    command = suite.command(trial(params), load(tmp_path), tmp_path)
    done = subprocess.run(command.argv, capture_output=True, text=True, check=False)
    assert list(tmp_path.iterdir()) == [], "it left something behind"
    return suite.parse(trial(params), outcome(tmp_path, done.stdout, done.returncode), tmp_path)


# Parameters


@BOTH
def test_a_file_is_made_in_a_folder_and_nowhere_else(name: str) -> None:
    found = driver(name)
    assert (found.access({}), list(found.touches({}))) == (WRITE, [])
    for target in ({}, {"kind": "file", "path": "x"}):
        with pytest.raises(StudyError, match="wanted 'folder'") as caught:
            found.validate({}, target)
        assert caught.value.key == "target.kind"


def test_tests_are_named_by_any_of_their_passes() -> None:
    assert file_tests.read({"tests": ["reread", "write", "random-read", 3]}).tests == [0, 1, 2, 3]
    assert file_tests.read({"tests": "write, 9"}).tests == [0, 9]
    assert file_tests.read({"auto": True}).tests == list(range(8))


def test_both_programs_get_the_same_letters(tmp_path: Path) -> None:
    params = {"tests": "write,pread", "size": "15m", "record": "4k", "direct": True, "fsync": True, "close": True}
    ours = list(Filesuite().command(trial(params), load(tmp_path), tmp_path).argv)
    theirs = list(Iozone().command(trial(params), load(tmp_path), tmp_path).argv)
    shared = ["-i", "0", "-i", "10", "-s", "15360k", "-r", "4k", "-I", "-e", "-c"]
    assert ours[: len(shared) + 4] == [sys.executable, "-m", "ioassay", "filesuite", *shared]
    assert theirs == ["iozone", *shared, "-E", "-f", str(tmp_path / "iozone.tmp")]


def test_threads_of_iozone_are_processes_that_nobody_stops(tmp_path: Path) -> None:
    argv = list(Iozone().command(trial({"threads": 2}), load(tmp_path), tmp_path).argv)
    assert argv[argv.index("-t") :][:4] == ["-t", "2", "-x", "-F"]
    assert argv[-2:] == [f"{tmp_path}/iozone.tmp.0", f"{tmp_path}/iozone.tmp.1"]


# filesuite


def test_each_pass_is_a_claim_in_the_order_in_which_it_was_done(tmp_path: Path) -> None:
    parsed = measured(tmp_path, {"size": "256k", "record": "4k"})
    assert parsed.status == "ok", parsed.reason
    names = ["write", "rewrite", "read", "reread", "random-read", "random-write", "backward-read"]
    assert [claim.test for claim in parsed.claims] == names
    for claim in parsed.claims:
        assert (claim.source, claim.operations, claim.bytes) == ("filesuite", 64, 256 << 10)
        assert (claim.file_bytes, claim.record_bytes, claim.direct) == (256 << 10, 4096, False)
        assert claim.seconds and claim.rate_bytes_per_s == pytest.approx(claim.bytes / claim.seconds)
        assert claim.primed == (claim.test in ("read", "reread"))
        assert claim.silent_passes == (claim.test == "backward-read")
        assert parsed.metrics[f"{claim.test.replace('-', '_')}.bw"] == pytest.approx(claim.rate_bytes_per_s)
    assert all(metrics.known(name) for name in parsed.metrics)
    assert [part["name"] for part in parsed.parts] == ["256 KiB / 4 KiB"]


def test_what_the_interval_includes_is_claimed(tmp_path: Path) -> None:
    parsed = measured(tmp_path, {"tests": "write", "size": "64k", "fsync": True, "close": True, "plain": True})
    assert [claim.includes for claim in parsed.claims] == [("fsync", "close")] * 2


def test_threads_are_measured_from_the_first_start_to_the_last_end(tmp_path: Path) -> None:
    parsed = measured(tmp_path, {"tests": "write", "size": "256k", "threads": 2})
    assert parsed.status == "ok", parsed.reason
    slowest = min(claim.rate_bytes_per_s or 0 for claim in parsed.claims if claim.test == "write")
    assert len(parsed.claims) == 4
    assert len({claim.paths for claim in parsed.claims}) == 2
    assert 0 < parsed.metrics["write.bw"] <= 2.0001 * slowest


def test_a_pass_that_failed_fails_the_trial_with_its_reason(tmp_path: Path) -> None:
    golden = GOLDEN.parents[1] / "filesuite" / "0.1.0" / "passes.json"
    whole = json.loads(golden.read_text())["passes"][0]
    failed = {
        "status": "failed",
        "reason": "write 3 of 4: No space left",
        "asked_file_bytes": 16384,
        "nanoseconds": None,
    }
    text = json.dumps({"passes": [{**whole, **failed}], "groups": [], "checked": []})
    parsed = Filesuite().parse(trial({}), outcome(tmp_path, text, 1), tmp_path)
    assert parsed.status == "failed"
    assert "write of 16 KiB in records of 4 KiB: write 3 of 4: No space left" in parsed.reason


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"passes": [{}]}'])
def test_output_that_makes_no_sense_fails_the_trial(tmp_path: Path, text: str) -> None:
    assert Filesuite().parse(trial({}), outcome(tmp_path, text), tmp_path).status == "failed"


@BOTH
def test_a_run_that_was_ended_says_so(tmp_path: Path, name: str) -> None:
    ended = outcome(tmp_path, "", None)
    assert "run.timeout" in driver(name).parse(trial({}), replace(ended, timed_out=True), tmp_path).reason
    assert "signal 15" in driver(name).parse(trial({}), replace(ended, signal=15), tmp_path).reason


# iozone


@pytest.mark.parametrize("name", ["sequential", "sync", "matrix", "every-test", "touching"])
def test_golden_outputs_are_read(tmp_path: Path, name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text()
    parsed = Iozone().parse(trial({}), outcome(tmp_path, text), tmp_path)
    assert parsed.status == "ok", parsed.reason
    assert parsed.metrics["write.bw"] > 0
    assert all(metrics.known(key) for key in parsed.metrics)
    if name == "touching":
        assert parsed.metrics["repwrite.bw"] == pytest.approx(10906310 * 1024)
        assert parsed.metrics["pread.bw"] == pytest.approx(21388672 * 1024)
    if name == "sync":
        assert {tuple(claim.includes) for claim in parsed.claims} == {("fsync", "close")}
    if name == "matrix":
        assert len(parsed.parts) == 5 + 6 + 7
    if name == "every-test":
        assert len(parsed.claims) == 17


def test_processes_of_iozone_have_the_names_of_their_passes(tmp_path: Path) -> None:
    text = "\tThroughput test with 2 processes\n\tEach process writes a 64 kByte file in 4 kByte records\n\n"
    text += "\tChildren see throughput for  2 initial writers \t= 1000.00 kB/sec\n"
    text += "\tChildren see throughput for 2 re-readers \t= 2000.00 kB/sec\n"
    parsed = Iozone().parse(trial({"threads": 2}), outcome(tmp_path, text), tmp_path)
    assert dict(parsed.metrics) == {"write.bw": 1_024_000.0, "reread.bw": 2_048_000.0}


def test_a_refusal_of_iozone_is_the_reason(tmp_path: Path) -> None:
    text = (GOLDEN / "refused.txt").read_text()
    assert "Invalid argument" in Iozone().parse(trial({}), outcome(tmp_path, text, 1), tmp_path).reason
    assert Iozone().parse(trial({}), outcome(tmp_path, text), tmp_path).status == "failed"


def test_a_program_that_is_no_iozone_is_refused() -> None:
    Iozone().configure("\t'Version $Revision: 3.506 $'", {})
    with pytest.raises(ToolError, match="filesuite"):
        Iozone().configure("something else 1.2", {})
    with pytest.raises(ToolError, match="3.400"):
        Iozone().configure("Version $Revision: 3.217 $", {})
