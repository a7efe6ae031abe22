"""Reads users' fio job files, as fio itself does (`__parse_jobs_ini` in init.c): sections, [global], include, ${VAR}.

A job file is run as it is. What is changed in its text, and only then: options that a study's factors set, and where
logs go (they must not land in the user's folder, where each trial would overwrite the last one's).
Which paths a job touches is `paths`' business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay.drivers.fio.options import canonical, write
from ioassay.drivers.fio.section import Section, fio_bytes
from ioassay.errors import StudyError
from ioassay.record import Warning_, level_number

LOGS = ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "write_iolog", "merge_blktrace_file")
"""Options whose value is a path, or the beginning of one, that fio writes its logs to."""
FAMILIES: tuple[frozenset[str], ...] = (
    frozenset({"bs", "bsrange", "bssplit"}),
    frozenset({"direct", "buffered"}),
    frozenset({"rwmixread", "rwmixwrite"}),
)
"""Options that say the same thing: a factor for one replaces all of its family."""
_SECTION = re.compile(r"\[(.{1,255})")
_COMPUTED = re.compile(r"\$(pagesize|mb_memory|ncpus)")


@dataclass(frozen=True)
class Line:
    """One line with an option. `section` numbers the headings met so far, from 0."""

    number: int
    section: int
    name: str
    value: str | None
    """None for an option without '='."""


@dataclass
class JobFile:
    """A job file: its lines and the jobs they make."""

    sections: list[Section] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    """Options of the file itself, not of those that it includes."""
    included: set[str] = field(default_factory=set)
    """Canonical names of the options that included files set."""
    beside: dict[int, Path] = field(default_factory=dict)
    """Line -> file that it includes, where that lies beside the job file and not in the folder that fio runs in."""
    headings: list[str] = field(default_factory=list)

    def stages(self) -> list[list[Section]]:
        """Jobs that run together; a `stonewall` (or `wait_for`) begins the next stage."""
        stages: list[list[Section]] = []
        for job in self.sections:
            if not stages or job.flag("stonewall") or "wait_for" in job.options:
                stages.append([])
            stages[-1].append(job)
        return stages


def parse(text: str, folder: Path, environment: Mapping[str, str], place: Path) -> JobFile:
    """The jobs of the text of the file `place`, as fio reads it when it runs in `folder`; StudyError names the line."""
    return _Reader(folder, environment, place).read(text)


class _Reader:
    """Reads one job file. Options of [global] gather in `shared` and are copied into each later job."""

    def __init__(self, folder: Path, environment: Mapping[str, str], place: Path) -> None:
        self.folder, self.environment, self.place = folder, environment, place
        self.file = JobFile()
        self.shared: list[tuple[str, str]] = []
        self.own: list[tuple[str, str]] = []

    def read(self, text: str) -> JobFile:
        for number, line in enumerate(text.splitlines(), start=1):
            stripped = _strip(line)
            if not stripped:
                continue
            if heading := _SECTION.match(stripped):
                self._close()
                self.file.headings.append(heading[1][:-1])
                continue
            if not self.file.headings:
                raise self._wrong(number, f"'{stripped}' stands before the first [section]")
            if stripped.startswith("include"):
                self._include(stripped[len("include") + 1 :], number, self.place)
            else:
                self._option(stripped, number)
        self._close()
        if not self.file.sections:
            raise StudyError("has no job: wanted a [section] other than [global]", source=str(self.place))
        return self.file

    def _wrong(self, number: int, message: str) -> StudyError:
        return StudyError(message, source=f"{self.place}, line {number}")

    def _close(self) -> None:
        """End the current section: into `shared` where its name begins with `global`, as fio compares."""
        if not self.file.headings:
            return
        name = self.file.headings[-1]
        if name.startswith("global"):
            self.shared += self.own
        else:
            self.file.sections.append(_resolve(name, [*self.shared, *self.own]))
        self.own = []

    def _option(self, stripped: str, number: int) -> None:
        name, value = _pair(stripped)
        self.file.lines.append(Line(number, len(self.file.headings) - 1, name, value))
        self.own.append((name, self._substitute(value)))

    def _substitute(self, value: str | None) -> str:
        """`${VAR}` becomes the variable's value, or nothing."""
        return re.sub(r"\$\{([^}]*)\}", lambda found: self.environment.get(found[1], ""), value or "1")

    def _include(self, name: str, number: int, includer: Path, depth: int = 1) -> None:
        """As fio does: the name in the folder that it runs in, else beside the file that includes it."""
        if depth > 10:
            raise self._wrong(number, f"includes {name} ten times over")
        here, beside = self.folder / name, includer.parent / name
        found = here if here.exists() else beside
        if depth == 1 and found is beside:
            self.file.beside[number] = beside
        try:
            text = found.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self._wrong(number, f"cannot include {found}: {error}") from None
        for stripped in filter(None, map(_strip, text.splitlines())):
            if stripped.startswith("["):
                raise self._wrong(number, f"{name} begins a section, which fio refuses in included files")
            if stripped.startswith("include"):
                self._include(stripped[len("include") + 1 :], number, found, depth + 1)
                continue
            option, value = _pair(stripped)
            self.file.included.add(option)
            self.own.append((option, self._substitute(value)))


def _strip(line: str) -> str:
    """The line without comment and blanks: `;` and `#` begin a comment anywhere (`strip_blank_end` in parse.c)."""
    return re.split(r"[;#]", line, maxsplit=1)[0].strip()


def _pair(stripped: str) -> tuple[str, str | None]:
    name, equals, value = stripped.partition("=")
    return canonical(name), value.strip() if equals else None


