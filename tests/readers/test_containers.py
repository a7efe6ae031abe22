"""Results and traces in archives, compressed and in other encodings are read as what is in them, by one reader."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ioassay.errors import InputError
from ioassay.packs.foreign import importer
from ioassay.simulation import traces
from ioassay.store import frames

from ..corpora import golden

TRACE = b"time_ns,kind,offset_bytes,length_bytes\n10,read,0,4096\n20,write,4096,4096\n30,read,8192,4096\n"


def tarred(*files: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def pax(*files: tuple[str, bytes]) -> bytes:
    """A tar archive of long names in its newer form, with a folder and a link in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE):
            entry = tarfile.TarInfo(f"x{kind!r}")
            entry.type, entry.linkname = kind, "elsewhere"
            archive.addfile(entry)
        for name, content in files:
            entry = tarfile.TarInfo("ö" * 60 + "/" + "x" * 120 + name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def zipped(*files: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return packed.getvalue()


def streamed(*files: tuple[str, bytes]) -> bytes:
    """A zip archive as a pipe has it, with sizes behind the files."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

    packed = Pipe()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return packed.getvalue()


def zstd(content: bytes) -> bytes:
    return subprocess.run(["zstd", "-c"], input=content, capture_output=True, check=True).stdout


def matryoshka(layers: int) -> bytes:
    return gzip.compress(matryoshka(layers - 1)) if layers else b"x"


def protected(content: bytes) -> bytes:
    """An archive whose file is said to have a password."""
    packed = bytearray(zipped(("a", content)))
    packed[6] |= 1
    return bytes(packed)


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstd,
    "two streams of gzip": lambda text: gzip.compress(text[:100]) + gzip.compress(text[100:]),
    "tar": lambda text: tarred(("x/fio.json", text), ("x/README", b"how it was measured")),
    "tar.xz": lambda text: lzma.compress(tarred(("fio.json", text))),
    "tar with pax records": lambda text: pax((".json", text)),
    "tar of GNU, in zstd": lambda text: zstd(tarred(("x" * 120 + "/fio.json", text))),
    "zip": lambda text: zipped(("../fio.json", text)),
    "zip of a pipe": lambda text: streamed(("fio.json", text)),
    "gzip in zip": lambda text: zipped(("fio.json.gz", gzip.compress(text))),
    "tar.gz in zip": lambda text: zipped(("x.tar.gz", gzip.compress(tarred(("fio.json", text))))),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "UTF-16": lambda text: text.decode().encode("utf-16"),
    "UTF-16 of the other order": lambda text: b"\xfe\xff" + text.decode().encode("utf-16-be"),
    "line ends of Windows": lambda text: text.replace(b"\n", b"\r\n"),
}
BOMB = b"\n" * 2**27
REFUSED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a bomb": (lambda text: gzip.compress(text + BOMB), "the gzip stream holds more than 64 MiB and 1000 times"),
    "a bomb in tar": (lambda text: lzma.compress(tarred(("zeros", BOMB), ("a", text))), "holds more than"),
    "a bomb in zip": (lambda text: streamed(("zeros", BOMB)), "the zip archive holds more than"),
    "a password": (protected, "a has a password; unpack it first"),
    "tar cut off": (lambda text: tarred(("a", text))[:600], "the tar archive breaks off: the file is incomplete"),
    "tar without end": (lambda text: tarred(("a", text)).rstrip(b"\0"), "the tar archive breaks off"),
    "zip cut off": (lambda text: zipped(("a", text))[:-10], "the zip archive breaks off"),
    "a zip directory": (lambda text: zipped(("a", text)).replace(b"PK\1\2", b"PK\1\3"), "the zip archive is damaged"),
    "gzip cut off": (lambda text: gzip.compress(text)[:-9], "the gzip stream breaks off"),
    "a member cut off": (lambda text: tarred(("a.gz", gzip.compress(text)[:-9])), r"a\.gz: the gzip stream breaks off"),
    "no gzip": (lambda text: b"\x1f\x8bno gzip at all", "the gzip stream is damaged"),
    "no frame of zstd": (lambda text: b"(\xb5/\xfdno frame", "the zstd stream is damaged"),
    "too deep": (lambda text: matryoshka(6), "packed more than 4 times"),
    "7z": (lambda text: b"7z\xbc\xaf\x27\x1c\0\4", "packed as 7z, which is not read; unpack it first"),
    "no UTF-16": (lambda text: text.decode().encode("utf-16") + b"\x00\xd8\x00\x00", "is no right UTF-16"),
}  # fmt: skip


class Kind(NamedTuple):
    plain: bytes
    read: Callable[[Path, Path], Any]
    """What is in a file or folder; the other is a new folder for what is made of it."""


def trials(path: Path, made: Path) -> object:
    found = frames.load(importer.take_in([path], made)).trials
    return found.select("read.iops", "read.lat.p99", "status").to_dicts()


def requests(path: Path, made: Path) -> object:
    made.mkdir()
    traces.convert(path, made / "converted", to="csv", cache=False)
    return (made / "converted").read_bytes()


KINDS = {"results": Kind(golden("fio/3.33/read/fio.json").encode(), trials), "trace": Kind(TRACE, requests)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_packed_is_read_as_the_plain_file(tmp_path: Path, kind: str, way: str) -> None:
    content, read = KINDS[kind]
    plain, packed = tmp_path / "plain", tmp_path / "packed.2"
    plain.write_bytes(content)
    packed.write_bytes(WAYS[way](content))
    wanted = read(plain, tmp_path / "a")
    assert read(packed, tmp_path / "b") == wanted
    folder = tmp_path / "folder"
    for hidden in (folder / ".hidden", folder / "below" / ".hidden" / "deeper"):
        hidden.parent.mkdir(parents=True)
        hidden.write_text("junk")
    packed.rename(folder / "below" / "packed.2")
    (folder / "notes.txt").write_text("measured on a Sunday")
    assert read(folder, tmp_path / "c") == wanted


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_unpacked_is_refused_with_what_to_do(tmp_path: Path, kind: str, case: str) -> None:
    (content, read), (pack, why) = KINDS[kind], REFUSED[case]
    packed = tmp_path / "packed"
    packed.write_bytes(pack(content))
    with pytest.raises(InputError, match=f"^{packed}: .*{why}"):
        read(packed, tmp_path / "run")
    assert not (tmp_path / "run" / "study.toml").exists()


# What results have in addition: they are unpacked to a disk


def test_files_that_lay_together_lie_together_and_none_replaces_another(tmp_path: Path) -> None:
    inside = [("a/b.log.gz", gzip.compress(b"b")), ("a/c.log", b"c"), ("a/c.log", b"again"), ("a/c.log/d", b"d")]
    (tmp_path / "packed").write_bytes(tarred(*inside, ("../../e", b"e"), ("/", b"f")))
    (tmp_path / "unpacked").mkdir()
    found = importer.unpacked([tmp_path / "packed"], tmp_path / "unpacked")
    assert [path.read_text() for _, path in found] == ["b", "c", "again", "d", "e", "f"]
    assert [name.removeprefix(f"{tmp_path}/packed: ") for name, _ in found][:3] == ["a/b.log.gz", "a/c.log", "a/c.log"]
    assert [path.name for _, path in found] == ["b.log", "c.log", "c.log", "d", "e", "file"]
    assert found[0][1].parent == found[1][1].parent != found[2][1].parent
    assert all(path.is_relative_to(tmp_path / "unpacked") for _, path in found)


def test_all_that_is_in_a_file_is_bounded_together(tmp_path: Path) -> None:
    each = gzip.compress(bytes(2**26))
    (tmp_path / "packed").write_bytes(zipped(("a.gz", each), ("b.gz", each)))
    with pytest.raises(InputError, match="the file holds more than 64 MiB and 1000 times its size; unpack it first"):
        importer.take_in([tmp_path / "packed"], tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff\xfe\x00", "is binary"), (tarred(("a", b"words"), ("b", b"others")), "packed: a: is in no known format")],
    ids=["half a character", "no results"],
)
def test_what_holds_no_results_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "packed").write_bytes(content)
    with pytest.raises(InputError, match=why):
        importer.take_in([tmp_path / "packed"], tmp_path / "run")
    assert not (tmp_path / "run").exists()
