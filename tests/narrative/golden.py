"""Golden texts of the narrative: `tests/narrative/golden/<name>.txt`, read aloud before they are committed.

IOASSAY_UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ioassay.narrative.finding import Finding

FOLDER = Path(__file__).parent / "golden"


def text_of(findings: Iterable[Finding]) -> str:
    """Title, statement and caveats of each finding, as a person reads them."""
    return "\n\n".join(
        "\n".join([f"# {finding.title}", finding.statement, *(f"- {caveat}" for caveat in finding.caveats)])
        for finding in findings
    )


def check(name: str, findings: Iterable[Finding]) -> None:
    """Assert that the findings read as in the golden text of that name."""
    path, text = FOLDER / f"{name}.txt", text_of(findings) + "\n"
    if os.environ.get("IOASSAY_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing: IOASSAY_UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text()
