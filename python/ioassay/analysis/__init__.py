"""One file a question; each turns records into answers: numbers and outcomes. Draws nothing and starts nothing.

`ANALYSES` has the questions of the core and of the packs: question -> module, whose `analyse(records, study)` returns
answers, or findings in its own words where the core has none for it. `OVERALL` lists the
questions to all studies at once. `narrative.pipeline` asks all; `run_comparison.compare` compares runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ioassay.pack import listed
from ioassay.registry import Contract, Registry

if TYPE_CHECKING:
    from ioassay.study.model import Study

ANALYSES: dict[str, str] = listed(
    "analyses",
    {
        "tuned": "ioassay.analysis.optimum.tuning",
        "reductions": "ioassay.analysis.storage.write_buffer",
        "hosts": "ioassay.analysis.hosts.host_comparison",
        "load": "ioassay.analysis.storage.load_saturation",
        "conclude": "ioassay.analysis.conclusion",
        "choice": "ioassay.analysis.optimum.alternatives",
        "costs": "ioassay.analysis.storage.path_costs",
        "conditions": "ioassay.analysis.machine_conditions",
        "verdict": "ioassay.analysis.claims.claim_verdicts",
        "drive": "ioassay.analysis.storage.drive_agreement",
        "describe": "ioassay.analysis.effects.descriptive",
        "stability": "ioassay.analysis.stability",
        "effect": "ioassay.analysis.effects.factor_effects",
        "peak": "ioassay.analysis.optimum.optimum",
        "calls": "ioassay.analysis.storage.system_calls",
        "caveats": "ioassay.analysis.threats.threat_checks",
    },
)
"""In report order: the conclusion first, threats to validity last."""

MERGED: dict[str, str] = {
    "regression": "effect",
    "latency": "describe",
    "ablation": "reductions",
    "hits": "reductions",
    "clients": "hosts",
}
"""Former names of questions, which studies may still use: name -> the question that has its answers now."""

REGISTRY = Registry("analyses", "question", ANALYSES, Contract("analyse"))

OVERALL: dict[str, str] = {
    "peaks": "ioassay.analysis.optimum.study_focus",
    "choices": "ioassay.analysis.optimum.alternatives",
    "unclaimed": "ioassay.analysis.claims.claim_verdicts",
}
"""Questions to all studies of a run together: name -> module, whose `together(records)` returns the answers. Their
findings belong to no study (`study` is '') and stand at the top of the page."""


def questions_of(study: Study) -> list[str]:
    """The questions that a study names, by their present names."""
    return list(dict.fromkeys(MERGED.get(question, question) for question in study.analysis.questions))
