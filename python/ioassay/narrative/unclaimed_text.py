"""One sentence about all studies whose tool claims no I/O."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.claims.claim_verdicts import ClaimVerdicts
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding


def findings(answers: Sequence[ClaimVerdicts]) -> list[Finding]:
    """One finding where there is any such study."""
    if not answers:
        return []
    tools = list(dict.fromkeys(one.driver.replace("_", "-") for one in answers))
    trials = sum(one.witnessed for one in answers)
    witnessed = f"{phrases.count(trials, 'trial')} {'was' if trials == 1 else 'were'} witnessed."
    return [
        Finding(
            study="",
            question="unclaimed",
            response="",
            title="Results without claims about I/O",
            statements=(
                f"{phrases.listed(tools)} {'claims' if len(tools) == 1 else 'claim'} no I/O. "
                f"The kernel's counts can neither confirm nor contradict these results. {witnessed}"
            ),
            statistics={"studies": [one.study for one in answers], "tools": tools, "witnessed_trials": trials},
        )
    ]
