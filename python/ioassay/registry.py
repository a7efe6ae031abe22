"""The registry of one list: the names that a study or an option may use, and what is behind each.

Each list of docs/ADDING.md has a registry, and all look-ups go through it: what a message calls known, what a check
accepts and what is imported are the same. The literal list stays where it is. An entry is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


class Contract:
    """What an entry has to be: `members` that it defines itself, and the methods of `role`, parameter by parameter."""

    def __init__(self, *members: str, role: type | None = None) -> None:
        self.members = members
        self.role = role

    def breach(self, entry: object) -> str:
        """What is missing or differs, for a message; '' where the entry keeps the contract."""
        import inspect

        for member in self.members:
            if not hasattr(entry, member) or getattr(entry, member) is getattr(self.role, member, None):
                return f"has no {member}"
        for method, wanted in inspect.getmembers(self.role, inspect.isfunction) if self.role else ():
            if method.startswith("_"):
                continue
            if not callable(getattr(entry, method, None)):
                return f"has no method {method}"
            seen = list(inspect.signature(getattr(entry, method)).parameters)
            promised = list(inspect.signature(wanted).parameters)
            if seen[: len(promised)] != promised:
                return f"has {method}({', '.join(seen)}), wanted {method}({', '.join(promised)})"
        return ""


class Registry:
    """A list `own` (name -> `module` or `module:Class`) of things that are each called a `noun`."""

    def __init__(self, noun: str, own: Mapping[str, str], contract: Contract) -> None:
        self.noun = noun
        self.own = own
        self.contract = contract

    def __contains__(self, name: object) -> bool:
        return name in self.own

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the list."""
        yield from self.own

    def load(self, name: str) -> Any:
        """The module or class behind a name that `refusal` does not refuse."""
        module, _, attribute = self.own[name].partition(":")
        found = import_module(module)
        return getattr(found, attribute) if attribute else found

    def refusal(self, name: str) -> str:
        """Why the name cannot be used, with what it may have been; '' where it can."""
        if name in self:
            return ""
        import difflib

        known = list(self)
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
        return f"no {self.noun} is called '{name}'; {hint}"
