"""Which study the user means, with what the options change in it. The same for what runs and what only plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ioassay.errors import StudyError, UsageError

if TYPE_CHECKING:
    from ioassay.study import Suite


def chosen(
    study: str,
    scale: str,
    settings: Sequence[str] | None,
    factors: Sequence[str] | None,
    repetitions: int | None,
) -> Suite:
    """The suite called `study` after all changes; UsageError when none of its studies has the scale."""
    from ioassay import adjust, catalogue

    scales = {adjust.FULL}

    def change(table: Mapping[str, Any]) -> dict[str, Any]:
        scales.update(table.get("scale", {}))
        return adjust.adjusted(
            table, scale=scale, settings=settings or (), factors=factors or (), repetitions=repetitions
        )

    suite = catalogue.load(study, change)
    if scale not in scales:
        known = ", ".join(sorted(scales))
        raise UsageError(
            f"--scale {scale}: {study} has no such scale; it has {known} (in a study file: [scale.{scale}])"
        )
    return suite


@contextmanager
def named(study: str) -> Iterator[None]:
    """What is found wrong with a study after it was read says its file as well."""
    try:
        yield
    except StudyError as error:
        if study in str(error):
            raise
        raise StudyError(str(error), source=study) from None
