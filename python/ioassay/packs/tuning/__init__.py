"""The search for the best parameters of a study: `tune`, the question `tuned` and its figure.

A search is a run whose plan grows by what was recorded; the core reads and reports its records like any others.
"""

from ioassay.pack import Pack

PACK = Pack(
    "The search for the best parameters of a study",
    analyses={"tuned": ".questions.tuned"},
    figures={"search": ".figures.tuning_search"},
    commands={
        "tune": (
            ".commands.tune:tune",
            "Search for a study's best parameters in few trials, and confirm them against the default.",
        )
    },
    api={"Search": ".parameter_search", "tune": ".parameter_search"},
    before={"tuned": "reductions", "search": "series", "tune": "import"},
)
