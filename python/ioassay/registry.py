"""The registry of one list: the names that a study or an option may use, and what is behind each.

Each list of docs/ADDING.md has a registry, and all look-ups go through it: what a message calls known, what a check
accepts and what is imported are the same. The literal list stays where it is and wins. Plugins of installed packages
add to it (`ioassay.plugins`). An entry is imported on first use.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ioassay import plugins
from ioassay.errors import BrokenPlugin
from ioassay.hints import suggestion
from ioassay.plugins import Plugin

_NAME = "[a-z][a-z0-9_]*"


class Contract:
    """What an entry has to be: `members` that it defines itself, and the methods of `role`, parameter by parameter.

    `probe` uses an entry of a plugin under its name, and says what is wrong with it.
    """

    def __init__(
        self, *members: str, role: type | None = None, probe: Callable[[Any, str], str] = lambda entry, name: ""
    ) -> None:
        self.members = members
        self.role = role
        self.probe = probe

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
                return f"has {method}({', '.join(seen)}), expected {method}({', '.join(promised)})"
        return ""


@dataclass(frozen=True)
class Candidate:
    """A plugin that was imported and checked: what it brings, or in `problem` why it cannot be used."""

    plugin: Plugin
    problem: str
    entry: Any = None


_broken: dict[Plugin, str] = {}
"""The plugins that were checked and cannot be used, and what is said of each."""


def broken() -> list[str]:
    """What is said of each installed plugin that this process met and cannot use."""
    return [text for plugin, text in _broken.items() if plugin in plugins.installed()]


class Registry:
    """A list `own` (name -> `module` or `module:Class`) of things that are each called a `noun`.

    Plugins of the entry point group `ioassay.<group>` add to it. Names of the list itself are looked up without them.
    """

    def __init__(self, group: str, noun: str, own: Mapping[str, str], contract: Contract) -> None:
        self.group = group
        self.noun = noun
        self.own = own
        self.contract = contract
        self._candidates: dict[Plugin, Candidate] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.own or any(one.plugin.name == name for one in self.plugins() if not one.problem)

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the list, and then those of plugins that can be used."""
        yield from self.own
        yield from sorted(one.plugin.name for one in self.plugins() if not one.problem)

    def plugins(self) -> list[Candidate]:
        """Every installed plugin of the list, imported and checked. A broken one is warned of when it is met first."""
        known = set(self._candidates)
        found = self.candidates()
        for one in found:
            if one.problem and one.plugin not in known:
                warnings.warn(_broken[one.plugin], BrokenPlugin, stacklevel=2)
        return found

    def candidates(self) -> list[Candidate]:
        """As `plugins`, for those who show each problem themselves: no warning."""
        return [self._check(plugin) for plugin in plugins.installed() if plugin.group == self.group]

    def load(self, name: str) -> Any:
        """The module or class behind a name that `refusal` does not refuse."""
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            found = import_module(module)
            return getattr(found, attribute) if attribute else found
        return next(one.entry for one in self.plugins() if one.plugin.name == name and not one.problem)

    def refusal(self, name: str) -> str:
        """Why the name cannot be used, with what it may have been; '' where it can."""
        if name in self:
            return ""
        for one in self.plugins():
            if one.plugin.name == name:
                return f"the {self.noun} '{name}' of {one.plugin.source} cannot be used: {one.problem}"
        known = list(self)
        hint = suggestion(name, known, f"known: {', '.join(known) or 'none'}")
        return f"no {self.noun} is called '{name}'; {hint}"

    def _check(self, plugin: Plugin) -> Candidate:
        if plugin not in self._candidates:
            entry, problem = None, self._clash(plugin)
            if not problem:
                try:
                    entry = plugins.load(plugin)
                    breach = self.contract.breach(entry) or self.contract.probe(entry, plugin.name)
                    problem = f"{plugin.value} {breach}" if breach else ""
                except Exception as error:
                    problem = str(error) if isinstance(error, plugins.PluginError) else plugins.fault(error)
                    problem = problem or f"{plugin.value} cannot be used: {type(error).__name__}: {error}"
            self._candidates[plugin] = Candidate(plugin, problem, entry)
            if problem:
                _broken[plugin] = f"{plugin.source}: its {self.noun} '{plugin.name}' is not used: {problem}"
        return self._candidates[plugin]

    def _clash(self, plugin: Plugin) -> str:
        """Why the name alone makes it unusable."""
        if plugin.name in self.own:
            return f"ioassay has a {self.noun} of that name"
        if not re.fullmatch(_NAME, plugin.name):
            return "its name has other characters than lower case letters, digits and '_'"
        namesakes = (one for one in plugins.installed() if (one.group, one.name) == (plugin.group, plugin.name))
        if other := next((one for one in namesakes if one.package != plugin.package), None):
            return f"{other.source} has a {self.noun} of that name as well; uninstall one of them"
        return ""
