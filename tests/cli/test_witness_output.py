"""What `ioassay witness` prints below the command's own output: at most 15 lines, and everything with --all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ioassay.cli import closing

from .terminal import Terminal

WITNESS = [sys.executable, "-m", "ioassay", "witness"]
MIB = 1 << 20
END = "end of the command's own output"
MANY = f'for n in $(seq 40); do echo "pass $n: $n reads"; done; echo "{END}"'
COLUMNS = 80


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of 16 MiB that is in the page cache."""
    (tmp_path / "data").write_bytes(os.urandom(16 * MIB))
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("options", "script"),
    [
        ([], f'echo "{END}"'),
        ([], f'dd if=data of=/dev/null bs=1M; echo "{END}"; exit 3'),
        (["--claim", "bytes=1GiB,ops=4"], f'cat data | wc -c; echo "{END}"'),
        (["--claim-regex", r"(?P<ops>\d+) reads"], MANY),
        (["--claim-regex", r"(?P<ops>\d+) reads", "--require", "true"], MANY),
    ],
    ids=["no-claim", "failed", "contradicted", "many-claims", "required"],
)
def test_a_terminal_of_80_columns_shows_15_lines(options: list[str], script: str, data: Path) -> None:
    argv = [*WITNESS, "--level", "counters", *options, "--", "sh", "-c", script]
    with Terminal(argv, data.parent, size=(60, COLUMNS)) as terminal:
        terminal.ended()
    lines = terminal.shown.rpartition(f"{END}\r\n")[2].rstrip().splitlines()
    own = [line for line in lines if line.strip()]
    assert any(line.startswith("More: --all") for line in own), own
    assert len(lines) <= closing.MOST_LINES + 1, "\n".join(lines)  # the empty line in front of them
    assert max(map(len, own)) <= COLUMNS


@pytest.mark.bpf
def test_each_claim_stands_next_to_what_the_kernel_saw(data: Path) -> None:
    command = [*WITNESS, "--", "dd", "if=data", "of=copy", "bs=1M"]
    told = subprocess.run(command, cwd=data.parent, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^CONFIRMED-DEFERRED \(NO-SYNC\): The writes were accepted", told, re.M), told
    assert re.search(r"^claim +verdict +operations +seen +bytes +seen +device$", told, re.M), told
    assert re.search(r"^dd's read +CONFIRMED-CACHED +16 +17 +16 MiB +16 MiB +0 B$", told, re.M), told
    assert re.search(r"^dd's read \(PAGE-CACHE\): 16 operations and 16 MiB were claimed; ", told, re.M), told
    assert told.index("dd's write (NO-SYNC)") < told.index("dd's read (PAGE-CACHE)"), "the worse one comes first"
    assert "System calls" not in told and len(told.splitlines()) <= closing.MOST_LINES + 1


def test_of_many_claims_the_worst_have_rows(tmp_path: Path) -> None:
    script = 'for n in $(seq 9); do echo "took 1 s"; done; echo "took 99 s"'
    command = [*WITNESS, "--level", "counters", "--claim-regex", r"took (?P<seconds>\d+) s", "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    rows = re.findall(r"^user's \S+ +(\S+) +-", done.stdout, re.M)
    assert len(rows) == 5 and rows[0] == "CONTRADICTED", done.stdout
    assert "and 5 more claims, none of them worse: --all, --json" in done.stdout


@pytest.mark.bpf
def test_all_shows_notes_calls_and_requests(data: Path) -> None:
    command = [*WITNESS, "--all", "--", "dd", "if=data", "of=copy", "bs=1M", "conv=fsync"]
    told = subprocess.run(command, cwd=data.parent, capture_output=True, text=True, check=True).stdout
    for part in ("CONFIRMED-CACHED (PAGE-CACHE): dd's read\n", "The observer effect was not judged", "System calls"):
        assert part in told
    assert "Requests to block devices:" in told and "The files that this is about" in told
    assert re.search(r"^write +\d+ +[\d,]+ +0$", told, re.M), told


@pytest.mark.bpf
def test_the_observer_effect_is_shown_where_twins_were_asked_for(data: Path) -> None:
    command = [*WITNESS, "--twins", "1", "--", "dd", "if=data", "of=/dev/null", "bs=1M"]
    told = subprocess.run(command, cwd=data.parent, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^With the witness, .* times that without it\.", told, re.M), told
