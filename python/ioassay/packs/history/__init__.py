"""Runs over time: a store of their numbers, lists of runs, and what leaves for dashboards."""

from ioassay.pack import Pack

PACK = Pack(
    "The history of runs: a store of their numbers, and lists of runs",
    api={"history": ".history_store"},
)
