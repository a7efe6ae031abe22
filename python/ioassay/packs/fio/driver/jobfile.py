"""Reads users' fio job files, as fio itself does (`__parse_jobs_ini` in init.c): sections, [global], include, ${VAR}.

A job file is run as it is. What is changed in its text, and only then: options that a study's factors set, and where
logs go (they must not land in the user's folder, where each trial would overwrite the last one's).
Text that fio and a reader could see differently is refused here by name and line: control characters, and lines longer
than fio's buffer. `expansion` holds this reading against fio's own. Which paths a job touches is `paths`' business.
"""

from __future__ import annotations

import ast
import operator
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ioassay.errors import StudyError
from ioassay.factors import Kind, factor, level_number
from ioassay.packs.fio.driver.fio_options import LINE_BYTES, canonical, write
from ioassay.packs.fio.driver.section import FileOption, Section, fio_bytes
from ioassay.records.record import Warning_

LOGS = ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "write_iolog", "merge_blktrace_file")
"""Options whose value is a path, or the beginning of one, that fio writes its logs to."""
FAMILIES: tuple[frozenset[str], ...] = (
    frozenset({"bs", "bsrange", "bssplit"}),
    frozenset({"direct", "buffered"}),
    frozenset({"rwmixread", "rwmixwrite"}),
)
"""Options that say the same thing: a factor for one replaces all of its family."""
_HEADING_BYTES = 254
"""fio keeps 255 bytes of a section's heading, its bracket included (`__parse_jobs_ini`)."""
_MOST_INCLUDES = 10
_PRIORITIES = {
    **dict.fromkeys(("lockfile", "cpus_allowed_policy", "kb_base", "unit_base"), 1),
    **dict.fromkeys(("filename", "filename_format"), -1),
}
"""fio parses a section's options by priority, then as they stand (`sort_options`; `.prio` in options.c)."""
_OF_LAB = "IOASSAY_"
_BLANKS = " \t\r"
_CONTROL_NAMES = {
    "\0": "NUL",
    "\v": "VT, vertical tab",
    "\f": "FF, form feed",
    "\r": "CR, carriage return",
    "\x1b": "ESC, escape",
    "\x85": "NEL, next line",
}


@dataclass(frozen=True)
class Line:
    """One line with an option. `section` numbers the headings met so far, from 0."""

    number: int
    section: int
    name: str
    value: str | None
    """None for an option without '='."""


@dataclass(frozen=True)
class Option:
    """One option of a section, its environment variables put in."""

    name: str
    """fio's first name of it."""
    value: str | None
    """As it stands behind '='; None for an option without one."""
    line: int
    priority: int = 0

    @property
    def text(self) -> str:
        """The value without blanks; a bare name is on."""
        return "1" if self.value is None else self.value.strip(_BLANKS)


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
    contents: list[str] = field(default_factory=list)
    """All lines but headings, of included files too, without comments."""
    own: list[list[Option]] = field(default_factory=list)
    """Heading -> the options written under it, in the order in which fio parses them."""

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


