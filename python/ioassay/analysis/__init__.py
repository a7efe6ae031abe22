"""One file a question; each turns records into findings. Draws nothing and starts nothing.

`ANALYSES` is the literal list: question -> module, whose `analyse(records, study)` returns findings.
"""

from __future__ import annotations

ANALYSES: dict[str, str] = {}
