"""The words: what the answers of `ioassay.analysis` mean, in sentences. Computes nothing and decides nothing.

`NARRATORS` is the literal list: question -> module, whose `findings(answers)` turns what the analysis of that question
returns into findings, or its function that makes a finding of one answer. `pipeline` asks every question, `phrases` has
what several share.
"""

from __future__ import annotations

NARRATORS: dict[str, str] = {
    "load": "ioassay.narrative.storage_text:saturation",
    "conclude": "ioassay.narrative.conclude_text",
    "choice": "ioassay.narrative.choice_text",
    "costs": "ioassay.narrative.storage_text:latency_shares",
    "conditions": "ioassay.narrative.conditions_text:finding",
    "verdict": "ioassay.narrative.conditions_text:claims_finding",
    "describe": "ioassay.narrative.describe_text",
    "stability": "ioassay.narrative.stability_text",
    "effect": "ioassay.narrative.effect_text",
    "peak": "ioassay.narrative.peak_text",
    "calls": "ioassay.narrative.storage_text:system_calls",
    "caveats": "ioassay.narrative.stability_text:threat_finding",
    "peaks": "ioassay.narrative.peak_text",
    "choices": "ioassay.narrative.choice_text",
    "unclaimed": "ioassay.narrative.conditions_text:claims_finding",
}
"""In the order of `ANALYSES` and `OVERALL`. The questions of packs and plugins have their own words."""


def heading(question: str) -> str:
    """Of the group of a question's findings: `HEADING` of its module where it has its own words, else its name."""
    from ioassay.analysis import REGISTRY
    from ioassay.narrative.say import templates

    own = getattr(REGISTRY.load(question), "HEADING", "") if question not in NARRATORS and question in REGISTRY else ""
    return templates("headings").get(question) or own or question.replace("_", " ").capitalize()
