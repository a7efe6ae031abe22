"""Plugins: installed packages that add entries to the lists of ioassay, by entry points of the groups `ioassay.<list>`.

    [project.entry-points."ioassay.drivers"]
    dd = "ioassay_dd.driver:Dd"

One of the group `ioassay.packs` names a `pack.Pack`, whose entries are the package's. The packages are searched once,
where a name is in no list of ours or where a whole list is wanted: a command that needs no plugin does not wait for
them. A plugin that cannot be used is a warning (`errors.BrokenPlugin`) that names its package, and never ends a
command. Whose names win and what an entry has to be is decided in `registry`.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ioassay import debug_log
from ioassay.errors import BrokenPlugin, Interrupted, one_line
from ioassay.pack import Pack

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

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
        """The module that is imported, with its packages."""
        return self.value.partition(":")[0].strip()


class PluginError(Exception):
    """A plugin cannot be used, and why."""


@cache
def installed() -> tuple[Plugin, ...]:
    """Every plugin of the installed packages, by package and name; the first of two copies of a package counts."""
    from importlib.metadata import distributions

    found: dict[tuple[str, str, str], Plugin] = {}
    for distribution in distributions():
        for point in _entry_points(distribution):
            package, version = _identity(distribution)
            named = Plugin(point.group.removeprefix(PREFIX), point.name, package, version, point.value)
            for plugin in _of_pack(named) if named.group == "packs" else [named]:
                found.setdefault((package.lower(), plugin.group, plugin.name), plugin)
    debug_log.info("plugins", f"{len(found)} found in the installed packages")
    return tuple(found[key] for key in sorted(found))


def _of_pack(plugin: Plugin) -> list[Plugin]:
    """The entries of a pack; of one that cannot be used none, with a warning."""
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
        if group not in ("commands", "api")  # of built-in packs alone
    ]


def _entry_points(distribution: Distribution) -> list[EntryPoint]:
    """Those of our groups; of damaged metadata, which no plugin of ours can be in, none."""
    try:
        return [point for point in distribution.entry_points if point.group.startswith(PREFIX)]
    except (ValueError, TypeError, AttributeError, OSError) as error:
        debug_log.info("plugins", f"a package has entry points that cannot be read: {error}")
        return []


def _identity(distribution: Distribution) -> tuple[str, str]:
    """Name and version, of damaged metadata as far as they are there."""
    try:
        name, version = distribution.metadata["Name"], distribution.version
    except (ValueError, TypeError, AttributeError, KeyError, OSError):
        name = version = ""
    return name or "a package without a name", version or "0"


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


def _described(error: BaseException) -> str:
    said = one_line(str(error))
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