def study_table(path: Path) -> dict[str, Any]:
    """The study table of a job file, its line ends as they are; StudyError for what is no text."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise StudyError(f"cannot be read: {error.strerror}", source=str(path)) from None
    except UnicodeDecodeError as error:
        raise StudyError(f"is not a text in UTF-8: {error}", source=str(path)) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise StudyError(f"line {line} holds a NUL byte; expected a text", source=str(path))
    return job_study(text, path)


class _Reader:
    """Reads one job file. Options of [global] gather in `shared` and are copied into each later job."""

    def __init__(self, folder: Path, environment: Mapping[str, str], place: Path) -> None:
        self.folder, self.environment, self.place = folder, environment, place
        self.file = JobFile()
        self.shared = Section("global")
        self.own: list[Option] = []

    def read(self, text: str) -> JobFile:
        for number, line in self._lines(text, self.place):
            if line.startswith("["):
                self._close()
                self.file.headings.append(self._heading(line, number))
                continue
            if not self.file.headings:
                raise _wrong(self.place, number, f"'{line}' stands before the first [section]")
            if line.startswith("include"):
                self._include(line[len("include") + 1 :], number, self.place)
            else:
                option = self._option(line, number, self.place)
                self.file.lines.append(Line(number, len(self.file.headings) - 1, option.name, option.value))
        self._close()
        if not self.file.sections:
            raise StudyError("has no job: expected a [section] other than [global]", source=str(self.place))
        return self.file

    def _lines(self, text: str, place: Path) -> Iterator[tuple[int, str]]:
        """Number and content of the lines that are neither blank nor a comment. Lines end at a line feed alone."""
        for number, line in enumerate(text.split("\n"), start=1):
            self._require_plain(line, number, place)
            if plain := content(line):
                if not plain.startswith("["):
                    self.file.contents.append(plain)
                yield number, plain

    def _require_plain(self, line: str, number: int, place: Path) -> None:
        """Refuse what fio's reading of the line would depend on beyond what an editor shows of it."""
        name = f"'{content(line).partition('=')[0][:40].strip(_BLANKS)}'"
        if len(os.fsencode(line)) > LINE_BYTES:
            length = len(os.fsencode(line))
            raise _wrong(
                place,
                number,
                f"{name} is {length} bytes long; expected at most {LINE_BYTES}: fio reads the rest as a "
                f"line of its own",
            )
        if (strange := control_character(line.removesuffix("\r"))) is not None:
            what = _CONTROL_NAMES.get(strange) or unicodedata.name(strange, f"U+{ord(strange):04X}")
            raise _wrong(place, number, f"{name} contains a control character ({what}); remove it")

    def _heading(self, line: str, number: int) -> str:
        if not line.endswith("]") or len(line) < 3:
            raise _wrong(self.place, number, f"'{line[:60]}' is no heading; expected a name in brackets, such as [job]")
        if len(os.fsencode(line)) > _HEADING_BYTES:
            raise _wrong(self.place, number, f"the heading has more than the {_HEADING_BYTES} bytes that fio keeps")
        return line[1:-1]

    def _close(self) -> None:
        """End the current section: into `shared` where its name begins with `global`, as fio compares."""
        if not self.file.headings:
            return
        name = self.file.headings[-1]
        own = sorted(self.own, key=lambda option: -option.priority)
        self.file.own.append(own)
        merged = _merged(name, self.shared, own)
        if name.startswith("global"):
            self.shared = merged
        else:
            self.file.sections.append(merged)
        self.own = []

    def _option(self, line: str, number: int, place: Path) -> Option:
        """Read one option. fio puts variables into the whole line, its name too, but sorts by the name as written."""
        written = line.partition("=")[0].strip(_BLANKS)
        name, equals, value = self._substituted(line, number, place).partition("=")
        option = Option(canonical(name), value if equals else None, number, _PRIORITIES.get(canonical(written), 0))
        self.own.append(option)
        return option

    def _substituted(self, line: str, number: int, place: Path) -> str:
        """`${VAR}` becomes the variable's value, or nothing; then $ncpus and the like their numbers."""
        for variable in re.findall(r"\$\{([^}]*)\}", line):
            if variable.startswith(_OF_LAB):
                raise _wrong(place, number, f"the lab sets {variable} anew for each trial; use another variable")
            value = self.environment.get(variable, "")
            if control_character(value) is not None or "\n" in value:
                raise _wrong(place, number, f"the environment variable {variable} contains a control character")
            if mark := re.search("[;#]", value):
                why = f"contains '{mark[0]}', behind which fio reads a comment in some options"
                raise _wrong(place, number, f"the environment variable {variable} {why}")
        line = re.sub(r"\$\{([^}]*)\}", lambda match: self.environment.get(match[1], ""), line)
        if len(os.fsencode(line)) > LINE_BYTES:
            raise _wrong(place, number, f"has more than {LINE_BYTES} bytes once its variables are put in")
        return _calculated(line)

    def _include(self, name: str, number: int, includer: Path, depth: int = 1) -> None:
        """As fio does: the name in the folder that it runs in, else beside the file that includes it."""
        if depth > _MOST_INCLUDES:
            raise _wrong(self.place, number, f"includes {name} ten times over")
        here, beside = self.folder / name, includer.parent / name
        path = here if here.exists() else beside
        if depth == 1 and path is beside:
            self.file.beside[number] = beside
        try:
            if path.exists() and not path.is_file():
                raise _wrong(self.place, number, f"cannot include {path}: it is no regular file")
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise _wrong(self.place, number, f"cannot include {path}: {error}") from None
        for inner, line in self._lines(text, path):
            if line.startswith("["):
                raise _wrong(self.place, number, f"{name} begins a section, which fio refuses in included files")
            if line.startswith("include"):
                self._include(line[len("include") + 1 :], number, path, depth + 1)
                continue
            self.file.included.add(self._option(line, inner, path).name)


def _wrong(place: Path, number: int, message: str) -> StudyError:
    return StudyError(message, source=f"{place}, line {number}")


def control_character(text: str) -> str | None:
    """The first character that no editor shows and that tools end a line or a word at; a tab is none."""
    return next((each for each in text if unicodedata.category(each) in ("Cc", "Zl", "Zp") and each != "\t"), None)


