"""Results of tools other than fio, damaged: `ioassay import` refuses them with the file's name, or takes them in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.errors import InputError
from ioassay.store import importer

from .mutation import withstands

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = {
    "sysbench": "sysbench/1.0.20/*.txt",
    "elbencho": "elbencho/documented/*.csv",
    "vdbench": "vdbench/documented/*.txt",
    "iozone": "iozone/3.471/*.txt",
    "phoronix": "phoronix/documented/*.xml",
}


@pytest.mark.parametrize("tool", importer.FORMATS)
def test_results(tmp_path: Path, tool: str) -> None:
    path = tmp_path / "results.txt"

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        importer.read([path])

    withstands(
        read, [file.read_bytes() for file in sorted(GOLDEN.glob(FILES[tool]))], f"results of {tool}", names=str(path)
    )


def test_an_empty_file_is_no_tools_in_particular(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("\n")
    with pytest.raises(InputError, match="is empty: its tool ended before it wrote results"):
        importer.take_in([tmp_path / "results"], tmp_path / "run", None)
