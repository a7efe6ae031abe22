"""What fio itself reads in a job file, held against this package's reading of it before anything is run.

fio is started on the job file and on a second one that does not exist: it parses the first, names every option and
every file (`--debug=parse,file`: `handle_option` in parse.c, `add_file` in filesetup.c), fails to open the second and
ends before any job begins (`parse_options` in init.c). What `jobfile` and `paths` decide by is thereby what fio will
open: one difference, in whichever direction, and the job file is refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from ioassay.errors import SafetyRefusal, StudyError
from ioassay.packs.fio.driver.fio_options import canonical
from ioassay.packs.fio.driver.jobfile import JobFile, Option, computed, content
from ioassay.packs.fio.driver.paths import file_names
from ioassay.records.record import Warning_

DEBUG = "--debug=parse,file"
ABSENT = "no-such-job.fio"
"""The second job file."""
_SECTION = re.compile(r"Parsing section \[(.*)\]")
_OPTION = re.compile(r"handle_option=([^,]*), ptr=(.*)")
_FILE = re.compile(r'file \S+ "(.*)" added at \d+')
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


def read(output: str) -> Expansion:
    """Read fio's debug output.

    fio prints the lines of a section as it reads them, and only then what it makes of its options.
    """
    expansion, reads_lines, reads_defaults = Expansion(), False, False
    for kind, message in _messages(output):
        if kind == "file":
            if file := _FILE.fullmatch(message):
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


def _messages(output: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each debug message. A line of a file that ends without a line feed is joined to the next one."""
    if first := re.search(r"^(?:parse|file) +(\d+) ", output, re.M):
        parts = re.split(rf"(parse|file) +{first[1]:<5} |\n", output)  # "%-8s %-5u " (log_prevalist in log.c)
        pairs = zip(parts[1::2], parts[2::2], strict=True)
        yield from ((kind, text) for kind, text in pairs if kind)


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
    differences = list(_differences(jobs, folder, read(output)))
    if differences:
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
        yield from _different_options(heading, own, options)
    names = {name for job in jobs.sections for name in file_names(job, folder)}
    for name in sorted(expansion.files - names):
        yield f"files: fio opens '{name}', which the lab does not find"
    for name in sorted(names - expansion.files):
        yield f"files: the lab finds '{name}', which fio does not open"


def _different_options(heading: str, own: Sequence[Option], options: Options) -> Iterator[str]:
    ours: dict[str, list[str]] = defaultdict(list)
    for option in own:
        ours[option.name].append(_NO_VALUE if option.value is None else option.value)
    for name in sorted({*ours, *options.values}):
        here, there = ours.get(name, []), options.values.get(name, [])
        if not there:
            there = options.of_engine.get(name, [])[-len(here) :]
        # A sum that only fio can do is fio's; no path and no engine is computed (`paths`).
        same = (computed(mine) or mine.strip() == theirs.strip() for mine, theirs in zip(here, there, strict=False))
        if len(here) != len(there) or not all(same):
            yield f"[{heading}] {name}: fio reads {_listed(there)}, the lab {_listed(here)}"


def _listed(values: Iterable[str]) -> str:
    return ", ".join(f"'{value[:80]}'" for value in values) or "none"
