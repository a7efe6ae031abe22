"""A run as one file to share: all of its folder, as it is or redacted, and a MANIFEST that says what was done.

A redacted bundle is a run: `report`, `sql` and `compare` take it. Its page is made from the redacted records, by the
caller. Before the archive is written, every file is searched for every value that was to be replaced, in every
spelling. One that is left is an error. The same run gives the same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from ioassay.errors import InputError, RunError, UsageError
from ioassay.host import privacy
from ioassay.host.privacy import HOST, KINDS, SERIAL, USER, UUID, Redaction, Secret, folders_of
from ioassay.store import packed_page
from ioassay.store.run_folder import HOST as HOST_FACTS
from ioassay.store.run_folder import PLACE, RECORD, RunStore

MANIFEST = "MANIFEST.json"
SUFFIXES = (".tar.gz", ".tgz", ".tar.xz")
_SCHEMA = 1
_LEFT_OUT = ("run.lock", MANIFEST)
_REPORT = "report"
_TELLING = {
    **dict.fromkeys(("hostname", "nodename"), HOST),
    **dict.fromkeys(("username", "user_name", "logname"), USER),
    **dict.fromkeys(("serial", "serial_number", "wwid", "wwn"), SERIAL),
    **dict.fromkeys(("machine_id", "machine-id"), UUID),
}
"""Keys of JSON and YAML whose values are secrets wherever they stand."""
_LINE = re.compile(rf"(?im)^\s*({'|'.join(_TELLING)})\s*[:=]\s*[\"']?([^\s\"',#]+)[\"']?\s*$")
_ASSIGNED = re.compile(r"(?m)^\s*[\w.-]+\s*=\s*(/[^\n]*?)\s*$")
"""A path in a job file, which ends with its line and may have spaces."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*')
_SCRIPT = re.compile(r"<script(?![^>]*application/(?:json|gzip))[^>]*>.*?</script>", re.DOTALL)
"""Code of libraries on the page, which is the same in every bundle."""
_PICTURES = (".png",)


@dataclass
class Manifest:
    """What a bundle says of itself; no value that was replaced is in it."""

    redacted: bool
    run: str
    files: int = 0
    replaced: dict[str, int] = field(default_factory=dict)
    """Kind, in words, to how many places."""
    only_in_fields: Counter[str] = field(default_factory=Counter)
    """Kind to how many values are words or numbers of their own, and were replaced in fields that name them only."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason to how many files."""
    schema: int = _SCHEMA


def require_resumable(root: Path) -> None:
    """UsageError for an unpacked redacted bundle, whose paths are placeholders."""
    try:
        redacted = json.loads((root / MANIFEST).read_text(encoding="utf-8"))["redacted"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if redacted:
        raise UsageError(f"{root}: is a redacted bundle, whose paths are placeholders; expected the run it was made of")


def require_new(output: Path, root: Path, endings: tuple[str, ...] = ("",)) -> None:
    """UsageError for a name that cannot be used: it ends otherwise, is there, or lies in the run's folder `root`."""
    if not output.name.endswith(endings):
        raise UsageError(f"--output {output}: expected a name that ends with {', '.join(endings)}")
    if output.exists() or output.is_symlink():
        raise UsageError(f"--output {output}: exists already; expected a new name")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: its folder does not exist; make it, or name another")
    if output.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"--output {output}: lies in the run's own folder; expected another place")


def time_of(store: RunStore) -> int:
    """When the run began: the time that all files of its bundle bear."""
    began = store.raw_host().get("gathered_unix_s")
    if not isinstance(began, int | float):
        began = min((record.started_unix_s for record in store.records()), default=0.0)
    return int(began)


def redaction_of(store: RunStore, known: Iterable[Secret]) -> Redaction:
    """What replaces the secrets of a run: those of this machine, and those that the run's own files name."""
    own = _Secrets()
    own.folder(str(store.root.resolve() / "x"))
    with suppress(InputError):
        if folder := store.working_directory():
            own.folder(str(folder / "x"))
    kernel = store.raw_host().get("kernel")
    if isinstance(kernel, Mapping) and isinstance(line := kernel.get("cmdline"), str):
        own.found += [Secret(privacy.BOOT, hidden) for hidden in privacy.hidden_values(line)]
    for path in _files(store, Manifest(True, "")):
        if path.relative_to(store.root).parts[0] != _REPORT and (text := _text(path)) is not None:
            own.read(path, text)
    return Redaction([*known, *own.found], own.vocabulary, root=str(store.root.resolve()))


