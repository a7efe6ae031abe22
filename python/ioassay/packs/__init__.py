"""What ioassay has beside its core: one folder and one line each. Without a folder and its line, the rest works.

A pack imports the core and no other pack; the core imports none, and finds what is in them by `pack.listed`.
`packs/<name>/__init__.py` has its `PACK` and nothing that costs time.
"""

from __future__ import annotations

PACKS = (
    "command",
    "comparison",
    "fio",
    "foreign",
    "history",
    "hosts",
    "iozone",
    "live",
    "qualify",
    "replay",
    "rocksdb",
    "ssd",
    "strace",
    "stress_ng",
    "tuning",
    "virtual_drive",
    "witness",
)
