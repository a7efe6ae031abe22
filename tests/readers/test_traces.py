"""Traces, damaged, of every format, plain and compressed: the message names file, place and fault."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ioassay import traces

from .mutation import COPIES, withstands

RECIPE = {"requests": 60, "reads": 0.4, "trims": 0.0, "seed": 3, "sizes": "4KiB:3,64KiB:1"}
FORMATS = [known["name"] for known in traces.formats()]


@pytest.fixture
def golden(tmp_path: Path, request: pytest.FixtureRequest) -> bytes:
    path = tmp_path / "golden"
    traces.make(path, to=request.param, lose=["alignment", "devices", "kinds"], **RECIPE)
    return path.read_bytes()


@pytest.mark.parametrize(("golden", "name"), [(name, name) for name in FORMATS], indirect=["golden"])
def test_formats(tmp_path: Path, golden: bytes, name: str) -> None:
    """Half of the copies are read as what they are, half as what they look like."""
    path = tmp_path / "copy.trace"

    def read(copy: bytes, format: str | None) -> None:
        path.write_bytes(copy)
        traces.info(path, format=format)

    for format in (name, None):
        withstands(
            lambda copy, format=format: read(copy, format),
            [golden],
            f"trace {name} {format}",
            names=str(path),
            count=COPIES // 2,
        )


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_compressed(tmp_path: Path, compression: str) -> None:
    path, other = tmp_path / f"golden.msr.{compression}", tmp_path / "copy"
    traces.make(path, **RECIPE)

    def read(copy: bytes) -> None:
        other.write_bytes(copy)
        traces.info(other)

    withstands(read, [path.read_bytes()], f"compressed {compression}", names=str(other))


def test_conversion(tmp_path: Path) -> None:
    """What is refused leaves no output."""
    path, output = tmp_path / "copy.spc", tmp_path / "out.csv.gz"
    golden = tmp_path / "golden.spc"
    traces.make(golden, **RECIPE)

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        output.unlink(missing_ok=True)
        try:
            traces.convert(path, output, prepare=traces.preparation(limit="64MiB", beyond="wrap", sizes="split"))
        finally:
            assert {*tmp_path.iterdir()} <= {path, golden, output}
        gzip.decompress(output.read_bytes())

    withstands(read, [golden.read_bytes()], "conversion", names=str(path))
