"""Runs over time: a store of their numbers, lists of runs, and what leaves for dashboards."""

from ioassay.pack import Pack

PACK = Pack(
    "The history of runs: a store of their numbers, and lists of runs",
    commands={
        "runs": (".commands.runs:runs", "List runs, newest first: when, study, target, machine, verdict, headline."),
        "history": (".commands.history", "Keep the numbers of runs over time, and pass them on."),
    },
    api={"Store": ".history_store", "history": ".history_store"},
    before={"runs": "report", "history": "sql"},
)