def _resolve(name: str, pairs: Sequence[tuple[str, str]]) -> Section:
    options: dict[str, str] = {}
    for option, value in pairs:
        options.pop(option, None)  # the last one counts, and its place says so
        options[option] = value
    return Section(name, options, [value for option, value in pairs if option == "filename"])


def rewrite(text: str, jobs: JobFile, changes: Mapping[str, Any], log_folder: Path | None = None) -> str:
    """The text with `changes` (canonical option -> value of a study) and with its logs in `log_folder`.

    An option is replaced in every section that sets it or one of its family; where none does it is added in a [global]
    section of its own at the top. An include from beside the job file gets its whole path, since fio reads a copy of
    the text. Without all these the text is returned as it is. StudyError when an included
    file sets what is to change.
    """
    lines = text.splitlines(keepends=True)
    added: list[str] = []
    for name, value in changes.items():
        replacement, family = f"{name}={write(name, value)}", _family(name)
        if inside := family & jobs.included:
            raise StudyError(
                f"an included file sets {min(inside)}; write it into the job file itself", key=f"factors.{name}"
            )
        found = [line for line in jobs.lines if line.name in family]
        for line in found:
            lines[line.number - 1] = replacement + "\n"
        if not found:
            added.append(replacement)
    for line in jobs.lines:
        if log_folder is not None and line.name in LOGS:
            lines[line.number - 1] = f"{line.name}={log_folder / _log_name(line, jobs)}\n"
    for number, path in jobs.beside.items():
        lines[number - 1] = f"include {path}\n"
    head = ["[global]\n", *(f"{line}\n" for line in added)] if added else []
    return "".join([*head, *lines])


def _family(name: str) -> frozenset[str]:
    return next((family for family in FAMILIES if name in family), frozenset({name}))


def _log_name(line: Line, jobs: JobFile) -> str:
    """fio takes the job's name where a log option has no value."""
    given = Path(line.value or "").name or jobs.headings[line.section]
    return re.sub(r"[^\w.-]", "-", given)


def writes_logs(jobs: JobFile) -> bool:
    """Whether any job asks for logs; StudyError when an included file does, whose text cannot be redirected."""
    if hidden := jobs.included & set(LOGS):
        raise StudyError(f"an included file sets {min(hidden)}; write it into the job file itself")
    return any(line.name in LOGS for line in jobs.lines)


def computed(value: str) -> bool:
    """Whether fio computes this value itself ($ncpus and the like)."""
    return _COMPUTED.search(value) is not None


def warnings(jobs: JobFile) -> Iterator[Warning_]:
    """What is odd about the text: sizes that fio reads otherwise than they look."""
    for line in jobs.lines:
        suffix = re.search(r"\d([KMGTP]iB)\b", line.value or "", re.I)
        if suffix and any(job.kb_base == 1024 for job in jobs.sections):
            text = f"line {line.number}: fio reads {line.name}={line.value} in powers of 1000, because kb_base is 1024"
            remedy = f"write {suffix[1][0]} instead of {suffix[1]}, or set kb_base=1000"
            yield Warning_("kib-suffix", text, remedy)


def fixed(params: Mapping[str, Any], name: str) -> str | None:
    """What the jobs of a study's job file set an option to, as a study would write it; None where none of them does.

    StudyError where they differ: there is no one value of the job file then.
    """
    import os

    if "job" not in params:
        return None
    jobs = parse(str(params["job"]), Path(str(params["job_folder"])), os.environ, Path(str(params["job_path"])))
    option = canonical(name)
    found = list(dict.fromkeys(_as_studies_write(job, option) for job in jobs.sections))
    if len(found) > 1:
        told = ", ".join("nothing" if value is None else value for value in found)
        raise StudyError(f"its jobs set '{name}' to {told}", source=str(params["job_path"]))
    return found[0] if found else None


def _as_studies_write(job: Section, option: str) -> str | None:
    """fio's `4KiB` is 4000 bytes; what means the same to both stays as it is written."""
    value = job.options.get(option)
    size = None if value is None else fio_bytes(value, job.kb_base)
    return value if size is None or size == level_number(value) else str(size)


def job_study(text: str, path: Path) -> dict[str, Any]:
    """The study table of a job file: the text verbatim, three repetitions, responses and figures by its directions."""
    import os

    place = path.absolute()
    jobs = parse(text, Path.cwd(), os.environ, place)
    directions = sorted({direction for job in jobs.sections for direction in job.directions})
    scopes = [""] if len(jobs.sections) == 1 else [f"{job.title}/" for job in jobs.sections]
    responses = [
        f"{scope}{direction}.{quantity}"
        for scope, job in zip(scopes, jobs.sections, strict=False)
        for direction in sorted(job.directions)
        for quantity in ("bw", "iops", "lat.p99")
    ]
    return {
        "name": re.sub(r"[^\w.-]", "-", path.stem).lstrip("._-") or "job",
        "title": f"fio job file {path.name}",
        "description": "; ".join(f"{job.title}: {job.describe()}" for job in jobs.sections),
        "driver": "fio",
        "repetitions": 3,
        "target": {"kind": "null"},
        "params": {"job": text, "job_path": str(place), "job_folder": str(Path.cwd())},
        "analysis": {"responses": list(dict.fromkeys(responses))},
        "figures": [figure for direction in directions for figure in _figures(direction)],
    }


def _figures(direction: str) -> list[dict[str, Any]]:
    return [
        {"kind": "cdf", "name": f"{direction}_latency_cdf", "direction": direction, "latency": "lat"},
        {"kind": "order", "name": f"{direction}_bw_order", "y": f"{direction}.bw"},
    ]
