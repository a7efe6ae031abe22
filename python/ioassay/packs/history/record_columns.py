"""The columns of a file of the history, and those that its readers are given."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import polars as pl

VERSION = 2
"""Of the columns below; files of older ones are read, and what they lack is empty."""
VERSION_COLUMN = "history_version"
FACTS = (
    "ioassay", "kernel", "tool", "tool_version", "drive", "firmware", "filesystem", "mount_options", "mitigations",
    "governor", "cpu", "settings",
)  # fmt: skip
"""What may change with the results."""
SEPARATOR = "; "
"""Between settings, each `key=value`."""
TEXTS = ("study", "title", "target", "host", "grade", "verdict", "headline", "page", "commit", *FACTS)
BEGUN = "begun"
VALUES = ("condition", "point", "response", "unit", "better", "n", "mean", "values")
"""Lists of equal length in a row of a run: an element for each response of each condition."""
KEYS = ("run", *TEXTS)
"""What runs are chosen by."""
RUN_COLUMNS = ("run", BEGUN, *TEXTS)
VALUE_COLUMNS = ("run", BEGUN, "host", "grade", *VALUES)


def model() -> pl.DataFrame:
    """A frame without rows that has the columns of a file. Times are in UTC; DuckDB would need a package for zones."""
    import polars as pl

    text, number = pl.List(pl.String()), pl.Float64()
    kinds = {"n": pl.List(pl.Int64()), "mean": pl.List(number), "values": pl.List(pl.List(number))}
    head = {VERSION_COLUMN: pl.Int64(), "run": pl.String(), BEGUN: pl.Datetime("us")}
    texts = dict.fromkeys(TEXTS, pl.String())
    return pl.DataFrame(schema={**head, **texts, **{name: kinds.get(name, text) for name in VALUES}})
