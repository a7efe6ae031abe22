"""Words of a command line with places to fill in: `of={target}`, `bs={bs:bytes}`.

A place is a name in braces, perhaps with a unit that a size or a duration is written in as a plain number. Doubled
braces stand for themselves, and all other text does: `{"a": 1}` and `{print $1}` are no places. No shell is involved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from ioassay import units
from ioassay.errors import StudyError
from ioassay.records.record import Scalar

_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)(?::(\w+))?\}")
_UNITS: dict[str, Callable[[Scalar], str]] = {
    "bytes": lambda value: str(units.parse_size(value if isinstance(value, int) else str(value))),
    "seconds": lambda value: f"{units.parse_duration_s(value if isinstance(value, int | float) else str(value)):.15g}",
}


def places(text: str) -> list[str]:
    """The names that a text has places for."""
    return [match[1] for match in _PLACE.finditer(text) if match[1]]


def fill(text: str, values: Mapping[str, Scalar], key: str) -> str:
    """The text with the values in their places; StudyError names `key` where one is missing or has no such unit."""

    def value_of(match: re.Match[str]) -> str:
        name, unit = match[1], match[2]
        if not name:
            return match[0][0]
        if name not in values:
            known = ", ".join(values)
            fault = f"{match[0]} has no value; expected one of {known}, a parameter or a factor of that name"
            raise StudyError(f"{fault}, or {{{match[0]}}} for the text itself", key=key)
        return _written(values[name], unit, f"{match[0]} in {key}")

    return _PLACE.sub(value_of, text)


def words(texts: Iterable[str], values: Mapping[str, Scalar], key: str) -> list[str]:
    """All words of a command line; a word that is one place without a value is left out: `{flag}` where it is ''."""
    found = [(text, fill(text, values, f"{key}[{number}]")) for number, text in enumerate(texts)]
    return [word for text, word in found if word or not _PLACE.fullmatch(text)]


def _written(value: Scalar, unit: str | None, place: str) -> str:
    if unit is None:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if unit not in _UNITS:
        raise StudyError(f"the unit '{unit}' is not known; expected {', '.join(_UNITS)}", key=place)
    try:
        return _UNITS[unit](value)
    except (ValueError, TypeError) as error:
        raise StudyError(str(error), key=place) from None
