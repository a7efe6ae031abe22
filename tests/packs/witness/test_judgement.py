"""`ioassay.witness`: any command, judged, from any thread."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ioassay as ia
from ioassay.formats import user_claims

from ...api.conftest import own_folder as own_folder
from ...patience import PATIENCE_S

COUNTED = {"level": "counters", "backend": "counters"}
WRITES = "open('data', 'wb').write(bytes(65536)); print('<b>wrote 65536 bytes</b>')"


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
