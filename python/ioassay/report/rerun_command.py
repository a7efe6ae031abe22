"""The command that does a run again, from the study that the page shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ioassay.store.dataset import Dataset
from ioassay.store.schema import Search

STUDY = "study.toml"


def command(records: Dataset) -> str:
    """`ioassay run study.toml`, or the search with all that it was asked."""
    return shlex.join(["ioassay", "run", STUDY] if records.tuning is None else list(_search(records.tuning)))


def _search(tuning: Search) -> Iterator[str]:
    """The study has every level of the axes, so that the listed ones are the space."""
    yield from ("ioassay", "tune", STUDY, "--maximize" if tuning["maximize"] else "--minimize", str(tuning["metric"]))
    for constraint in tuning["constraints"]:
        yield from ("--subject-to", constraint["text"])
    yield "--listed"
    for name, level in tuning["default"].items():
        yield from ("--default", f"{name}={str(level).lower() if isinstance(level, bool) else level}")
    for option in ("trials", "confirm", "seed", "margin"):
        yield from (f"--{option}", str(tuning[option]))
    if tuning["batch"] > 1:
        yield from ("--workers", str(tuning["batch"]))
    if tuning["budget_s"] is not None:
        yield from ("--budget", f"{tuning['budget_s']:g}s")
    if not tuning["pruning"]:
        yield "--no-pruning"
