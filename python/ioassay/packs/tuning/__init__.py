"""The search for the best parameters of a study: `tune`, the question `tuned` and its figure.

A search is a run whose plan grows by what was recorded; the core reads and reports its records like any others.
`parameter_search` is its Python API, `search/` finds the points.
"""

from ioassay.pack import Pack

_API = "ioassay.packs.tuning.parameter_search"
PACK = Pack(
    "The search for the best parameters of a study",
    analyses={"tuned": "ioassay.packs.tuning.questions.tuned_text"},
    figures={"search": "ioassay.packs.tuning.figures.tuning_search"},
    commands={
        "tune": (
            "ioassay.packs.tuning.commands.tune",
            "Search for a study's best parameters in few trials, and confirm them against the default.",
        )
    },
    api={"Search": _API, "tune": _API},
    before={"tuned": "reductions", "search": "series", "tune": "import"},
)
