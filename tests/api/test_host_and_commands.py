"""`ioassay.doctor`, `ioassay.witness` and `ioassay.record`: a host and any command, judged, from any thread."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import ioassay as ia
from ioassay.api import diagnosis
from ioassay.formats import user_claims
from ioassay.host import settings
from ioassay.packs.ssd import traces
from ioassay.records.record import Warning_

from ..cli.conftest import ask
from ..patience import PATIENCE_S
from .conftest import HOSTILE

COUNTED = {"level": "counters", "backend": "counters"}
WRITES = "open('data', 'wb').write(bytes(65536)); print('<b>wrote 65536 bytes</b>')"


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


def python(program: str) -> list[str]:
    return [sys.executable, "-I", "-c", program]


def test_what_a_command_printed_claimed_and_did_is_there() -> None:
    found = ia.witness(python(WRITES), claims=["bytes=65536,kind=write"], **COUNTED)
    assert found.exit_code == 0 and found.stdout == "<b>wrote 65536 bytes</b>\n" and not found.stderr
    assert [claim.bytes for claim in found.claims] == [65536]
    assert not found.contradicted and found.verdict == found.as_dict()["verdict"] and found.explanation
    assert "<b>" not in found._repr_html_() and found.seen.backend == "counters"


def test_claims_are_read_by_a_pattern_in_another_thread() -> None:
    pattern = r"wrote (?P<bytes>\d+) bytes"
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: ia.witness(python(WRITES), claim_regex=pattern, **COUNTED)).result(PATIENCE_S)
    assert [claim.bytes for claim in found.claims] == [65536]


def test_a_pattern_that_takes_for_ever_ends_in_another_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_claims, "_MOST_CPU_S", 0.2)
    program = "print('a' * 60 + '!')"
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: ia.witness(python(program), claim_regex=r"(?P<bytes>(a|aa)+)$", **COUNTED))
        assert found.result(PATIENCE_S).claims == []


def test_the_exit_status_is_the_commands_and_no_listing_is_there_where_none_was_wanted() -> None:
    judged = ia.witness([Path("/bin/sh"), "-c", "exit 3"], **COUNTED)
    assert judged.exit_code == 3 and judged.listing is None and judged.as_dict()["listing"] is None


@pytest.mark.root
@pytest.mark.bpf
def test_the_calls_on_files_are_listed_as_a_sample_or_in_a_file() -> None:
    program = "import os\nfile = os.open('data', os.O_RDWR | os.O_CREAT)\nfor place in range(100):\n"
    command = python(program + "    os.pwrite(file, b'x', place)\n")
    sample = ia.witness(command, calls=True).listing
    assert sample is not None and sample.file is None and sample.unlisted == 0
    (data,) = (each for each in sample.files if each.path == str(Path("data").absolute()))
    assert data.calls == 101 and "openat(AT_FDCWD" in data.first[0]
    assert [", 1, 99) = 1" in line for line in data.last] == [False, False, False, True]
    judged = ia.witness(command, calls="calls.txt")
    assert judged.listing is not None and judged.listing.file == Path("calls.txt").absolute()
    assert judged.listing.calls == len(Path("calls.txt").read_text().splitlines()) > 100 and not judged.listing.files
    assert judged.as_dict()["listing"]["file"] == str(Path("calls.txt").absolute())


@pytest.mark.root
@pytest.mark.bpf
def test_the_requests_of_a_command_become_a_trace_that_can_be_simulated() -> None:
    words = ["dd", "if=/dev/zero", "of=written", "bs=4k", "count=64", "oflag=direct", "conv=notrunc"]
    recording = ia.record(words, "requests.csv")
    assert recording.exit_code == 0 and recording.trace == Path("requests.csv") and recording.requests >= 1
    done = ia.simulate("requests.csv", prepare=traces.preparation(limit="1GiB", beyond="wrap"), window=None)
    assert done.summary["issued"] >= 1
