"""What the commands about the history share: how a place is named, and how runs are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from ioassay.cli import completion_values, syntax
from ioassay.errors import UsageError
from ioassay.packs.history.record_columns import KEYS

PLACE_WORDS = "PLACE is a folder or the address of an object store; by default $IOASSAY_HISTORY, or one of yours."


def _columns(text: str, given: syntax.Given) -> dict[str, str]:
    return completion_values.assigned(dict.fromkeys(KEYS, ()), text, given)


Where = Annotated[
    list[str] | None,
    syntax.option("KEY=VALUE", f"Runs with this {', '.join(KEYS[:-1])} or {KEYS[-1]}.", _columns),
]


def pairs(where: Sequence[str] | None) -> dict[str, str]:
    """`--where` as columns and their texts; UsageError for a word without `=`."""
    found = {}
    for word in where or ():
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--where {word}: expected KEY=VALUE, such as host=bb60fc84")
        found[key] = value
    return found
