"""Reads users' fio job files, as fio itself does (`__parse_jobs_ini` in init.c): sections, [global], include, ${VAR}.

A job file is run as it is. What is changed in its text, and only then: options that a study's factors set, and where
logs go (they must not land in the user's folder, where each trial would overwrite the last one's).
Text that fio and a reader could see differently is refused here by name and line: control characters, and lines longer
than fio's buffer. `confirm` holds this reading against fio's own. Which paths a job touches is `paths`' business.
"""

from __future__ import annotations

import ast
import operator
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ioassay.errors import SafetyRefusal, StudyError
from ioassay.factors import Kind, factor, level_number
from ioassay.packs.fio import fio_options
from ioassay.packs.fio.driver.paths import file_names
from ioassay.packs.fio.fio_options import COMPUTED, FileOption, Section, canonical, control_character, fio_bytes
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
class Option:
    """One option of a section, its environment variables put in."""

    name: str
    """fio's first name of it."""
    value: str | None
    """As it stands behind '='; None for an option without one."""
    line: int
    section: int
    """Number of its heading among those met so far, from 0."""
    priority: int = 0

    @property
    def text(self) -> str:
        """The value without blanks; a bare name is on."""
        return "1" if self.value is None else self.value.strip(_BLANKS)


@dataclass
class JobFile:
    """A job file: its lines and the jobs they make."""

    sections: list[Section] = field(default_factory=list)
    lines: list[Option] = field(default_factory=list)
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
                if not line.endswith("]") or len(line) < 3:
                    wanted = "expected a name in brackets, such as [job]"
                    raise _wrong(self.place, number, f"'{line[:60]}' is no heading; {wanted}")
                if len(os.fsencode(line)) > _HEADING_BYTES:
                    why = f"the heading has more than the {_HEADING_BYTES} bytes that fio keeps"
                    raise _wrong(self.place, number, why)
                self.file.headings.append(line[1:-1])
                continue
            if not self.file.headings:
                raise _wrong(self.place, number, f"'{line}' stands before the first [section]")
            if line.startswith("include"):
                self._include(line[len("include") + 1 :], number, self.place)
            else:
                self.file.lines.append(self._option(line, number, self.place))
        self._close()
        if not self.file.sections:
            raise StudyError("has no job: expected a [section] other than [global]", source=str(self.place))
        return self.file

    def _lines(self, text: str, place: Path) -> Iterator[tuple[int, str]]:
        """Number and content of the lines that are neither blank nor a comment. Lines end at a line feed alone."""
        for number, line in enumerate(text.split("\n"), start=1):
            # Refused is what fio's reading of the line would depend on beyond what an editor shows of it.
            plain, length = content(line), len(os.fsencode(line))
            name = f"'{plain.partition('=')[0][:40].strip(_BLANKS)}'"
            if length > fio_options.LINE_BYTES:
                why = f"expected at most {fio_options.LINE_BYTES}: fio reads the rest as a line of its own"
                raise _wrong(place, number, f"{name} is {length} bytes long; {why}")
            if (strange := control_character(line.removesuffix("\r"))) is not None:
                what = _CONTROL_NAMES.get(strange) or unicodedata.name(strange, f"U+{ord(strange):04X}")
                raise _wrong(place, number, f"{name} contains a control character ({what}); remove it")
            if plain and not plain.startswith("["):
                self.file.contents.append(plain)
            if plain:
                yield number, plain

    def _close(self) -> None:
        """End the current section: into `shared` where its name begins with `global`, as fio compares."""
        if not self.file.headings:
            return
        name = self.file.headings[-1]
        own = sorted(self.own, key=lambda option: -option.priority)
        self.file.own.append(own)
        options, files = dict(self.shared.options), list(self.shared.files)
        for option in own:
            options.pop(option.name, None)  # the last one counts, and its place says so
            options[option.name] = option.text
            if option.name in ("filename", "opendir"):  # it takes the `directory` in force when fio meets its name
                files.append(FileOption(option.name, option.text, options.get("directory", "")))
        merged = Section(name, options, files)
        if name.startswith("global"):
            self.shared = merged
        else:
            self.file.sections.append(merged)
        self.own = []

    def _option(self, line: str, number: int, place: Path) -> Option:
        """Read one option: `${VAR}` is the variable's value, or nothing; then $ncpus and the like are their numbers.

        fio puts variables into the whole line, its name too, but sorts by the name as written.
        """
        written = line.partition("=")[0].strip(_BLANKS)
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
        if len(os.fsencode(line)) > fio_options.LINE_BYTES:
            raise _wrong(place, number, f"has more than {fio_options.LINE_BYTES} bytes once its variables are put in")
        name, equals, value = _calculated(line).partition("=")
        priority, section = _PRIORITIES.get(canonical(written), 0), len(self.file.headings) - 1
        option = Option(canonical(name), value if equals else None, number, section, priority)
        self.own.append(option)
        return option

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


