"""Runs found again: those in folders, newest first, with what each came to, and those of the history in the same form.

Nothing is analysed and nothing is written: what a run came to is read from its report, and only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from ioassay.errors import InputError, IoassayError, UsageError
from ioassay.hints import nearest
from ioassay.narrative.conditions_text import GRADES
from ioassay.packs.history import run_record
from ioassay.packs.history.history_store import Store
from ioassay.packs.history.record_columns import BEGUN, KEYS, TEXTS
from ioassay.store.run_folder import PLAN, RunStore
from ioassay.verify.verdict import CATEGORIES

_DEEPEST = 4
"""Folders of folders of runs that are looked into."""
Texts = Mapping[str, str]


@dataclass(frozen=True)
class Listed:
    """A run. `run` is its folder, or its identity in the history."""

    begun: datetime
    run: str
    read: Callable[[], tuple[str, Sequence[Texts]]]

    @cached_property
    def _known(self) -> tuple[str, Sequence[Texts]]:
        return self.read()

    @property
    def state(self) -> str:
        """What is wrong with it: `unfinished: …`, `broken: …`, `no run: …`, `no report: …`; '' for a run with its
        report."""
        return self._known[0]

    @property
    def studies(self) -> Sequence[Texts]:
        """TEXTS of each of its studies, as far as they are known."""
        return self._known[1]

    def worst(self, column: str) -> str:
        """The worst grade or verdict of its studies."""
        ranked = ("", *(GRADES.values() if column == "grade" else CATEGORIES))
        return max(
            (study[column] for study in self.studies),
            key=lambda word: ranked.index(word) if word in ranked else 0,
            default="",
        )

    def as_dict(self) -> dict[str, Any]:
        named = {"run": self.run, BEGUN: self.begun.isoformat(), "state": self.state}
        return {**named, "studies": [dict(study) for study in self.studies]}


def chosen(
    runs: Sequence[Listed], study: str | None, where: Mapping[str, str], since: datetime | None
) -> Iterator[Listed]:
    """Those of which a study has the name and the texts of the columns `where`; UsageError for an unknown column."""
    for name in where:
        if name not in KEYS:
            raise UsageError(f"--where {name}: expected one of {', '.join(KEYS)}{nearest(name, KEYS)}")
    wanted = {**where, **({"study": study} if study is not None else {})}
    for one in runs:
        if since is not None and one.begun < since:
            return
        if not wanted or any(wanted.items() <= {"run": one.run, **own}.items() for own in one.studies):
            yield one


def of_history(store: Store) -> list[Listed]:
    """The runs of a history, newest first."""
    found = []
    for (begun, run), rows in groupby(store.runs().rows(named=True), key=lambda row: (row[BEGUN], row["run"])):
        studies = [{name: row[name] for name in TEXTS} for row in rows]
        found.append(Listed(begun, run, partial(_known, "", studies)))
    return found[::-1]


def _known(state: str, studies: Sequence[Texts]) -> tuple[str, Sequence[Texts]]:
    return state, studies


def in_folders(roots: Sequence[Path]) -> list[Listed]:
    """The runs at and below the folders, newest first, and the folders next to them that are none.

    InputError for a folder that is not there.
    """
    found: dict[Path, Listed] = {}
    for root in roots:
        if not root.is_dir():
            what = "is a file" if root.exists() else "no such folder"
            raise InputError(f"{root}: {what}; expected the folder of runs, by default runs, or that of a run")
        for path in _below(root, 0) or ():
            found.setdefault(path.resolve(), Listed(_begun(path), str(path), partial(_read, path)))
    return sorted(found.values(), key=lambda one: one.begun, reverse=True)


def _below(folder: Path, depth: int) -> list[Path] | None:
    """The runs, and what is none next to runs; None where there is no run."""
    try:
        if (folder / PLAN).is_file():
            return [folder]
        inside = sorted(path for path in folder.iterdir() if path.name[0] != "." and path.is_dir())
    except OSError:
        return [folder]  # it may be one
    below = {path: _below(path, depth + 1) for path in inside if depth < _DEEPEST and not path.is_symlink()}
    if depth and not any(below.values()):
        return None
    return [path for child, runs in below.items() for path in runs or (child,)]


def _begun(folder: Path) -> datetime:
    """When its facts were gathered; of what is no run, or damaged, when it was written."""
    try:
        moment = RunStore(folder).raw_host().get("gathered_unix_s")
    except IoassayError:
        moment = None
    plan = folder / PLAN
    try:
        written = (plan if plan.exists() else folder).stat().st_mtime
    except OSError:
        written = 0.0
    return datetime.fromtimestamp(float(moment) if isinstance(moment, int | float) else written, UTC)


def _read(folder: Path) -> tuple[str, Sequence[Texts]]:
    try:
        store = RunStore.open(folder)
    except IoassayError as error:
        return f"no run: {str(error).removeprefix(f'{folder}: ').partition(';')[0]}", ()
    try:
        suite, host, search = store.suite(), store.host(), store.tuning()
        findings = run_record.stored_findings(folder)
        studies = [
            {**dict.fromkeys(TEXTS, ""), **texts}
            for texts in run_record.heads(suite.studies, host, findings if findings is not None else ())
        ]
        planned = sum(1 for line in (folder / PLAN).open("rb") if line.strip())
        recorded = sum(1 for path in (folder / "trials").iterdir() if store.has(path.name))
    except OSError as error:
        return f"broken: {error.filename}: {error.strerror}", ()
    except IoassayError as error:
        return f"broken: {error}", ()
    # Adaptive repetition may leave trials out.
    lacks = planned - recorded if all(study.until is None for study in suite.studies) else 0
    if lacks > 0 or not recorded or (search is not None and search["found"] is None):
        return f"unfinished: {recorded} of {planned} trials; {store.resume_command}", studies
    return ("" if findings is not None else f"no report: ioassay report {folder}"), studies
