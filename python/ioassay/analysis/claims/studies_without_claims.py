"""The studies whose tool claims no I/O: the kernel's counts can neither confirm nor contradict their results."""

from __future__ import annotations

from ioassay.analysis.claims import claim_verdicts
from ioassay.analysis.claims.claim_verdicts import ClaimVerdicts, Outcome
from ioassay.store.dataset import Dataset


def together(records: Dataset) -> list[ClaimVerdicts]:
    """The verdicts of each study that was witnessed and claims nothing."""
    found = [one for study in records.studies for one in claim_verdicts.analyse(records, study)]
    return [one for one in found if one.outcome == Outcome.UNCLAIMED]
