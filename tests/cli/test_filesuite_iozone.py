"""IOzone's options in `ioassay filesuite`: the calls they make, the files they leave, and the list of all of them."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.cli import filesuite, filesuite_iozone
from ioassay.errors import UsageError

from . import file_calls

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "iozone" / "3.489"
COMMAND = [sys.executable, "-m", "ioassay", "filesuite"]


def found(folder: Path, *words: str, ahead: tuple[str, ...] = ()) -> dict[str, Any]:
    done = subprocess.run(
        [*ahead, *COMMAND, *words, "--json"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def passes(folder: Path, words: tuple[str, ...]) -> dict[str, list[str]]:
    """The calls of each pass; of silent passes, too."""
    trace = folder / "trace"
    ahead = ("strace", "-f", "-qq", "-o", str(trace), "-e", file_calls.TRACED)
    result = found(folder, *words, "--shuffle", "3.489", "-F" if "-t1" in words else "-f", "measured", ahead=ahead)
    names = [
        name + suffix
        for name, silent in ((each["name"], each["silent_passes"]) for each in result["passes"])
        for suffix in ("", *[" silent"] * silent)
    ]
    sessions = file_calls.sessions(trace.read_text(), "measured")
    return {name: session.lines() for name, session in zip(names, sessions, strict=True)}


# The calls that are made


@pytest.mark.strace
@pytest.mark.parametrize("case", file_calls.CASES)
def test_the_calls_are_those_that_iozone_makes(tmp_path: Path, case: str) -> None:
    words, names = file_calls.CASES[case]
    golden = file_calls.golden(GOLDEN / f"calls-{case}.txt")
    assert tuple(golden) == names
    ours = passes(tmp_path, words)
    assert {name: ours[name] for name in names} == golden


@pytest.mark.strace
def test_vectored_calls_are_those_of_pwrite_and_pread(tmp_path: Path) -> None:
    """No IOzone at hand has them compiled in: by the documents they differ in the call alone."""
    trace = tmp_path / "trace"
    ahead = ("strace", "-f", "-qq", "-o", str(trace), "-e", "trace=pwritev,preadv")
    result = found(tmp_path, "-i11", "-i12", "-s64k", "-r16k", ahead=ahead)
    assert len(result["passes"]) == 4
    lines = file_calls.whole_lines(trace.read_text().splitlines())
    calls = [call for line in lines if (call := re.match(r"(\w+)\(.*, 1, (\d+)\) += 16384$", line))]
    assert [call[1] for call in calls] == ["pwritev"] * 8 + ["preadv"] * 8
    offsets = [int(call[2]) // 16384 for call in calls]
    assert offsets == [0, 1, 2, 3] * 4


# What they leave


def test_a_kept_file_is_read_by_the_next_run(tmp_path: Path) -> None:
    found(tmp_path, "-i0", "-w", "-s64k", "-f", "kept")
    content = (tmp_path / "kept").read_bytes()
    result = found(tmp_path, "-i1", "-i3", "-w", "-s64k", "-f", "kept", "--check", "whole")
    assert [(each["status"], each["prepared"]) for each in result["passes"]] == [("ok", False)] * 3
    assert (tmp_path / "kept").read_bytes() == content
    other = subprocess.run(
        [*COMMAND, "-i0", "-w", "-s64k", "-f", "kept"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (other.returncode, "exists" in other.stderr) == (3, True)
    small = subprocess.run(
        [*COMMAND, "-i1", "-w", "-s1m", "-f", "kept"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (small.returncode, "has 65536 bytes" in small.stderr) == (3, True)


def test_a_changed_byte_is_noticed_by_diagnosis_alone(tmp_path: Path) -> None:
    found(tmp_path, "-i0", "-w", "-s64k", "-f", "kept")
    content = bytearray((tmp_path / "kept").read_bytes())
    content[5000] ^= 1
    (tmp_path / "kept").write_bytes(content)
    assert found(tmp_path, "-i1", "-w", "-s64k", "-f", "kept")["passes"][0]["status"] == "ok"
    diagnosed = subprocess.run(
        [*COMMAND, "-+d", "-i1", "-w", "-s64k", "-f", "kept"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert diagnosed.returncode == 1
    assert "record 1 holds something else" in diagnosed.stderr


def test_threads_have_the_files_that_are_named_and_numbers_from_least_to_most(tmp_path: Path) -> None:
    result = found(tmp_path, "-l1", "-u2", "-F", "a", "b", "-x", "-T", "-C", "-i0", "-s64k", "-w")
    assert [(group["name"], group["workers"]) for group in result["groups"]] == [
        *(("write", 1), ("rewrite", 1)),
        *(("write", 2), ("rewrite", 2)),
    ]
    assert all(group["bytes"] == group["workers"] << 16 for group in result["groups"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_each_child_is_shown_as_iozone_shows_it(tmp_path: Path) -> None:
    words = ["-t2", "-C", "-P0", "-i0", "-s64k"]
    text = subprocess.run(
        [*COMMAND, *words, "--format", "iozone"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert text.count("Child[1] xfer count =      64.00 kB, Throughput = ") == 2
    table = subprocess.run([*COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "1 of 2" in table


def test_latencies_are_a_file_for_each_pass(tmp_path: Path) -> None:
    words = ("-Q", "-i0", "-i1", "-i3", "-s64k", "-r16k")
    result = found(tmp_path, *words)
    files = {path.name: path.read_text().splitlines() for path in tmp_path.iterdir()}
    assert sorted(files) == ["backward_read.dat", "rol.dat", "rrol.dat", "rwol.dat", "wol.dat"]
    for lines in files.values():
        assert lines[0] == "Offset in kBytes   Latency in microseconds  Transfer size in bytes"
        assert {line.split()[2] for line in lines[1:]} == {"16384"}
    assert [line.split()[0] for line in files["backward_read.dat"][1:]] == ["48", "32", "16", "0"]
    sum_us = sum(float(line.split()[1]) for line in files["wol.dat"][1:])
    assert 0 < sum_us * 1000 <= result["passes"][0]["nanoseconds"]
    again = subprocess.run([*COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (again.returncode, "wol.dat: exists" in again.stderr) == (3, True)
    assert (tmp_path / "wol.dat").read_text().splitlines() == files["wol.dat"]


def cells(content: bytes) -> Iterator[tuple[int, int, str | float]]:
    """Row, column and value of the labels and numbers of a BIFF2 sheet."""
    place = 0
    while place < len(content):
        kind, length = struct.unpack_from("<HH", content, place)
        body = content[place + 4 : place + 4 + length]
        place += 4 + length
        if kind == 0x0003:
            yield (*struct.unpack_from("<HH", body), struct.unpack_from("<d", body, 7)[0])
        elif kind == 0x0004:
            yield (*struct.unpack_from("<HH", body), body[8 : 8 + body[7]].decode("latin-1"))
        else:
            assert kind in (0x0009, 0x000A)
    assert place == len(content)


def test_a_workbook_holds_the_matrices(tmp_path: Path) -> None:
    result = found(tmp_path, "-b", "rates.xls", "-i0", "-s64k", "-s128k", "-r4k", "-r16k")
    content = list(cells((tmp_path / "rates.xls").read_bytes()))
    labels = [value for _, _, value in content if isinstance(value, str)]
    assert labels[2:] == ["write", "rewrite"]
    values = {(row, column): value for row, column, value in content}
    rates = {(each["name"], each["file_bytes"], each["record_bytes"]): each for each in result["passes"]}
    assert [values[4, column] for column in (1, 2)] == [4, 16]
    assert [values[row, 0] for row in (5, 6)] == [64, 128]
    assert values[6, 1] == pytest.approx(rates["write", 128 << 10, 4096]["bytes_per_s"] / 1024)
    assert values[11, 2] == pytest.approx(rates["rewrite", 128 << 10, 16384]["bytes_per_s"] / 1024)
    again = subprocess.run([*COMMAND, "-b", "rates.xls"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 3


def test_what_comes_out_says_what_was_asked_for(tmp_path: Path) -> None:
    from ioassay.formats import filesuite_json, iozone_claims

    words = [*COMMAND, "-B", "-G", "-j3", "-P0", "-i0", "-i5", "-s64k"]
    text = subprocess.run(
        [*words, "--format", "iozone"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert "Using mmap files" in text
    assert "filesuite -B -G -j3 -P0 " in text
    assert {claim.engine for claim in iozone_claims.read(text)} == {"mmap"}
    own = subprocess.run([*words, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert {claim.engine for claim in filesuite_json.read(own)} == {"mmap"}


# All options


def test_each_option_is_built_or_refused_with_what_to_use_instead() -> None:
    command = filesuite_iozone.Command(filesuite.filesuite)
    known = {name for option in command.options for name in option.yes} | {"-h", "-+d"}
    names = [option.name for option in filesuite_iozone.OPTIONS]
    assert len(set(names)) == len(names)
    for option in filesuite_iozone.OPTIONS:
        assert (option.name in known) == (option.treatment != filesuite_iozone.REFUSED), option.name
        if option.treatment == filesuite_iozone.REFUSED:
            with pytest.raises(UsageError) as caught:
                command.run([option.name], "ioassay filesuite")
            assert str(caught.value).startswith(f"{option.name} of IOzone is not supported; ")
    assert {f"-{name}" for name in "abBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZA"} <= set(names)
    letters = {name for option in command.options for name in option.yes if not name.startswith("--")}
    assert letters <= set(names), "a letter that IOzone has not"


def test_the_document_has_the_table_of_all_options() -> None:
    assert filesuite_iozone.table() in (ROOT / "docs" / "filesuite.md").read_text()


def test_the_stride_is_that_of_the_fact_sheet() -> None:
    """Eight records are record 0 eight times; of 256 the first sweep does not reach the last."""
    small = file_calls.golden(GOLDEN / "calls-512k-64k.txt")["stride_read"]
    assert small == ["fsync 0 0 0 1", "read 65536 0 0 1", "lseek+read 65536 0 0 7", "lseek 0 0 0 1"]
    large = file_calls.golden(GOLDEN / "calls-1m-4k.txt")["stride_read"]
    assert large[1:4] == ["read 4096 0 0 1", "lseek+read 4096 69632 69632 14", "lseek+read 4096 4096 69632 15"]
    assert [test["number"] for test in _core.filesuite_tests()] == list(range(13))
