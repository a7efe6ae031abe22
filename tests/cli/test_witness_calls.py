"""ioassay witness --calls: the listing against strace's, whole and as a sample."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.bpf, pytest.mark.root]

IOASSAY = [sys.executable, "-m", "ioassay", "witness"]
WORK = """
import os
data = os.open("data", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
for place in range(20):
    os.pwrite(data, bytes(4096), place * 4096)
os.fsync(data)
for place in (7, 3, 19, 0):
    os.pread(data, 512, place * 512)
os.lseek(data, -8192, os.SEEK_END)
os.read(data, 4096)
os.preadv(data, [bytearray(100), bytearray(200)], 64)
copy = os.open("copy", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_DSYNC, 0o600)
os.write(copy, bytes(10))
os.dup2(copy, 99)
os.fdatasync(99)
os.close(99)
os.close(copy)
try:
    os.open("absent", os.O_RDONLY)
except FileNotFoundError:
    pass
if not os.fork():
    os.pread(data, 1, 5)
    os.close(data)
    os._exit(0)
os.wait()
os.close(data)
"""
TRACED = "pread64,pwrite64,read,write,preadv2,fsync,fdatasync,lseek,openat,close,dup2"
_LINE = re.compile(r"^(?:\[pid +)?(\d+)\]? +(\w+)\((.*)\) += (.*) <\d+\.\d{6}>$")


def comparable(text: str, folder: Path) -> list[tuple[str, str, str]]:
    """Name, arguments and result of each call on files in `folder`, without the data."""
    found = []
    for line in text.splitlines():
        line = re.sub(r"AT_FDCWD<[^>]*>", "AT_FDCWD", line)
        if (match := _LINE.match(line)) and (str(folder) in line or '"absent"' in line):
            arguments = re.sub(r'(, )(?:".*"(?:\.\.\.)?|…|\[.*\])(, )', r"\1…\2", match[3], count=1)
            if match[2] == "openat":
                arguments = match[3]
            if match[2] == "preadv2":
                arguments = arguments.removesuffix(", 0")  # the flags, which are not listed
            found.append((match[2], arguments, match[4]))
    return found


@pytest.mark.strace
def test_the_listing_is_straces(tmp_path: Path) -> None:
    strace, listing = tmp_path / "strace.txt", tmp_path / "calls.txt"
    program = [sys.executable, "-S", "-c", WORK]
    folder = tmp_path / "work"
    folder.mkdir()
    subprocess.run(
        ["strace", "-f", "-y", "-T", "-o", str(strace), "-e", f"trace={TRACED}", *program], cwd=folder, check=True
    )
    for path in folder.iterdir():
        path.unlink()
    done = subprocess.run(
        [*IOASSAY, "--json", f"--calls={listing}", "--", *program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted, listed = (comparable(path.read_text(), folder) for path in (strace, listing))
    assert len(wanted) > 35
    assert listed == wanted
    told: dict[str, Any] = json.loads(done.stdout)["listing"]
    assert (told["file"], told["unlisted"]) == (str(listing), 0)
    assert told["calls"] == len(listing.read_text().splitlines())


def test_a_sample_has_of_each_file_the_first_and_the_last(tmp_path: Path) -> None:
    source = "import os\nfile = os.open('data', os.O_RDWR | os.O_CREAT)\nfor place in range(1000):\n"
    source += "    os.pwrite(file, b'x', place)\n"
    done = subprocess.run(
        [*IOASSAY, "--calls", "--", sys.executable, "-S", "-c", source],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    _, found, sample = done.stdout.partition(f"\n{tmp_path / 'data'}: 1001 calls\n")
    assert found, done.stdout
    lines = sample.splitlines()[:13]
    assert "openat(AT_FDCWD" in lines[0]
    assert "pwrite64(3<" in lines[1]
    assert lines[8] == "    … 989 more"
    assert [int(re.search(r", (\d+)\) = 1", line)[1]) for line in lines[9:]] == [996, 997, 998, 999]  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--calls", "--level", "block"), "level syscalls"),
        (("--calls", "--backend", "strace"), "strace has a listing of its own"),
        (("--calls", "--twins", "2"), "of one run"),
        (("--calls=absent/file",), "make the folder first"),
    ],
)
def test_a_listing_that_cannot_be_is_refused(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = subprocess.run([*IOASSAY, *words, "--", "true"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert why in done.stderr
