"""The search for the best parameters of a study: `tune`, the question `tuned` and its figure.

A search is a run whose plan grows by what was recorded; the core reads and reports its records like any others.

    parameter_search.py  the Python API
    search/space.py      the study's factors as axes of the search; parses --range
        request.py       the goal with its constraints, and all that a search is asked, as it is stored
        search.py        proposes the next point; runs nothing and stores nothing
        acquisition.py       what measured points say about all points, and what one more measurement is worth
        campaign.py      the trials of a search, step by step, from the records before them, as records of a run
"""

from ioassay.pack import Pack

_API = "ioassay.packs.tuning.parameter_search"
PACK = Pack(
    "The search for the best parameters of a study",
    analyses={"tuned": "ioassay.packs.tuning.questions.tuned"},
    figures={"search": "ioassay.packs.tuning.figures.tuning_search"},
    commands={
        "tune": (
            "ioassay.packs.tuning.commands.tune:tune",
            "Search for a study's best parameters in few trials, and confirm them against the default.",
        )
    },
    api={"Search": _API, "tune": _API},
    before={"tuned": "reductions", "search": "series", "tune": "import"},
)
