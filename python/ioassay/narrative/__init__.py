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
    "verdict": "ioassay.narrative.verdict_text",
    "describe": "ioassay.narrative.describe_text",
    "stability": "ioassay.narrative.stability_text",
    "effect": "ioassay.narrative.effect_text",
    "peak": "ioassay.narrative.peak_text",
    "calls": "ioassay.narrative.storage_text:system_calls",
    "caveats": "ioassay.narrative.threats_text:finding",
    "peaks": "ioassay.narrative.peak_text",
    "choices": "ioassay.narrative.choice_text",
    "unclaimed": "ioassay.narrative.verdict_text",
}
"""In the order of `ANALYSES` and `OVERALL`. The questions of packs and plugins have their own words."""

HEADINGS: dict[str, str] = {
    "load": "How much load until requests wait?",
    "conclude": "What else the study comes to",
    "choice": "Which case is best, when, and is that real?",
    "costs": "What does each path cost? Parts of a request, and CPU time",
    "conditions": "Was the machine quiet enough?",
    "verdict": "Is it true? Claims and what the kernel saw",
    "describe": "Every condition described",
    "stability": "Is it stable? Repetitions, drift, steady state",
    "effect": "Do the factors matter? Effects, lines, analyses of variance",
    "peak": "Where is the peak? Best levels, plateaus, scaling",
}
"""Of the groups of findings on the page."""


def heading(question: str) -> str:
    """Of the group of a question's findings: `HEADING` of its module where it has its own words, else its name."""
    from ioassay.analysis import REGISTRY

    own = getattr(REGISTRY.load(question), "HEADING", "") if question not in NARRATORS and question in REGISTRY else ""
    return HEADINGS.get(question, own or question.replace("_", " ").capitalize())
