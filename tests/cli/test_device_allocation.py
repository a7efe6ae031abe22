"""What of a drive is allocated, as the tools of libnbd and qemu are told it and use it."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..virtual_drive.nbd import TRIM, Client
from .drives import PATIENCE_S, Drive, served

MIB = 2**20
PAGE = 4096
SIZE_BYTES = 64 * MIB
SERVE = ("--transport", "nbd:unix:a", "--no-calibrate")
MODELS = {"model": (), "write buffer": ("--policy", "epo", "--buffer", "1MiB"), "no model": ("--model", "none")}
DATA, HOLE = 0, 3
"""Types of an extent in the context base:allocation; a hole reads as zeroes."""

pytestmark = pytest.mark.skipif(
    not (shutil.which("nbdinfo") and shutil.which("qemu-img")), reason="needs nbdinfo and qemu-img"
)


def run(*argv: object) -> str:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, ""), argv
    return done.stdout


def extents(drive: Drive) -> list[tuple[int, int, int]]:
    """The extents that nbdinfo finds: offset and length in bytes, and type."""
    told: list[dict[str, Any]] = json.loads(run("nbdinfo", "--map", "--json", drive.told["nbd"]))
    return [(each["offset"], each["length"], each["type"]) for each in told]


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """A sparse image: random data with holes between."""
    chance = random.Random(5)
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(SIZE_BYTES)
        for _ in range(40):
            file.seek(chance.randrange(SIZE_BYTES // PAGE - 64) * PAGE)
            file.write(os.urandom(chance.randrange(1, 64) * PAGE))
    yield path


@pytest.mark.parametrize("model", MODELS)
def test_extents_follow_writes_and_trims(tmp_path: Path, model: str) -> None:
    words = ("--size", "64MiB", "--file", "b", *MODELS[model], *SERVE)
    with served(tmp_path, *words) as drive, Client(tmp_path / "a") as client:
        assert extents(drive) == [(0, SIZE_BYTES, HOLE)]
        client.write(MIB, bytes(range(256)) * 4096)
        client.write(10 * MIB + 512, b"x" * 512)
        client.submit(TRIM, MIB + 3 * PAGE, 2 * PAGE)
        client.reply()
        client.submit(TRIM, MIB + 10 * PAGE + 512, PAGE)  # no page is covered entirely
        client.reply()
        written = [
            (0, MIB, HOLE),
            (MIB, 3 * PAGE, DATA),
            (MIB + 3 * PAGE, 2 * PAGE, HOLE),
            (MIB + 5 * PAGE, MIB - 5 * PAGE, DATA),
            (2 * MIB, 8 * MIB, HOLE),
            (10 * MIB, PAGE, DATA),
            (10 * MIB + PAGE, SIZE_BYTES - 10 * MIB - PAGE, HOLE),
        ]
        assert extents(drive) == written
        assert drive.end() == (0, "")
    with served(tmp_path, "--file", "b", *MODELS[model], *SERVE) as drive:
        assert extents(drive) == written  # from the holes of the file
        assert drive.end() == (0, "")


@pytest.mark.parametrize("model", MODELS)
def test_qemu_converts_to_a_drive_and_back_and_finds_the_same_holes(tmp_path: Path, image: Path, model: str) -> None:
    with served(tmp_path, "--size", "64MiB", *MODELS[model], *SERVE) as drive:
        drive_uri = drive.told["nbd"]
        run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, drive_uri)
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, drive_uri)
        run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", drive_uri, tmp_path / "back")
        run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", image, tmp_path / "back")
        told: list[dict[str, Any]] = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json", drive_uri))
        assert [(each["start"], each["length"], not each["zero"]) for each in told] == [
            (offset, length, kind == DATA) for offset, length, kind in extents(drive)
        ]
        assert drive.end() == (0, "")


@pytest.mark.parametrize("model", MODELS)
def test_many_connections_of_nbdcopy_leave_out_most_of_what_is_not_allocated(
    tmp_path: Path, image: Path, model: str
) -> None:
    many = ("--connections=32", "--requests=64", "--threads=4")
    with served(tmp_path, "--size", "64MiB", *MODELS[model], *SERVE) as drive:
        run("nbdcopy", *many, "--flush", image, drive.told["nbd"])
        run("nbdcopy", *many, drive.told["nbd"], tmp_path / "back")
        assert 0 < drive.ask("stats")["reads"]["bytes"] < SIZE_BYTES / 4
        assert drive.end() == (0, "")
    assert (tmp_path / "back").read_bytes() == image.read_bytes()
