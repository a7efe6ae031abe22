"""Whether this host is fit to measure, as data: its facts, what spoils measurements, what cannot be done, plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import analysis, api, drivers, formats, monitors, registry, targets
from ioassay.errors import BrokenPlugin, UsageError
from ioassay.formats import result_entry
from ioassay.records.record import Warning_
from ioassay.runner import executors

if TYPE_CHECKING:
    from ioassay.registry import Registry

_DEMANDING = "subsystems"
"""The suite whose studies ask a host for most."""


@dataclass(frozen=True)
class InstalledPlugin:
    """An entry point of an installed package; `problem` says why it cannot be used, '' where it can."""

    package: str
    version: str
    list: str
    """The list that it adds to, such as `drivers`."""
    noun: str
    """What an entry of that list is called."""
    name: str
    problem: str


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found; nothing of it was changed."""

    path: Path
    facts: Mapping[str, Any]
    """Of the host, and of the disk under `path`: what a run keeps in its host.json."""
    warnings: Sequence[Warning_]
    """What would spoil a measurement, each with its remedy (docs/doctor.md)."""
    unable: Sequence[Warning_]
    """What cannot be done here: missing tools, conditions that the kernel refuses."""
    plugins: Sequence[InstalledPlugin]
    realtime_share: float | None
    """The share of a processor that real-time tasks may take while others wait; None where the kernel says nothing."""

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay doctor --json` prints."""
        return {
            "facts": self.facts,
            "warnings": [vars(warning) for warning in self.warnings],
            "unable": [vars(warning) for warning in self.unable],
            "plugins": [asdict(plugin) for plugin in self.plugins],
            "realtime_share": self.realtime_share,
        }

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.path}: {len(self.warnings)} warnings, {len(self.unable)} things cannot be done>"

    def _repr_html_(self) -> str:
        rows = [(one.code, one.text, one.remedy) for one in (*self.warnings, *self.unable)]
        broken = [f"{one.package} {one.version}: {one.problem}" for one in self.plugins if one.problem]
        table = api.table(("warning", "text", "remedy"), rows)
        return api.section(f"Is this host fit to measure on {self.path}?", broken, tables=table)


def doctor(path: str | Path = ".") -> Diagnosis:
    """Examine this host and the disk under `path`; it takes a second, and changes nothing.

    UsageError for a path that does not exist.
    """
    from ioassay import host
    from ioassay.host import doctor as examination
    from ioassay.runner import preflight

    place = Path(path)
    if not place.exists():
        raise UsageError(f"{place}: no such path; expected one on the disk that is to be measured")
    installed = _plugins()  # before a list is used, which would warn of broken ones as well
    facts = host.facts(place, tools=list(drivers.tools().values()))
    unable = [*preflight.missing_tools(), *preflight.refused_conditions(), *preflight.skipped_trials(_DEMANDING)]
    return Diagnosis(
        place, facts, examination.diagnose(facts), list(dict.fromkeys(unable)), installed, preflight.real_time_share()
    )


def broken_plugins() -> list[Warning_]:
    """A warning for each plugin that this process met and cannot use, each a `BrokenPlugin` of Python before."""
    remedy = "update or uninstall its package; ioassay doctor lists all plugins"
    return [Warning_(BrokenPlugin.code, text, remedy) for text in registry.broken()]


def restore_settings() -> list[str]:
    """Put back the settings that killed runs left changed and remove what they left behind; a sentence for each."""
    from ioassay.host import drive_folders, settings
    from ioassay.runner import conditions

    return settings.restore_all() + conditions.remove_leftovers() + drive_folders.remove_leftovers()


def _plugins() -> list[InstalledPlugin]:
    """Every plugin of every list, and those of lists that there are not."""
    from ioassay.report import figures

    rooms = (drivers, targets, monitors, formats, analysis, figures, result_entry, executors)
    registries: dict[str, Registry] = {room.REGISTRY.group: room.REGISTRY for room in rooms}
    unknown = f"no list of ioassay is called so; expected {', '.join(registries)}"
    found = [(one.noun, each.plugin, each.problem) for one in registries.values() for each in one.candidates()]
    strays = [plugin for plugin in registry.installed() if plugin.group not in registries]
    found += [(f"entry of {plugin.group}", plugin, unknown) for plugin in strays]
    return [InstalledPlugin(one.package, one.version, one.group, noun, one.name, why) for noun, one, why in found]
