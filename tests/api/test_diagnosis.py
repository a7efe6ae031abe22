"""`ioassay.doctor`: what `ioassay doctor` says, as data, and nothing changed or printed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import ioassay as ia
from ioassay.api import diagnosis
from ioassay.host import settings
from ioassay.records.record import Warning_

from .conftest import HOSTILE


@pytest.fixture(scope="module")
def found() -> ia.Diagnosis:
    return ia.doctor("/")


def test_a_diagnosis_has_facts_warnings_and_what_cannot_be_done(found: ia.Diagnosis) -> None:
    assert found.path == Path("/") and {"cpu", "memory", "disk", "witness"} <= found.facts.keys()
    assert all(warning.code and warning.text for warning in (*found.warnings, *found.unable))
    assert found.realtime_share is None or 0 < found.realtime_share <= 1
    assert json.loads(json.dumps(found.as_dict()))["facts"]["cpu"] == json.loads(json.dumps(found.facts["cpu"]))


def test_the_command_prints_the_same(found: ia.Diagnosis) -> None:
    command = [sys.executable, "-m", "ioassay", "doctor", "/", "--all"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    for warning in found.unable:
        assert f"cannot be done here: {warning.text}" in done.stdout
    assert not done.stderr


def test_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(ia.UsageError, match="absent: no such path"):
        ia.doctor("absent")


def test_texts_are_escaped_in_html(found: ia.Diagnosis) -> None:
    plugin = diagnosis.InstalledPlugin("sand", "1", "drivers", "driver", "sieve", HOSTILE)
    shown = replace(found, warnings=[Warning_("odd", HOSTILE, "wait")], plugins=[plugin])._repr_html_()
    assert "<script>" not in shown and shown.count("&lt;script&gt;") == 2


def test_settings_of_killed_runs_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "restore_all", lambda: ["/sys/x: 1, was 2"])
    assert ia.restore_settings()[0] == "/sys/x: 1, was 2"