def content(line: str) -> str:
    """The line without comment and blanks: `;` and `#` begin a comment anywhere (`strip_blank_end` in parse.c)."""
    return re.split(r"[;#]", line, maxsplit=1)[0].strip(_BLANKS)


def _calculated(line: str) -> str:
    """The line with fio's keywords as numbers, and with their sums done, where these are plain.

    What is not plain arithmetic keeps its keyword: fio gives it to a shell (`bc_calc` in options.c).
    """
    if COMPUTED.search(line) is None:
        return line
    name, equals, value = line.partition("=")
    number = COMPUTED.sub(_keyword, value)
    if re.search(r"[-+*/]", f"{name}{value}") is None:
        return f"{COMPUTED.sub(_keyword, name)}{equals}{number}"
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


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda one, other: one // other if (one < 0) == (other < 0) else -(-one // other),
}


def _keyword(match: re.Match[str]) -> str:
    """fio's number for this machine (`fio_keywords_init` in options.c)."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    if match[0] == "$mb_memory":
        return str(os.sysconf("SC_PHYS_PAGES") * page_bytes // 2**20)
    return str(page_bytes if match[0] == "$pagesize" else os.sysconf("SC_NPROCESSORS_ONLN"))


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
        replacement = f"{name}={fio_options.write(name, value)}"
        family = next((family for family in FAMILIES if name in family), frozenset({name}))
        if inside := family & jobs.included:
            raise StudyError(
                f"an included file sets {min(inside)}; write it into the job file itself", key=f"factors.{name}"
            )
        found = [line for line in jobs.lines if line.name in family]
        for line in found:
            lines[line.line - 1] = replacement
        if not found:
            added.append(replacement)
    for line in jobs.lines:
        if log_folder is not None and line.name in LOGS:
            given = Path(line.value or "").name or jobs.headings[line.section]  # the job's name, as fio takes it
            place = log_folder / re.sub(r"[^\w.-]", "-", given)
            lines[line.line - 1] = f"{line.name}={place}"
    for number, path in jobs.beside.items():
        lines[number - 1] = f"include {path}"
    head = ["[global]", *added] if added else []
    return "\n".join([*head, *lines])


def writes_logs(jobs: JobFile) -> bool:
    """Whether any job asks for logs; StudyError when an included file does, whose text cannot be redirected."""
    if hidden := jobs.included & set(LOGS):
        raise StudyError(f"an included file sets {min(hidden)}; write it into the job file itself")
    return any(line.name in LOGS for line in jobs.lines)


def warnings(jobs: JobFile) -> Iterator[Warning_]:
    """What is odd about the text: sizes that fio reads otherwise than they look."""
    for line in jobs.lines:
        suffix = re.search(r"\d([KMGTP]iB)\b", line.value or "", re.I)
        if suffix and any(job.kb_base == 1024 for job in jobs.sections):
            text = f"line {line.line}: fio reads {line.name}={line.value} in powers of 1000, because kb_base is 1024"
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
    found: dict[str | None, None] = {}
    for job in jobs.sections:  # fio's `4KiB` is 4000 bytes; what means the same to both stays as it is written
        value = job.options.get(option)
        size = None if value is None else fio_bytes(value, job.kb_base)
        if size is not None and factor(option).kind not in (Kind.TEXT, Kind.DURATION):
            value = value if size == level_number(option, value) else str(size)
        found[value] = None
    if len(found) > 1:
        told = ", ".join("nothing" if value is None else value for value in found)
        raise StudyError(f"its jobs set '{name}' to {told}", source=str(params["job_path"]))
    return next(iter(found), None)


def job_study(text: str, path: Path) -> dict[str, Any]:
    """The study table of a job file: the text verbatim, three repetitions, responses and figures by its directions."""
    place = path.absolute()
    jobs = parse(text, Path.cwd(), os.environ, place)
    alone = len(jobs.sections) == 1
    responses = [
        f"{'' if alone else f'{job.title}/'}{direction}.{quantity}"
        for job in jobs.sections
        for direction in sorted(job.directions)
        for quantity in ("bw", "iops", "lat.p99")
    ]
    figures: list[dict[str, str]] = []
    for name in sorted({direction for job in jobs.sections for direction in job.directions}):
        figures.append({"kind": "cdf", "name": f"{name}_latency_cdf", "direction": name, "latency": "lat"})
        figures.append({"kind": "order", "name": f"{name}_bw_order", "y": f"{name}.bw"})
    return {
        "name": re.sub(r"[^\w.-]", "-", path.stem).lstrip("._-") or "job",
        "title": f"fio job file {path.name}",
        "description": "; ".join(f"{job.title}: {job.describe()}" for job in jobs.sections),
        "driver": "fio",
        "repetitions": 3,
        "target": {"kind": "null"},
        "params": {"job": text, "job_path": str(place), "job_folder": str(Path.cwd())},
        "analysis": {"responses": list(dict.fromkeys(responses))},
        "figures": figures,
    }


# What fio itself reads in a job file, held against this reading before anything is run. fio is started on the job file
# and on a second one that does not exist: it parses the first, names every option and every file (`--debug=parse,file`:
# `handle_option` in parse.c, `add_file` in filesetup.c), fails to open the second and ends before any job begins
# (`parse_options` in init.c). What is decided by here and in `paths` is thereby what fio will open: one difference, in
# whichever direction, and the job file is refused.

DEBUG = "--debug=parse,file"
ABSENT = "no-such-job.fio"
"""The second job file."""
_SECTION = re.compile(r"Parsing section \[(.*)\]")
_OPTION = re.compile(r"handle_option=([^,]*), ptr=(.*)")
_EXPANDED_FILE = re.compile(r'file \S+ "(.*)" added at \d+')
_DEFAULTS = "filling default options"
_BETWEEN_LINES = ("dup options", "init options", "free options", "Parsing ini file ")
_NOISE = re.compile(r"(parse|file) +\d+|fio: set debug option|fio: opendir added|.*: \(g=\d+\): rw=|\.\.\.$")
_SUMMARY = re.compile(r": \(g=\d+\): rw=")
"""fio's line about a job, which follows a blank last line of a file without a line feed."""
_NO_VALUE = "(null)"
_MOST_LINES = 8


