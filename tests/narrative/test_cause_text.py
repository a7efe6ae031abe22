"""The sentences about why a peak ends: one for each cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import golden
from ioassay.analysis import optimum
from ioassay.analysis.optimum import Peak
from ioassay.analysis.peak_cause import Cause, Explanation, PerOperation, Reading, Use
from ioassay.narrative import peak_text
from ioassay.narrative.finding import Finding

BUSY = Reading(Use.BUSY, 0.51, 0.98, 0.99, rises=True, reaches=True)
WAIT = Reading(Use.WAIT, 0.02, 0.04, 0.31, rises=True, reaches=False)
OTHERS = Reading(Use.OTHERS, 0.01, 0.08, 0.02, rises=False, reaches=False)
EVIDENCE: dict[Cause, tuple[Reading, ...]] = {
    Cause.QUOTA: (Reading(Use.THROTTLED, 0.0, 0.85, 1.0, rises=True, reaches=True),),
    Cause.MEMORY: (
        Reading(Use.MEMORY_PRESSURE, 0.0, 0.02, 0.61, rises=True, reaches=False),
        Reading(Use.MAJOR_FAULTS, 0.0, 12.0, 5230.0, rises=True, reaches=False),
        Reading(Use.RECLAIM, 0.0, 12.0, 5230.0, rises=True, reaches=False),
    ),
    Cause.IO_LIMIT: (Reading(Use.IO_LIMIT, 0.5, 0.99, 1.0, rises=True, reaches=True),),
    Cause.PROCESSORS: (BUSY, WAIT),
    Cause.DISK: (
        Reading(Use.DISK_BUSY, 0.9, 0.99, 0.99, rises=False, reaches=False),
        Reading(PerOperation.LATENCY, 1e6, 1.1e6, 4.2e6, rises=True, reaches=False),
    ),
    Cause.LOCK: (Reading(PerOperation.SWITCHES, 0.01, 0.02, 0.9, rises=True, reaches=False),),
    Cause.RUN_QUEUE: (WAIT,),
    Cause.NETWORK: (Reading(Use.DROPS, 0.0, 0.0, 0.04, rises=True, reaches=False),),
    Cause.STALLS: (Reading(Use.STALLS, 0.4, 0.5, 1.9, rises=True, reaches=False),),
    Cause.CONTENTION: (Reading(PerOperation.CPU, 1e-5, 1e-5, 3e-5, rises=True, reaches=False),),
    Cause.NONE: (),
}


@pytest.fixture(scope="module")
def peak(lab: Any) -> Peak:
    study = lab.study(factors={"workers": [2, 4, 8]}, responses=["read.bw"])
    rate = {2: 2e8, 4: 4e8, 8: 4e8}
    run = lab.run(study, lambda p, n: {"read.bw": rate[p["workers"]] * (1 + 0.002 * (n % 2))}, 4)
    (found,) = optimum.measured(lab.records(run), study, "read.bw")["workers"]
    return found


def explained(peak: Peak, cause: Cause) -> Peak:
    readings = {reading.counter: reading for reading in (BUSY, WAIT, OTHERS, *EVIDENCE[cause])}
    lock = "futex" if cause is Cause.LOCK else ""
    return replace(peak, explanation=Explanation(cause, 1, 0, 2, EVIDENCE[cause], readings, lock, OTHERS.end))


def test_sentences(peak: Peak) -> None:
    said = {cause: peak_text.causes(explained(peak, cause)) for cause in Cause}
    golden.check("cause", [Finding("", "", "", title=cause, statements=own) for cause, own in said.items()])


def test_a_table_says_in_short_why_it_ends(peak: Peak) -> None:
    assert peak_text.cause_in_brief(explained(peak, Cause.PROCESSORS)) == "processors full at 4 workers"
    assert peak_text.cause_in_brief(peak) == "" and peak_text.causes(peak) == [] == peak_text.counters_table(peak)


def test_a_suite_names_its_most_frequent_causes_in_one_sentence(peak: Peak) -> None:
    def named(*causes: Cause) -> list[str]:
        return list(map(str, peak_text.of_sweeps([peak, *(explained(peak, cause) for cause in causes)])))

    assert named() == []
    assert named(Cause.NONE, Cause.NONE) == ["Why growth ends: no counter explains it in 2 sweeps."]
    (sentence,) = named(*Cause, Cause.PROCESSORS, Cause.PROCESSORS, Cause.LOCK)
    assert sentence == (
        "Why growth ends: processors full in 3 sweeps, waits for a lock in 2, other causes in 8 and "
        "no counter explains it in 1."
    )


def test_every_counter_has_its_row(peak: Peak) -> None:
    (table,) = peak_text.counters_table(explained(peak, Cause.PROCESSORS))
    assert tuple(table.columns) == ("counter", "before (2)", "at the end of the gain (4)", "after (8)", "rises")
    assert list(table.rows[0]) == ["processors busy", "51 %", "98 %", "99 %", "yes"]
    assert list(table.rows[2]) == ["other programs", "1 %", "8 %", "2 %", "not certainly"]
    for counter in (*Use, *PerOperation):
        assert peak_text.shown(counter, 0.25)