def copy(store: RunStore, folder: Path, redaction: Redaction | None, *, report: bool = True) -> Manifest:
    """The run's files below `folder`; where they are redacted, without the report, which is to be made from them."""
    name = store.root.resolve().name
    manifest = Manifest(redaction is not None, redaction.text(name) if redaction else name)
    if redaction is not None:
        manifest.only_in_fields = Counter(KINDS[secret.kind] for secret in redaction.weak)
    for path in _files(store, manifest):
        inside = path.relative_to(store.root)
        if inside.parts[0] == _REPORT and not (report and redaction is None):
            continue
        if redaction is None:
            _place(path.read_bytes(), folder / inside)
        elif inside.name != PLACE:
            _redact(path, inside, folder, redaction, manifest)
    return manifest


def seal(folder: Path, manifest: Manifest, redaction: Redaction | None) -> None:
    """Write the MANIFEST; of a redacted bundle, after every file has been searched."""
    if redaction is not None:
        require_clean(folder, redaction)
        manifest.replaced = {KINDS[kind]: count for kind, count in sorted(redaction.counts.items())}
    manifest.files = sum(path.is_file() for path in folder.rglob("*")) + 1
    text = json.dumps(vars(manifest), indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def pack(folder: Path, output: Path, time_unix_s: int) -> None:
    """The archive: files by name, all of one time and of nobody, so that equal content gives equal bytes."""
    unfinished = output.with_name(f".{output.name}.tmp")
    try:
        with (
            unfinished.open("wb") as file,
            _compression(file, output, time_unix_s) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                entry = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder)}")
                entry.size, entry.mtime, entry.mode = path.stat().st_size, time_unix_s, 0o644
                with path.open("rb") as content:
                    archive.addfile(entry, content)
        unfinished.replace(output)
    except OSError as error:
        raise RunError(f"{output}: cannot be written: {error.strerror}; --output names another place") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _compression(file: BinaryIO, output: Path, time_unix_s: int) -> BinaryIO:
    """By the archive's name. XZ finds what files far apart share, so that many small records take a third of GZIP's."""
    if output.suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(file, "wb", preset=9))
    return cast(BinaryIO, gzip.GzipFile("", "wb", fileobj=file, mtime=time_unix_s))


def _files(store: RunStore, manifest: Manifest) -> Iterator[Path]:
    """Every file of the run, by name; not those of trials that never ended, and no link to somewhere else."""
    for path in sorted(store.root.rglob("*")):
        inside = path.relative_to(store.root)
        if path.is_symlink():
            manifest.left_out["symbolic links"] += 1
        elif path.is_dir() or inside.name in _LEFT_OUT:
            continue
        elif not path.is_file():
            manifest.left_out["no regular files"] += 1
        elif inside.parts[0] == "trials" and not (len(inside.parts) > 2 and store.has(inside.parts[1])):
            manifest.left_out["files of trials without a record"] += 1
        else:
            yield path