@dataclass
class Options:
    """What fio read under one heading."""

    values: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Option -> its values, in the order in which they were parsed."""
    of_engine: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The same of the engine's own options, whose defaults come before what the job says."""


@dataclass
class Expansion:
    """What fio said it read: the lines, the headings with the options under each, and the name of each file."""

    lines: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    options: list[Options] = field(default_factory=list)
    files: set[str] = field(default_factory=set)


def fio_reading(output: str) -> Expansion:
    """Read fio's debug output.

    fio prints the lines of a section as it reads them, and only then what it makes of its options.
    """
    expansion, reads_lines, reads_defaults = Expansion(), False, False
    first = re.search(r"^(?:parse|file) +(\d+) ", output, re.M)
    # "%-8s %-5u " (log_prevalist in log.c). A line of a file that ends without a line feed is joined to the next one.
    parts = re.split(rf"(parse|file) +{first[1]:<5} |\n", output) if first else []
    for kind, message in zip(parts[1::2], parts[2::2], strict=True):
        if not kind:
            continue
        if kind == "file":
            if file := _EXPANDED_FILE.fullmatch(message):
                expansion.files.add(file[1])
        elif section := _SECTION.fullmatch(message):
            expansion.headings.append(section[1])
            expansion.options.append(Options())
            reads_lines, reads_defaults = True, False
        elif message == _DEFAULTS:
            reads_lines, reads_defaults = False, True
        elif (option := _OPTION.fullmatch(message)) and expansion.options:
            reads_lines, options = False, expansion.options[-1]
            (options.of_engine if reads_defaults else options.values)[canonical(option[1])].append(option[2])
        elif reads_lines and not message.startswith(_BETWEEN_LINES) and _SUMMARY.search(message) is None:
            expansion.lines += [line for line in [content(message)] if line and not line.startswith("[")]
    return expansion


