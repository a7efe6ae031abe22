"""fio's results and logs, damaged: what `ioassay import` reads is refused with the file's name, or taken in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.store import importer

from .mutation import withstands

GOLDEN = Path(__file__).parent.parent / "golden" / "fio" / "3.33"
LOGS = Path(__file__).parents[2] / "crates" / "fiolog" / "tests" / "golden" / "fio-3.33"


def goldens(folder: Path, *patterns: str) -> list[bytes]:
    return [path.read_bytes() for pattern in patterns for path in sorted(folder.glob(pattern))]


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "results.json"

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        importer.read([path])

    withstands(read, goldens(GOLDEN, "*/fio.json"), "json", names=str(path), tree="json")


@pytest.mark.parametrize("version", ["3.33", "3.42"])
def test_json_of_clients(tmp_path: Path, version: str) -> None:
    path = tmp_path / "results.json"
    copies = goldens(GOLDEN.parent / version / "clients", "*.json")
    documents = [copy[copy.index(b"{\n") :] for copy in copies]

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        importer.read([path])

    withstands(read, documents, f"json of clients {version}", names=str(path), tree="json")
    withstands(read, copies, f"json of clients {version} with messages", names=str(path))


@pytest.mark.parametrize("version", ["3", "4", "5"])
def test_terse(tmp_path: Path, version: str) -> None:
    path = tmp_path / "results.txt"

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        importer.read([path])

    withstands(read, goldens(GOLDEN, f"terse-{version}.txt"), f"terse {version}", names=str(path))


@pytest.mark.parametrize(
    ("kind", "patterns"),
    [
        ("bw", ("*_bw.*.log", "*_iops.*.log")),
        ("iops", ("*_iops.*.log",)),
        ("lat", ("*_clat.*.log", "*_bw.*.log")),
        ("clat_hist", ("*_clat_hist.*.log",)),
    ],
)
def test_logs(tmp_path: Path, kind: str, patterns: tuple[str, ...]) -> None:
    path = tmp_path / f"x_{kind}.1.log"

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        importer.read([path])

    withstands(read, goldens(LOGS, *patterns), f"log {kind}", names=str(path))
