"""Which study the user means, with what the options change in it. The same for what runs and what only plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ioassay.errors import StudyError, UsageError

if TYPE_CHECKING:
    from ioassay.records.record import Warning_
    from ioassay.study.model import Suite


def chosen(
    study: str,
    scale: str,
    settings: Sequence[str] | None,
    factors: Sequence[str] | None,
    repetitions: int | None,
    left_out: list[Warning_] | None = None,
) -> Suite:
    """The suite called `study` after all changes; UsageError when none of its studies has the scale.

    `left_out` is given a warning for each change that some of its studies do not take.
    """
    from ioassay.study import catalog, overrides

    scales = {overrides.FULL}

    def change(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        scales.update(*(table.get("scale", {}) for table in tables))
        changed, warnings = overrides.adjusted_all(
            tables, scale=scale, settings=settings or (), factors=factors or (), repetitions=repetitions
        )
        if left_out is not None:
            left_out.extend(warnings)
        return changed

    suite = catalog.load_all(study, change)
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
