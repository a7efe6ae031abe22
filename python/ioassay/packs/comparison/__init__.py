"""Two runs compared: `compare`, its page, and its summaries for continuous integration."""

from ioassay.pack import Pack

PACK = Pack(
    "The comparison of two runs",
    commands={
        "compare": (".commands.compare", "Compare two runs statistically, with a page; exit 1 when B is slower."),
        "turns": (".commands.turns", "Measure two settings or builds in turns, and compare them."),
    },
    api={"Comparison": ".comparison_results", "compare": ".comparison_results", "turns": ".turns"},
    before={"compare": "export", "turns": "compare"},
)
