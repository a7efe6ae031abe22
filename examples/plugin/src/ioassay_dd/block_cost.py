"""The question block_cost: how much of the time of a block is the same, whatever its size?"""

from __future__ import annotations

from ioassay import units
from ioassay.narrative.finding import Finding, Table
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay_dd import block_line

IOASSAY_API = 1
MOST_DEVIATION = 0.2
"""Beyond it the line does not describe the medians."""


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding, or none where there are not three block sizes."""
    found = block_line.line(records, study)
    if found is None:
        return []
    follows = found.deviation <= MOST_DEVIATION and found.ns_per_byte > 0 and found.fixed_ns > 0
    statement = (
        f"A block costs {units.format_ns(found.fixed_ns)} whatever its size, and more bytes come at "
        f"{units.format_rate(1e9 / found.ns_per_byte)}."
        if follows
        else "The time of a block does not follow a line over its size, so no fixed cost is stated."
    )
    return [
        Finding(
            study=study.name,
            question="block_cost",
            response=block_line.TIME,
            title="The fixed cost of a block",
            statements=[statement],
            statistics={
                "fixed_ns": found.fixed_ns,
                "ns_per_byte": found.ns_per_byte,
                "largest_relative_deviation": found.deviation,
                "follows_a_line": follows,
            },
            tables=[
                Table(
                    ["block", "median time of a block"],
                    [list(row) for row in zip(found.sizes_bytes, found.times_ns, strict=True)],
                    ["", block_line.TIME],
                )
            ],
            caveats=["The line is fitted to medians; it has no confidence interval."],
        )
    ]
