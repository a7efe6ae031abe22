"""What one field of a monitor is. No values here."""

from __future__ import annotations

from dataclasses import dataclass

COUNTER = "counter"
GAUGE = "gauge"


@dataclass(frozen=True)
class Field:
    """`kind` COUNTER: only grows, so the difference of two readings counts; GAUGE: a level at the time of reading."""

    kind: str
    unit: str
    meaning: str