def content(line: str) -> str:
    """The line without comment and blanks: `;` and `#` begin a comment anywhere (`strip_blank_end` in parse.c)."""
    return re.split(r"[;#]", line, maxsplit=1)[0].strip(_BLANKS)


def _merged(name: str, shared: Section, own: Sequence[Option]) -> Section:
    """A section with what it inherits. A file takes the `directory` that is in force when fio meets its name."""
    options = dict(shared.options)
    files = list(shared.files)
    for option in own:
        options.pop(option.name, None)  # the last one counts, and its place says so
        options[option.name] = option.text
        if option.name in ("filename", "opendir"):
            files.append(FileOption(option.name, option.text, options.get("directory", "")))
    return Section(name, options, files)


def _calculated(line: str) -> str:
    """The line with fio's keywords as numbers, and with their sums done, where these are plain.

    What is not plain arithmetic keeps its keyword: fio gives it to a shell (`bc_calc` in options.c).
    """
    if not computed(line):
        return line
    name, equals, value = line.partition("=")
    number = _COMPUTED.sub(lambda match: str(_keywords()[match[0]]), value)
    if re.search(r"[-+*/]", f"{name}{value}") is None:
        return f"{_COMPUTED.sub(lambda match: str(_keywords()[match[0]]), name)}{equals}{number}"
    try:
        return f"{name}={_evaluated(ast.parse(number.strip(_BLANKS), mode='eval').body)}"
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return line


def _evaluated(node: ast.AST) -> int:
    """A sum of whole numbers as bc does it: division drops the remainder."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_evaluated(node.left), _evaluated(node.right))
    raise ValueError


def _quotient(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
}
_COMPUTED = re.compile(r"\$(?:pagesize|mb_memory|ncpus)")


@cache
def _keywords() -> dict[str, int]:
    """fio's numbers for this machine (`fio_keywords_init` in options.c)."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return {
        "$pagesize": page_bytes,
        "$mb_memory": os.sysconf("SC_PHYS_PAGES") * page_bytes // 2**20,
        "$ncpus": os.sysconf("SC_NPROCESSORS_ONLN"),
    }


def rewrite(text: str, jobs: JobFile, changes: Mapping[str, Any], log_folder: Path | None = None) -> str:
    """The text with `changes` (canonical option -> value of a study) and with its logs in `log_folder`.

    An option is replaced in every section that sets it or one of its family; where none does it is added in a [global]
    section of its own at the top. An include from beside the job file gets its whole path, since fio reads a copy of
    the text. Without all these the text is returned as it is. StudyError when an included
    file sets what is to change.
    """
    lines = text.split("\n")
    added: list[str] = []
    for name, value in changes.items():
        replacement = f"{name}={write(name, value)}"
        family = next((family for family in FAMILIES if name in family), frozenset({name}))
        if inside := family & jobs.included:
            raise StudyError(
                f"an included file sets {min(inside)}; write it into the job file itself", key=f"factors.{name}"
            )
        found = [line for line in jobs.lines if line.name in family]
        for line in found:
            lines[line.number - 1] = replacement
        if not found:
            added.append(replacement)
    for line in jobs.lines:
        if log_folder is not None and line.name in LOGS:
            given = Path(line.value or "").name or jobs.headings[line.section]  # the job's name, as fio takes it
            place = log_folder / re.sub(r"[^\w.-]", "-", given)
            lines[line.number - 1] = f"{line.name}={place}"
    for number, path in jobs.beside.items():
        lines[number - 1] = f"include {path}"
    head = ["[global]", *added] if added else []
    return "\n".join([*head, *lines])


def writes_logs(jobs: JobFile) -> bool:
    """Whether any job asks for logs; StudyError when an included file does, whose text cannot be redirected."""
    if hidden := jobs.included & set(LOGS):
        raise StudyError(f"an included file sets {min(hidden)}; write it into the job file itself")
    return any(line.name in LOGS for line in jobs.lines)


def computed(value: str) -> bool:
    """Whether fio computes this itself ($ncpus and the like)."""
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
    if size is None or factor(option).kind in (Kind.TEXT, Kind.DURATION) or size == level_number(option, value):
        return value
    return str(size)


def job_study(text: str, path: Path) -> dict[str, Any]:
    """The study table of a job file: the text verbatim, three repetitions, responses and figures by its directions."""
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
        "figures": [
            figure
            for direction in directions
            for figure in (
                {"kind": "cdf", "name": f"{direction}_latency_cdf", "direction": direction, "latency": "lat"},
                {"kind": "order", "name": f"{direction}_bw_order", "y": f"{direction}.bw"},
            )
        ],
    }
