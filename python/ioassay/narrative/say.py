"""A statement: the code of a sentence and the values in it. `catalogue/<subject>.toml` has the sentences.

A code is `<subject>.<name>`. In a template, `{value}` is a value as text and `{value:form}` another form of it, which
`narrative.values` lists. A value may be a statement itself. Decides nothing.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from ioassay import pack
from ioassay.narrative import phrases, values
from ioassay.stats.result import plain

_CATALOGUE = Path(__file__).parent / "catalogue"
TEXT = "text"
"""The code of a sentence that a plugin has written itself."""


@functools.cache
def templates(subject: str) -> Mapping[str, str]:
    """The sentences of one subject, by name."""
    core = _CATALOGUE / f"{subject}.toml"
    return tomllib.loads((core if core.exists() else pack.files("words")[subject]).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Say:
    """One statement. `where`: the levels that it is restricted to, which its text begins with."""

    code: str
    values: Mapping[str, object] = field(default_factory=dict)
    where: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """The sentence."""
        subject, _, name = self.code.partition(".")
        text = values.fill(templates(subject)[name], self.values) if name else str(self.values[TEXT])
        return phrases.placed(self.where, text)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able form."""
        shown = {"code": self.code, "values": _data(self.values), "text": str(self)}
        return {**shown, "where": plain(self.where)} if self.where else shown


def say(code: str, **values: Any) -> Say:
    """The statement of a code, which needs no restriction."""
    return Say(code, values)


def statement(said: Say | str) -> Say:
    """A text of a plugin's own as a statement; a statement stays."""
    return said if isinstance(said, Say) else Say(TEXT, {TEXT: said})


def _data(value: Any) -> Any:
    if isinstance(value, Say):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {str(name): _data(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_data(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _data(getattr(value, one.name)) for one in fields(value)}
    return plain(value)
