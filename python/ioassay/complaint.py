"""What is wrong with a value, in a user's words. From pydantic's errors, whose own words are for programmers.

Which file and key are meant is said by those who read the file; here is only what was wanted and what was found.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

_WANTED = {
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_pattern_mismatch": "letters, digits, '_', '-' or '.' (pattern {pattern})",
}
_LONGEST = 80


def complaint(error: Mapping[str, Any]) -> str:
    """`wanted a list; found 'cpu'`: the message of one of `ValidationError.errors()`, without its place."""
    if error["type"] == "value_error":
        message = str(error["msg"]).removeprefix("Value error, ")
    elif (wanted := _WANTED.get(error["type"])) is not None:
        message = "wanted " + wanted.format_map(error.get("ctx", {}))
    else:
        number = "a number " if error["type"].startswith(("greater_than", "less_than")) else ""
        message = str(error["msg"]).replace("Input should be ", f"wanted {number}")
    names_it = error["type"] == "value_error" and isinstance(error["input"], Mapping)  # a check of a whole table
    return message if names_it else f"{message}; found {shown(error['input'])}"


def shown(value: Any) -> str:
    """A value as its file might say it, cut to a readable length."""
    text = str(value).lower() if isinstance(value, bool) else repr(value) if _is_plain(value) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def near(name: str, known: Iterable[str]) -> str:
    """What an unknown name should perhaps have been."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean '{close[0]}'?" if close else f"known here: {', '.join(known)}"


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | list | dict)