def _place(content: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# What a run's own files name


class _Secrets:
    """Collects from the files of a run the folders and names in it, and the words that mean something there."""

    def __init__(self) -> None:
        self.found: list[Secret] = []
        self.vocabulary: set[str] = set()

    def read(self, path: Path, text: str) -> None:
        for table in _tables(path, text):
            self._walk(table, "")
        for key, value in _LINE.findall(text):
            self.found.append(Secret(_TELLING[key.lower()], value))
        for named in _ASSIGNED.findall(text):
            self.folder(named)

    def _walk(self, value: Any, key: str) -> None:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                self.vocabulary |= {str(name), *re.findall(r"[^\W_]+", str(name))}
                self._walk(inner, str(name))
        elif isinstance(value, list):
            for inner in value:
                self._walk(inner, key)
        elif isinstance(value, str):
            if kind := _TELLING.get(key.lower()):
                self.found.append(Secret(kind, value))
            if value.startswith("/") and "\n" not in value:
                self.folder(value)
            for named in _ASSIGNED.findall(value):
                self.folder(named)

    def folder(self, path: str) -> None:
        """The folder of a path; `:` parts the files of fio's lists. Prose that begins with a path has a space after."""
        for piece in re.split(r"(?<!\\):(?=/)", path):
            prose = re.search(r": |; |, ", piece)
            self.found += folders_of(piece[: prose.start()] if prose else piece)


def _text(path: Path) -> str | None:
    content = path.read_bytes()
    return None if b"\0" in content or content[:4] == b"PAR1" else content.decode("utf-8", "surrogateescape")


def _tables(path: Path, text: str) -> Iterator[Any]:
    with suppress(ValueError, RecursionError):
        if path.suffix == ".jsonl":
            yield from (json.loads(line) for line in text.split("\n") if line)
        elif path.suffix == ".toml":
            yield tomllib.loads(text)
        else:
            yield json.loads(text[text.find("{") :])


# Replacing


def _redact(path: Path, inside: Path, folder: Path, redaction: Redaction, manifest: Manifest) -> None:
    target = folder / Path(*(redaction.text(part) for part in inside.parts))
    if path.suffix == ".parquet":
        _place(_parquet(path, redaction), target)
        return
    text = _text(path)
    if text is None:
        manifest.left_out["binary files, which cannot be searched"] += 1
        return
    if inside.name == HOST_FACTS and len(inside.parts) == 1:
        text = json.dumps(RunStore(path.parent).host(), indent=1)
    if inside.name == RECORD:  # it lists no raw file that the bundle has not
        record, raw = json.loads(text), path.parent / "raw"
        listed = record.get("raw", [])
        files = [name for name in listed if (raw / name).is_file() and not (raw / name).is_symlink()]
        kept = [name for name in files if _text(raw / name) is not None]
        text = text if kept == listed else json.dumps({**record, "raw": kept}, indent=1)
    _place(_replaced(path, text, redaction).encode("utf-8", "surrogateescape"), target)


def _replaced(path: Path, text: str, redaction: Redaction) -> str:
    if path.suffix == ".toml":
        import tomli_w

        return tomli_w.dumps(_values(tomllib.loads(text), redaction, ""))
    try:
        if path.suffix != ".jsonl":
            json.loads(text)
    except (ValueError, RecursionError):
        return redaction.text(text)
    return _in_strings(text, redaction)


def _in_strings(text: str, redaction: Redaction) -> str:
    """JSON with its strings replaced, and with its numbers and layout as the tool wrote them."""
    key = ""

    def token(hit: re.Match[str]) -> str:
        nonlocal key
        if not hit[0].startswith('"'):  # a number, which may be under a key that names a secret
            return json.dumps(redaction.field(key, hit[0])) if redaction.is_named(key, hit[0]) else hit[0]
        end = hit[1] or ""
        said = json.loads(hit[0].removesuffix(end), strict=False)
        if end:
            key = said
        clean = redaction.text(said) if end else redaction.field(key, said)
        return hit[0] if clean == said else json.dumps(clean) + end

    return _TOKEN.sub(token, text)


def _values(value: Any, redaction: Redaction, key: str) -> Any:
    if isinstance(value, Mapping):
        return {redaction.text(str(name)): _values(inner, redaction, str(name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [_values(inner, redaction, key) for inner in value]
    return redaction.field(key, value) if isinstance(value, str) else value


def _parquet(path: Path, redaction: Redaction) -> bytes:
    import polars as pl

    frame = pl.read_parquet(path)
    changed = False
    for name in (name for name, kind in frame.schema.items() if kind == pl.String):
        values = frame[name].unique().drop_nulls().to_list()
        clean = {value: redaction.text(value) for value in values}
        if any(value != new for value, new in clean.items()):
            changed = True
            frame = frame.with_columns(pl.col(name).replace(clean))
    if not changed:
        return path.read_bytes()
    content = io.BytesIO()
    frame.write_parquet(content, compression="zstd")
    return content.getvalue()


# Searching


def require_clean(folder: Path, redaction: Redaction) -> None:
    """RunError with kinds and files, never the values, where a known value is left."""
    left: dict[str, set[str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        inside = str(path.relative_to(folder))
        for secret in {*redaction.left_in(inside), *_left(path, redaction)}:
            left.setdefault(KINDS[secret.kind], set()).add(inside)
    if left:
        more = {kind: f" and {len(files) - 3} more" if len(files) > 3 else "" for kind, files in left.items()}
        where = "; ".join(f"{kind} in {', '.join(sorted(left[kind])[:3])}{more[kind]}" for kind in sorted(left))
        raise RunError(f"nothing was written: it still holds {where}. Please report this, with the kinds")


def _left(path: Path, redaction: Redaction) -> set[Secret]:
    """What is left in a file: in its bytes, in the columns of a table, in the strings of JSON and of a page's data."""
    if path.suffix == ".parquet":
        import polars as pl

        frame = pl.read_parquet(path)
        texts = [name for name, kind in frame.schema.items() if kind == pl.String]
        values = [value for name in texts for value in frame[name].unique().drop_nulls().to_list()]
        return set(redaction.left_in("\n".join([*frame.columns, *values])))
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    if path.suffix in _PICTURES:
        return {secret for secret in redaction.left_in(text) if len(secret.value) >= privacy.DISTINCT_LETTERS}
    return set(redaction.left_in(_SCRIPT.sub("", packed_page.unpacked(text)) if path.suffix == ".html" else text))
