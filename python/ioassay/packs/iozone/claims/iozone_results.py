"""Results of IOzone for `ioassay import`: its table, the report that -R adds for Excel, and throughput mode (-t).

Each cell of the matrix, a file size with a record size, is an entry with the rate of each pass; so is what the
processes of one run have in throughput mode. The numbers are those that `iozone_claims` reads, for which the report
stands in where the table is missing. The binary workbook of -b is not read: the output of the same command has its
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.errors import InputError
from ioassay.formats.result_entry import Entry, size_level
from ioassay.packs.iozone.claims import iozone_claims
from ioassay.packs.iozone.claims.iozone_reports import pass_of, throughputs
from ioassay.packs.iozone.claims.iozone_table import PASSES
from ioassay.records.record import Claim

WANTED = "IOzone's output or its -R report"
_DIRECTIONS = ("read", "write")
looks_like = iozone_claims.looks_like


def read(text: str, source: str) -> list[Entry]:
    """The cells in the order in which IOzone ran them; InputError names `source` when there are none."""
    try:
        claims = iozone_claims.read(text)
        if all(claim.test in PASSES for claim in claims):
            return [_entry(cell) for cell in _cells(claims)]
        counts = {one.test: str(one.processes) for one in throughputs(text)}
        return [_entry(run, counts.get(run[0].test, "")) for run in _cells(claims)]
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _cells(claims: Sequence[Claim]) -> list[list[Claim]]:
    """The passes of each cell; a pass that the cell has already begins the same cell anew, a repetition."""
    cells: list[list[Claim]] = []
    for claim in claims:
        last = cells[-1] if cells else []
        same = last and (last[0].file_bytes, last[0].record_bytes) == (claim.file_bytes, claim.record_bytes)
        if same and all(one.test != claim.test for one in last):
            last.append(claim)
        else:
            cells.append([claim])
    return cells


def _entry(cell: Sequence[Claim], workers: str = "") -> Entry:
    first = cell[0]
    levels = {"file_size": first.file_bytes, "record_size": first.record_bytes}
    options = {name: size_level(value) for name, value in levels.items() if value is not None}
    metrics = {}
    for claim in cell:
        name = pass_of(claim.test)
        if claim.rate_bytes_per_s:
            metrics[f"{name}.bw"] = claim.rate_bytes_per_s
        if name in _DIRECTIONS:
            metrics |= {f"{name}.lat.{statistic}": value for statistic, value in claim.latency_ns.items()}
    return Entry(
        "iozone",
        options={**options, **({"workers": workers} if workers else {})},
        metrics=metrics,
        warnings=iozone_claims.warnings(cell),
        problem="" if metrics else "IOzone's numbers are times of passes that ioassay has no metric for",
    )