def confirm(jobs: JobFile, folder: Path, place: Path, output: str, messages: str) -> list[Warning_]:
    """SafetyRefusal where fio reads the file otherwise; StudyError, with fio's words, where fio refuses it.

    `output` and `messages` are fio's stdout and stderr. A warning where this fio was built without debug output.
    """
    if ABSENT not in messages:
        printed = [line.strip() for line in (messages + "\n" + output).split("\n")]
        telling = dict.fromkeys([line for line in printed if line and not _NOISE.match(line)][:4])
        said = "; ".join(telling)[:400] or "it ended without a word, as where it crashes"
        raise StudyError(f"fio does not take it: {said}", source=str(place))
    if "debug tracing not included" in output + messages:
        text = f"{place}: this fio has no debug output, so its reading of the job file was not compared with the lab's"
        return [Warning_("reading-unconfirmed", text, "use a fio that was built with debug output, as Debian's is")]
    if differences := list(_differences(jobs, folder, fio_reading(output))):
        lines = "\n".join(f"  - {difference}" for difference in differences[:_MOST_LINES])
        raise SafetyRefusal(
            f"{place}: refused, nothing was run: fio reads it otherwise than the checks before it:\n{lines}\n"
            "Write these options plainly, each on a line of its own"
        )
    return []


def _differences(jobs: JobFile, folder: Path, expansion: Expansion) -> Iterator[str]:
    for theirs, ours in zip_longest(expansion.lines, jobs.contents):
        if theirs != ours:
            yield f"lines: fio reads {_listed(filter(None, [theirs]))}, the lab {_listed(filter(None, [ours]))}"
            return
    if expansion.headings != jobs.headings:
        yield f"sections: fio reads {_listed(expansion.headings)}, the lab {_listed(jobs.headings)}"
        return
    for heading, own, options in zip(jobs.headings, jobs.own, expansion.options, strict=True):
        read: dict[str, list[str]] = defaultdict(list)
        for option in own:
            read[option.name].append(_NO_VALUE if option.value is None else option.value)
        for name in sorted({*read, *options.values}):
            here = read.get(name, [])
            there = options.values.get(name) or options.of_engine.get(name, [])[-len(here) :]
            # A sum that only fio can do is fio's; no path and no engine is computed (`paths`).
            pairs = zip(here, there, strict=False)
            same = all(COMPUTED.search(mine) or mine.strip() == theirs.strip() for mine, theirs in pairs)
            if len(here) != len(there) or not same:
                yield f"[{heading}] {name}: fio reads {_listed(there)}, the lab {_listed(here)}"
    names = {name for job in jobs.sections for name in file_names(job, folder)}
    for name in sorted(expansion.files - names):
        yield f"files: fio opens '{name}', which the lab does not find"
    for name in sorted(names - expansion.files):
        yield f"files: the lab finds '{name}', which fio does not open"


def _listed(values: Iterable[str]) -> str:
    return ", ".join(f"'{value[:80]}'" for value in values) or "none"
