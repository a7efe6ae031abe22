"""One file a question; each turns records into findings. Draws nothing and starts nothing.

`ANALYSES` is the literal list: question -> module, whose `analyse(records, study)` returns findings; `OVERALL` that of
questions to all studies at once. All of them
together: `everything.analyse_all`. Two runs against each other: `compare.compare`.
"""

from __future__ import annotations

ANALYSES: dict[str, str] = {
    "tuned": "ioassay.analysis.tuned",
    "reductions": "ioassay.analysis.reductions",
    "conclude": "ioassay.analysis.conclude",
    "choice": "ioassay.analysis.choice",
    "verdict": "ioassay.analysis.verdict",
    "drive": "ioassay.analysis.drive",
    "accountings": "ioassay.analysis.accountings",
    "database": "ioassay.analysis.database",
    "describe": "ioassay.analysis.describe",
    "stability": "ioassay.analysis.stability",
    "effect": "ioassay.analysis.effect",
    "peak": "ioassay.analysis.peak",
    "calls": "ioassay.analysis.calls",
    "regression": "ioassay.analysis.regression",
    "latency": "ioassay.analysis.latency",
    "caveats": "ioassay.analysis.caveats",
}
"""In report order: what it comes to first, what speaks against it last."""

OVERALL: dict[str, str] = {
    "peaks": "ioassay.analysis.peaks",
    "choices": "ioassay.analysis.choices",
    "unclaimed": "ioassay.analysis.unclaimed",
}
"""What all studies of a run come to together: name -> module, whose `together(records, findings)` gets the findings of
the studies and returns findings of no study (`study` is ''). They stand at the top of the page."""
