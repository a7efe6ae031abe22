"""The registry of one list: the names that a study or an option may use, and what is behind each.

Each list of docs/ADDING.md has a registry, and all look-ups go through it: what a message calls known, what a check
accepts and what is imported are the same. The literal list stays where it is and wins. An entry is imported on first
use.

Plugins, which are installed packages, add to a list by entry points of the group `ioassay.<list>`:

    [project.entry-points."ioassay.drivers"]
    dd = "ioassay_dd.driver:Dd"

One of the group `ioassay.packs` names a `pack.Pack`, whose entries are the package's. The packages are searched once,
where a name is in no list of ours or where a whole list is wanted: a command that needs no plugin does not wait for
them. A plugin that cannot be used is a warning (`errors.BrokenPlugin`) that names its package, and never ends a
command.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from ioassay import debug_log
from ioassay.errors import BrokenPlugin, InputError, Interrupted, IoassayError, one_line
from ioassay.hints import suggestion
from ioassay.pack import Pack, listed

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
    return [text for plugin, text in _broken.items() if plugin in installed()]


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
        return [self._check(plugin) for plugin in installed() if plugin.group == self.group]

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
                    entry = load(plugin)
                    breach = self.contract.breach(entry) or self.contract.probe(entry, plugin.name)
                    problem = f"{plugin.value} {breach}" if breach else ""
                except Exception as error:
                    problem = str(error) if isinstance(error, PluginError) else fault(error)
                    problem = problem or f"{plugin.value} cannot be used: {type(error).__name__}: {error}"
            self._candidates[plugin] = Candidate(plugin, problem, entry)
            if problem:
                _broken[plugin] = f"{plugin.source}: its {self.noun} '{plugin.name}' is not used: {problem}"
        return self._candidates[plugin]

    def _clash(self, plugin: Plugin) -> str:
        if plugin.name in self.own:
            return f"ioassay has a {self.noun} of that name"
        if not re.fullmatch(_NAME, plugin.name):
            return "its name has other characters than lower case letters, digits and '_'"
        namesakes = (one for one in installed() if (one.group, one.name) == (plugin.group, plugin.name))
        if other := next((one for one in namesakes if one.package != plugin.package), None):
            return f"{other.source} has a {self.noun} of that name as well; uninstall one of them"
        return ""


# Plugins

API = 1
"""Version of what plugins may use (docs/plugins.md). It changes where a plugin that was right would break."""
DECLARATION = "IOASSAY_API"
"""Name in a plugin's module that states the version which it was written for."""
PREFIX = "ioassay."


@dataclass(frozen=True)
class Plugin:
    """One entry point of an installed package. `group` is the list that it adds to: `drivers`."""

    group: str
    name: str
    package: str
    version: str
    value: str
    """What is imported: `module` or `module:attribute`."""

    @property
    def source(self) -> str:
        """The package with its version, for messages."""
        return f"{self.package} {self.version}"

    @property
    def module(self) -> str:
        return self.value.partition(":")[0].strip()


class PluginError(Exception):
    """A plugin cannot be used, and why."""


@cache
def installed() -> tuple[Plugin, ...]:
    """Every plugin of the installed packages, by package and name; the first of two copies of a package counts."""
    from importlib.metadata import distributions

    found: dict[tuple[str, str, str], Plugin] = {}
    for distribution in distributions():
        try:
            points = [point for point in distribution.entry_points if point.group.startswith(PREFIX)]
        except (ValueError, TypeError, AttributeError, OSError) as error:  # damaged metadata: no plugin of ours
            debug_log.info("plugins", f"a package has entry points that cannot be read: {error}")
            continue
        try:
            package, version = distribution.metadata["Name"], distribution.version
        except (ValueError, TypeError, AttributeError, KeyError, OSError):
            package = version = ""
        for point in points:
            group, name = point.group.removeprefix(PREFIX), point.name
            named = Plugin(group, name, package or "a package without a name", version or "0", point.value)
            for plugin in _of_pack(named) if group == "packs" else [named]:
                found.setdefault((plugin.package.lower(), plugin.group, plugin.name), plugin)
    debug_log.info("plugins", f"{len(found)} found in the installed packages")
    return tuple(found[key] for key in sorted(found))


@cache
def stated(group: str) -> Mapping[str, str]:
    """A list of packs whose entries are texts and import nothing; those of the built-in packs count first."""
    return {**{one.name: one.value for one in installed() if one.group == group}, **listed(group, {})}


def _of_pack(plugin: Plugin) -> list[Plugin]:
    try:
        pack = load(plugin)
        if not isinstance(pack, Pack):
            raise PluginError(f"{plugin.value} is no ioassay.pack.Pack")
    except PluginError as error:
        warnings.warn(f"{plugin.source}: its pack '{plugin.name}' is not used: {error}", BrokenPlugin, stacklevel=2)
        return []
    return [
        Plugin(group, name, plugin.package, plugin.version, value)
        for group, entries in pack.lists.items()
        for name, value in entries.items()
        if group not in ("commands", "api", "observers")  # of built-in packs alone
    ]


_imported: dict[str, Plugin] = {}
"""Module -> a plugin in it, of those that were imported and are for this version."""


def load(plugin: Plugin) -> object:
    """What the entry point names; PluginError says why it cannot be imported or was made for another version."""
    from importlib.metadata import EntryPoint

    try:
        entry: object = EntryPoint(plugin.name, plugin.value, PREFIX + plugin.group).load()
    except BaseException as error:  # a module may end the interpreter while it is imported
        if isinstance(error, KeyboardInterrupt | Interrupted):
            raise
        raise PluginError(f"importing {plugin.value} raised {_described(error)}") from error
    wanted = getattr(sys.modules.get(plugin.module), DECLARATION, None)
    if wanted is None:
        raise PluginError(f"{plugin.module} states no {DECLARATION}; expected {DECLARATION} = {API}")
    if wanted != API:
        raise PluginError(f"{plugin.module} has {DECLARATION} = {wanted!r}, and this ioassay has {API}")
    _imported[plugin.module] = plugin
    return entry


def fault(error: BaseException) -> str:
    """Which plugin raised an error, what and where, as a sentence; '' where no code of a plugin had a part in it."""
    packages = {module.partition(".")[0]: plugin for module, plugin in _imported.items()}
    place, trace = "", error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if owner := _imported.get(module) or packages.get(module.partition(".")[0]):
            place = f"the plugin {owner.source} raised {_described(error)} ({module}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


@contextmanager
def faults_named(what: str) -> Iterator[None]:
    """Make an InputError of what the code of a plugin raises: `what` (`x cannot be read`) and the `fault`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, IoassayError) or not (said := fault(error)):
            raise
        raise InputError(f"{what}: {said}") from error


def _described(error: BaseException) -> str:
    said = one_line(str(error))
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
