"""Two runs compared: `compare`, its page, and its summaries for continuous integration.

run_comparison.py       the verdicts, and what else differs between the runs
comparison_text.py      both in words, as JSON, Markdown and JUnit XML
comparison_charts.py    the forest of ratios, and both runs over each other
comparison_results.py   the Python API, and the page
"""

from ioassay.pack import Pack

_API = "ioassay.packs.comparison.comparison_results"
PACK = Pack(
    "The comparison of two runs",
    commands={
        "compare": (
            "ioassay.packs.comparison.commands.compare",
            "Compare two runs statistically, with a page; exit 1 when B is slower.",
        )
    },
    api={"Comparison": _API, "compare": _API},
    before={"compare": "export"},
)
