"""The pages of the gallery, as the present version writes them of the records in docs/gallery/.

docs/gallery.md is the list: a picture and below it a line `Records: …` with links to one run, whose page it is, to
two, which are compared, or to a history, whose trend it is. The picture's name is that of the page. Pages are kept in
.setup/gallery/ under a hash of all that they are made of, because to make all takes half a minute.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ioassay
from ioassay.packs.history import trend, trend_page

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = ROOT / "docs" / "gallery.md"
_CACHE = ROOT / ".setup" / "gallery"
_ENTRY = re.compile(r"(?P<picture>!\[[^]]*\]\([^)]*/(?P<name>[\w-]+)\.\w+\))\n\nRecords: (?P<records>.+)")
_HISTORY = "gallery/history.tar.xz"
_ARCHIVE = re.compile(r"\]\((gallery/[\w-]+\.tar\.xz)\)")


@dataclass(frozen=True)
class Entry:
    """A page of the gallery and the archives of the runs that it is made of, one or two."""

    name: str
    archives: Sequence[Path]


def entries() -> Iterator[Entry]:
    """Those of docs/gallery.md."""
    for found in _ENTRY.finditer(DOCUMENT.read_text(encoding="utf-8")):
        yield Entry(found["name"], [DOCUMENT.parent / path for path in _ARCHIVE.findall(found["records"])])


def files() -> dict[str, Path]:
    """Every file of the pages by its path in the site. They are made where the cache has none of this version."""
    version = _version()
    found = {}
    for entry in entries():
        folder = _folder(entry, version)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            found[f"gallery/{entry.name}/{path.relative_to(folder)}"] = path
    return found


def with_links(markdown: str) -> str:
    """The document for the site, where each picture opens its page."""
    return _ENTRY.sub(_opening, markdown)


def _opening(entry: re.Match[str]) -> str:
    page = f"gallery/{entry['name']}/{_page(_ARCHIVE.findall(entry['records']))}"
    return f"[{entry['picture']}]({page})\n\n[**Open the page**]({page}). Records: {entry['records']}"


def _page(archives: Sequence[str]) -> str:
    """Where the page of a run, of a comparison or of a trend is in its folder."""
    return "index.html" if len(archives) > 1 or _HISTORY in archives else "report/index.html"


def _folder(entry: Entry, version: bytes) -> Path:
    """A folder with the page and all files that it links to."""
    made_of = hashlib.sha256(version)
    for archive in entry.archives:
        made_of.update(hashlib.sha256(archive.read_bytes()).digest())
    folder = _CACHE / f"{entry.name}-{made_of.hexdigest()[:16]}"
    if not folder.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=_CACHE) as work:
            made = _made(entry, Path(work))
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():  # no other build was quicker
                    raise
        for older in set(_CACHE.glob(f"{entry.name}-{'?' * 16}")) - {folder}:
            shutil.rmtree(older, ignore_errors=True)
    return folder


def _made(entry: Entry, work: Path) -> Path:
    """The same, written below `work` by the program itself."""
    runs = []
    for number, archive in enumerate(entry.archives):
        with tarfile.open(archive) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
            packed.extractall(work / str(number))
        runs.append(next((work / str(number)).iterdir()))
    if any(runs[0].glob("*.parquet")):
        store = ioassay.history(runs[0])
        study = store.runs()["study"][0]
        found = trend.of_study(store, study)
        return trend_page.publish(found, work / "trend", f"ioassay history show {study}").parent
    if len(runs) > 1:
        return ioassay.compare(*runs).report(work / "comparison").parent
    ioassay.open(runs[0]).report()
    return runs[0]


def _version() -> bytes:
    """A digest of what makes pages: the package with its templates and compiled module, and the libraries' versions."""
    package = Path(ioassay.__file__).parent
    digest = hashlib.sha256((ROOT / "constraints.txt").read_bytes())
    for path in sorted(path for path in package.rglob("*") if path.is_file() and path.parent.name != "__pycache__"):
        digest.update(f"{path.relative_to(package)}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.digest()
