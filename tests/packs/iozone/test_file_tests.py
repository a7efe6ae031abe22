"""What the drivers `filesuite` and `iozone` do with the parameters that they have in common, and with outputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ioassay import metrics
from ioassay.drivers import driver
from ioassay.packs.iozone.driver import Filesuite, Iozone
from ioassay.packs.iozone.driver import read as read_params
from ioassay.roles import Load, Parsed

from ...cli.conftest import ask
from ...corpora import cases
from ...drivers.trials import GOLDEN, ended, trial

NAMES = ["write", "rewrite", "read", "reread", "random-read", "random-write", "backward-read"]


def read(name: str, folder: Path, text: str, **how: Any) -> Parsed:
    return driver(name).parse(trial(name, {}), ended(folder / "raw", text, **how), folder)


def measured(folder: Path, params: dict[str, Any]) -> Parsed:
    """What filesuite measures in a folder, where it leaves nothing."""
    place = folder / "place"
    place.mkdir()
    Filesuite().validate(params, {"kind": "folder", "path": "."})
    command = Filesuite().command(trial("filesuite", params), Load("folder", place, 0, read_only=False), folder)
    assert command.argv[0] == sys.executable
    done = ask(*command.argv[3:], cwd=folder)
    assert list(place.iterdir()) == [], "it left something behind"
    parsed = Filesuite().parse(trial("filesuite", params), ended(folder, done.out, exit_code=done.code), folder)
    assert parsed.status == "ok", parsed.reason
    return parsed


def test_tests_are_named_by_any_of_their_passes() -> None:
    assert read_params({"tests": ["reread", "write", "random-read", 3]}).tests == [0, 1, 2, 3]
    assert read_params({"tests": "write, 9"}).tests == [0, 9]
    assert read_params({"auto": True}).tests == list(range(8))


def test_each_pass_is_a_claim_in_the_order_in_which_it_was_done(tmp_path: Path) -> None:
    parsed = measured(tmp_path, {"size": "256k", "record": "4k"})
    assert [claim.test for claim in parsed.claims] == NAMES
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
    slowest = min(claim.rate_bytes_per_s or 0 for claim in parsed.claims if claim.test == "write")
    assert len(parsed.claims) == 4
    assert len({claim.paths for claim in parsed.claims}) == 2
    assert 0 < parsed.metrics["write.bw"] <= 2.0001 * slowest


def test_a_pass_that_failed_fails_the_trial_with_its_reason(tmp_path: Path) -> None:
    whole = json.loads((GOLDEN / "filesuite" / "0.1.0" / "passes.json").read_text())["passes"][0]
    reason = "write 3 of 4: No space left"
    failed = {"status": "failed", "reason": reason, "asked_file_bytes": 16384, "nanoseconds": None}
    text = json.dumps({"passes": [{**whole, **failed}], "groups": [], "checked": []})
    parsed = read("filesuite", tmp_path, text, exit_code=1)
    assert parsed.status == "failed"
    assert f"write of 16 KiB in records of 4 KiB: {reason}" in parsed.reason


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"passes": [{}]}'])
def test_output_that_makes_no_sense_fails_the_trial(tmp_path: Path, text: str) -> None:
    assert read("filesuite", tmp_path, text).status == "failed"


@pytest.mark.parametrize("name", ["filesuite", "iozone"])
def test_a_run_that_was_ended_says_so_and_touches_nothing_else(tmp_path: Path, name: str) -> None:
    assert "run.timeout" in read(name, tmp_path, "", exit_code=None, timed_out=True).reason
    assert "signal 15" in read(name, tmp_path, "", exit_code=None, signal=15).reason
    assert list(driver(name).touches({})) == []


@cases("drivers", "iozone_outputs")
def test_outputs_of_iozone_are_read(tmp_path: Path, case: dict[str, Any]) -> None:
    text = case["text"] if "text" in case else (GOLDEN / "iozone" / "3.471" / f"{case['id']}.txt").read_text()
    wanted, how = trial("iozone", case.get("params", {})), ended(tmp_path, text, exit_code=case.get("exit_code", 0))
    parsed = Iozone().parse(wanted, how, tmp_path)
    assert (parsed.status == "failed") == ("says" in case), parsed.reason
    assert case.get("says", "") in parsed.reason
    assert ("write.bw" in parsed.metrics) == ("says" not in case)
    assert all(metrics.known(name) for name in parsed.metrics)
    for name, kib_per_s in case.get("kib_per_s", {}).items():
        assert parsed.metrics[name] == pytest.approx(kib_per_s * 1024)
    assert all(list(claim.includes) == case.get("includes", list(claim.includes)) for claim in parsed.claims)
    assert len(parsed.parts) == case.get("parts", len(parsed.parts))
    assert len(parsed.claims) == case.get("claims", len(parsed.claims))


def test_a_newer_iozone_is_taken() -> None:
    Iozone().configure("\t'Version $Revision: 3.506 $'", {})
