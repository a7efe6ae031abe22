"""IOzone's other two shapes: the matrices that -R prints after the table, and the summaries of throughput mode (-t)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ioassay.errors import InputError
from ioassay.formats.number_parsing import line_end, lines_with, next_lines, real, whole_number

_MATRICES = {
    "Writer": "write",
    "Re-writer": "rewrite",
    "Reader": "read",
    "Re-Reader": "reread",
    "Random read": "random-read",
    "Random write": "random-write",
    "Backward read": "backward-read",
    "Record rewrite": "record-rewrite",
    "Stride read": "stride-read",
    "Fwrite": "fwrite",
    "Re-Fwrite": "frewrite",
    "Fread": "fread",
    "Re-Fread": "freread",
    "Pwrite": "pwrite",
    "Re-Pwrite": "repwrite",
    "Pread": "pread",
    "Re-Pread": "repread",
}
_NAMES = {title.lower(): name for title, name in _MATRICES.items()}

_THROUGHPUT = re.compile(r"Children see throughput for +(\d+) +(.+?)\s*=\s*(\S+) (kB/sec|ops/sec)")
_WORKERS = re.compile(r"Throughput test with (\d+) (?:process|thread)")
_EACH = re.compile(r"Each (?:process|thread) writes an? (\d+) kByte file in (\d+) kByte records")

_PROCESSES = {
    "initial writers": "write",
    "rewriters": "rewrite",
    "readers": "read",
    "re-readers": "reread",
    "random readers": "random_read",
    "random writers": "random_write",
    "reverse readers": "backward_read",
    "stride readers": "stride_read",
    "mixed workload": "random_mix",
    "pwrite writers": "pwrite",
    "pread readers": "pread",
    "fwriters": "fwrite",
    "freaders": "fread",
}
"""What IOzone calls the processes of a test, and the pass that they do."""

Cell = tuple[int, int]
"""File and record in KiB."""


def matrices(text: str, start: int = 0) -> dict[str, dict[Cell, int]]:
    """Pass -> cell -> number, in IOzone's unit. Cells that were not measured (0) and processor use are left out.

    A row has no cells beyond its own file size; a record that the crossover leaves out has a 0.
    """
    found: dict[str, dict[Cell, int]] = {}
    for end, title in lines_with(text, ' report"', start):
        match = re.fullmatch(r'\s*"(.+?) report"\s*', title)
        name = _NAMES.get(match[1].lower()) if match else None
        if name is None:
            continue
        lines = next_lines(text, end, 200)
        columns = [whole_number(size, "record size") for size in re.findall(r'"(\d+)"', lines[0])] if lines else []
        if 0 in columns:
            raise InputError(f"IOzone's {name} report has records of 0 kB; wanted 1 or more")
        for line in lines[1:]:
            row = re.fullmatch(r'"(\d+)"((?:\s+\d+)+)\s*', line)
            if row is None:
                break
            file_kib = whole_number(row[1], "file size")
            for record_kib, value in zip(columns, row[2].split(), strict=False):
                if value.strip("0"):
                    found.setdefault(name, {})[file_kib, record_kib] = whole_number(value, f"{name} report")
    return found


@dataclass(frozen=True)
class Throughput:
    """What all processes of one test claim together."""

    test: str
    """'initial writers', 're-readers', …"""
    rate: float
    unit: str
    """'kB/sec' or 'ops/sec'."""
    processes: int
    file_kib: int | None
    record_kib: int | None

    @property
    def kind(self) -> str:
        """Random mixes reads and writes, and says so by 'mixed workload'."""
        if "mixed" in self.test:
            return "mixed"
        return "read" if "read" in self.test else "write"


def throughputs(text: str) -> Iterator[Throughput]:
    """The summaries in their order. The sizes are those said before the first."""
    start = text.find("Throughput test with")
    if start < 0:
        return
    each = _EACH.search(text, start, line_end(text, line_end(text, start) + 1))
    workers = _WORKERS.match(text, start)
    for _, line in lines_with(text, "Children see throughput", start):
        if match := _THROUGHPUT.search(line):
            yield Throughput(
                test=re.sub(r"\s+", " ", match[2]),
                rate=real(match[3], f"throughput of {match[2]}"),
                unit=match[4],
                processes=whole_number(workers[1] if workers else match[1], "number of processes"),
                file_kib=whole_number(each[1], "file size") if each else None,
                record_kib=whole_number(each[2], "record size") if each else None,
            )


def pass_of(test: str) -> str:
    """The pass behind a name of IOzone's, as metrics call it: 'random_read' of 'random-read' and 'random readers'."""
    return _PROCESSES.get(test, test.replace("-", "_"))
