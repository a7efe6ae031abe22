"""`ioassay.doctor`: the host, as the command prints it, and settings that are put back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ioassay as ia
from ioassay.api import diagnosis
from ioassay.host import settings
from ioassay.records.record import Warning_

from ..cli.conftest import ask
from .conftest import HOSTILE


def test_a_diagnosis_has_what_the_command_prints_and_texts_are_escaped_in_html() -> None:
    found = ia.doctor("/")
    assert found.path == Path("/") and {"cpu", "memory", "disk", "witness"} <= found.facts.keys()
    assert all(warning.code and warning.text for warning in (*found.warnings, *found.unable))
    assert found.realtime_share is None or 0 < found.realtime_share <= 1
    assert json.loads(json.dumps(found.as_dict()))["facts"]["cpu"] == json.loads(json.dumps(found.facts["cpu"]))
    printed = ask("doctor", "/", "--all", cwd=Path())
    assert not printed.err and all(f"unavailable: {warning.text}" in printed.out for warning in found.unable)
    plugin = diagnosis.InstalledPlugin("sand", "1", "drivers", "driver", "sieve", HOSTILE)
    shown = replace(found, warnings=[Warning_("odd", HOSTILE, "wait")], plugins=[plugin])._repr_html_()
    assert "<script>" not in shown and shown.count("&lt;script&gt;") == 2


def test_settings_of_killed_runs_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "restore_all", lambda: ["/sys/x: 1, was 2"])
    assert ia.restore_settings()[0] == "/sys/x: 1, was 2"
