"""One sentence for all studies whose tool claims no I/O: there is nothing for the kernel to confirm or contradict.

From the verdicts of the studies; reads no record.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding
from ioassay.store.dataset import Dataset

QUESTION = "unclaimed"


def together(records: Dataset, findings: Sequence[Finding]) -> list[Finding]:
    """One finding where any study was witnessed and nothing in it was claimed."""
    own = [one for one in findings if one.question == "verdict" and one.statistics.get("claims") == 0]
    if not own:
        return []
    drivers = {study.name: study.driver for study in records.studies}
    tools = list(dict.fromkeys(drivers[one.study].replace("_", "-") for one in own))
    trials = sum(int(one.statistics["witnessed_trials"]) for one in own)
    return [
        Finding(
            study="",
            question=QUESTION,
            response="",
            title="What the kernel can say of the results",
            statement=_statement(tools, trials),
            statistics={"studies": [one.study for one in own], "tools": tools, "witnessed_trials": trials},
        )
    ]


def _statement(tools: Sequence[str], trials: int) -> str:
    claims = f"{phrases.listed(tools)} {'claims' if len(tools) == 1 else 'claim'} no I/O"
    watched = "1 trial was" if trials == 1 else f"{trials} trials were"
    return (
        f"{claims}, so the kernel's counts can neither confirm nor contradict these results: "
        f"they are the tool's own. {watched} witnessed all the same."
    )
