"""Results in archives, compressed and in other encodings are read as what is in them."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.containers import unpacked
from ioassay.errors import InputError
from ioassay.packs.foreign import importer
from ioassay.store import frames

from ..corpora import golden

RESULTS = golden("fio/3.33/read/fio.json")


def tarred(*files: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def zipped(*files: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return packed.getvalue()


def matryoshka(layers: int) -> bytes:
    return gzip.compress(matryoshka(layers - 1)) if layers else b"x"


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "two streams of gzip": lambda text: gzip.compress(text[:100]) + gzip.compress(text[100:]),
    "tar": lambda text: tarred(("x/fio.json", text), ("x/README", b"how it was measured")),
    "tar.xz": lambda text: lzma.compress(tarred(("fio.json", text))),
    "zip": lambda text: zipped(("../fio.json", text)),
    "gzip in zip": lambda text: zipped(("fio.json.gz", gzip.compress(text))),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "UTF-16": lambda text: text.decode().encode("utf-16"),
    "UTF-16 of the other order": lambda text: b"\xfe\xff" + text.decode().encode("utf-16-be"),
    "line ends of Windows": lambda text: text.replace(b"\n", b"\r\n"),
}


def trials(*files: Path, root: Path) -> list[dict[str, object]]:
    found = frames.load(importer.take_in(files, root)).trials
    return found.select("read.iops", "read.lat.p99", "status").to_dicts()


@pytest.mark.parametrize("way", WAYS)
def test_packed_results_are_read_as_plain_ones(tmp_path: Path, way: str) -> None:
    plain, packed = tmp_path / "fio.json", tmp_path / "results"
    plain.write_text(RESULTS)
    packed.write_bytes(WAYS[way](RESULTS.encode()))
    wanted = trials(plain, root=tmp_path / "a")
    assert trials(packed, root=tmp_path / "b") == wanted
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    packed.rename(folder / "below" / "results.2")
    (folder / "notes.txt").write_text("measured on a Sunday")
    assert trials(folder, root=tmp_path / "c") == wanted


def test_zstandard_is_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "x.zst"
    packed.write_bytes(base64.b64decode("KLUv/QRoSQAAdHdvIGZpbGVzh0SaBA=="))
    (found,) = unpacked([packed], tmp_path)
    assert found.path.read_text() == "two files"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (gzip.compress(bytes(2**27), 9), "holds more than"),
        (lzma.compress(tarred(("zeros", bytes(2**27)))), "holds more than"),
        (gzip.compress(RESULTS.encode())[:-500], "cannot be unpacked"),
        (b"\x1f\x8bno gzip at all", "cannot be unpacked"),
        (b"\xff\xfe\x00", "cannot be unpacked"),
        (b"(\xb5/\xfdno frame", "cannot be unpacked"),
        (matryoshka(6), "more than 4 times"),
        (tarred(("a", b"words"), ("b", b"others")), "results: a: is in no known format"),
    ],
    ids=["a bomb", "a bomb in tar", "cut off", "no gzip", "half a character", "no frame", "too deep", "no results"],
)  # fmt: skip
def test_what_cannot_be_unpacked_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "results"
    file.write_bytes(content)
    with pytest.raises(InputError, match=why):
        importer.take_in([file], tmp_path / "run")
    assert not (tmp_path / "run").exists()
