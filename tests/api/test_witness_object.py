"""`ioassay.witness` and `ioassay.record`: any command, judged, from any thread."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ioassay as ia
from ioassay import traces
from ioassay.formats import user_pattern

COUNTED = {"level": "counters", "backend": "counters"}
WRITES = "open('data', 'wb').write(bytes(65536)); print('<b>wrote 65536 bytes</b>')"
LONG_S = 120


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
        found = pool.submit(lambda: ia.witness(python(WRITES), claim_regex=pattern, **COUNTED)).result(LONG_S)
    assert [claim.bytes for claim in found.claims] == [65536]


def test_a_pattern_that_takes_for_ever_ends_in_another_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_pattern, "_MOST_CPU_S", 0.2)
    program = "print('a' * 60 + '!')"
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: ia.witness(python(program), claim_regex=r"(?P<bytes>(a|aa)+)$", **COUNTED))
        assert found.result(LONG_S).claims == []


def test_the_exit_status_is_the_commands_and_a_missing_program_is_an_error() -> None:
    assert ia.witness([Path("/bin/sh"), "-c", "exit 3"], **COUNTED).exit_code == 3
    with pytest.raises(ia.StartError, match="no-such-program"):
        ia.witness(["no-such-program"], **COUNTED)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "command is empty"),
        ({"command": "dd if=data"}, "command is 'dd if=data'; wanted a list of words"),
        ({"command": ["dd", 3]}, r"command is \['dd', 3\]; wanted a list of words"),
        ({"command": ["true"], "level": "all"}, "--level all: unknown"),
        ({"command": ["true"], "claims": ["bytes=1"], "claim_regex": "(?P<bytes>1)"}, "exclude each other"),
        ({"command": ["true"], "calls": True, "level": "block"}, "calls are seen at level syscalls"),
        ({"command": ["true"], "calls": True, "twins": 2}, "a listing is of one run"),
        ({"command": ["true"], "calls": Path("absent/calls.txt")}, "make the folder first"),
        ({"pids": [1]}, "either seconds or the command of a client"),
        ({"pids": [1], "seconds": 1.0, "twins": 2}, "watched once"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ia.UsageError, match=message):
        ia.witness(**arguments)


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


def test_no_listing_is_there_where_none_was_wanted() -> None:
    judged = ia.witness(["true"], **COUNTED)
    assert judged.listing is None and judged.as_dict()["listing"] is None


@pytest.mark.root
@pytest.mark.bpf
def test_the_requests_of_a_command_become_a_trace_that_can_be_simulated() -> None:
    words = ["dd", "if=/dev/zero", "of=written", "bs=4k", "count=64", "oflag=direct", "conv=notrunc"]
    recording = ia.record(words, "requests.csv")
    assert recording.exit_code == 0 and recording.trace == Path("requests.csv") and recording.requests >= 1
    done = ia.simulate("requests.csv", prepare=traces.preparation(limit="1GiB", beyond="wrap"), window=None)
    assert done.summary["issued"] >= 1
