"""The other hosts that measure a run (docs/hosts.md): which they are, what their checks found, and their end."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.errors import UsageError
from ioassay.hints import document
from ioassay.records.record import Warning_
from ioassay.roles import Consent
from ioassay.study.model import ALL_HOSTS, HOST_NAME, Study, Suite

if TYPE_CHECKING:
    from ioassay.cluster.fleet import Fleet
    from ioassay.runner.host_session import Examined
    from ioassay.runner.preflight import Storage
    from ioassay.runner.run_facts import KeptFile


@dataclass
class MeasuringHosts:
    """Hosts that have a session for a run; `close` ends it there."""

    fleet: Fleet
    examined: Mapping[str, Examined]
    studies: Sequence[Study] = ()
    """Those that name hosts."""
    kept: Sequence[KeptFile] = ()
    """Files that stay there; known when they are closed."""
    _stack: ExitStack = field(default_factory=ExitStack)

    def facts(self) -> dict[str, Any]:
        """What a new run keeps of each host."""
        return {name: dict(found.facts) for name, found in self.examined.items()}

    def devices(self) -> list[Storage]:
        """The block devices that are loaded there."""
        return [replace(device, host=name) for name, found in self.examined.items() for device in found.devices]

    def warnings(self) -> list[Warning_]:
        """Those of the checks, each once with the hosts that it is about."""
        found: dict[Warning_, list[str]] = defaultdict(list)
        for name, one in self.examined.items():
            for warning in one.warnings:
                found[warning].append(name)
        named = [replace(warning, text=f"{', '.join(names)}: {warning.text}") for warning, names in found.items()]
        return [*named, *self._shared()]

    def _shared(self) -> list[Warning_]:
        """Storage that hosts share, where they do not start together: their loads meet by chance."""
        from ioassay.targets import filesystem

        users: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name, one in self.examined.items():
            mount = one.facts.get("disk", {}).get("mount", {})
            if mount.get("filesystem") in filesystem.NETWORK:
                users[mount["filesystem"], str(mount.get("source"))].append(name)
        apart = any(not study.run.together for study in self.studies)
        return [
            Warning_(
                "shared-storage",
                f"{', '.join(names)} measure side by side on {source} ({kind}), and their loads meet by chance",
                "--set run.together=true starts each trial on all of them at one instant",
            )
            for (kind, source), names in users.items()
            if apart and len(names) > 1
        ]

    def close(self) -> None:
        """End what runs there, and have all put back."""
        self.kept = [*self.kept, *self.fleet.close()]
        self._stack.close()


def with_hosts(suite: Suite) -> list[Study]:
    """The studies of a suite that name hosts."""
    return [study for study in suite.studies if study.hosts]


def unchecked(suite: Suite) -> list[Warning_]:
    """That the hosts of a suite were not asked, which a plan need not do."""
    names = ", ".join(_names(suite))
    text = f"run.hosts is {names}, and nothing was checked there"
    return (
        [Warning_("hosts-unchecked", text, "--executor dask://HOST:PORT, the scheduler of the hosts")] if names else []
    )


def opened(
    suite: Suite,
    executor: Executor | str | None,
    consent: Consent,
    said: Callable[[str], None],
    *,
    without_tools: bool = False,
) -> tuple[Suite, MeasuringHosts]:
    """Have the hosts that a suite names check what it wants of them; the suite is that with their names in it.

    `said` is told what is waited for. UsageError without a scheduler that hosts have joined, RunError for a host that
    is not there, and what a host refuses, with its name.
    """
    from ioassay import cluster
    from ioassay.runner.host_session import Opening

    if not isinstance(executor, str):
        raise UsageError(
            f"run.hosts is {', '.join(_names(suite))}; wanted the scheduler that these hosts have joined: "
            f"--executor dask://HOST:PORT; see {document('hosts')}"
        )
    with ExitStack() as stack:
        fleet = stack.enter_context(cluster.hosts(executor))
        suite = _named(suite, fleet, executor)
        names = _names(suite)
        consents = _consents(consent, names)
        token = secrets.token_hex(8)
        openings = [Opening(f"{token}-{name}", name, suite, consents[name], without_tools) for name in names]
        examined = fleet.open(openings, said)
        return suite, MeasuringHosts(fleet, examined, with_hosts(suite), _stack=stack.pop_all())


def of_this_host(consent: Consent, suite: Suite) -> Consent:
    """What of the user's consent is about this host. UsageError for a name without one where only others measure."""
    hosts = {name for study in with_hosts(suite) for name in study.hosts}
    own = [name for name in consent.names if not any(name.startswith(f"{host}:") for host in hosts)]
    if own and hosts and len(with_hosts(suite)) == len(suite.studies):
        raise UsageError(
            f"--destroy-data {own[0]}: names no host, and consent is given for each; "
            f"wanted HOST:NAME, such as {min(hosts)}:{own[0]}"
        )
    return replace(consent, names=tuple(own))


def _names(suite: Suite) -> list[str]:
    """The hosts of all studies, each once."""
    return list(dict.fromkeys(name for study in suite.studies for name in study.hosts))


def _consents(consent: Consent, hosts: Sequence[str]) -> dict[str, Consent]:
    """Host -> what the user allows there."""
    marks = {host: f"{host}:" for host in hosts}
    return {
        host: replace(consent, names=tuple(name.removeprefix(mark) for name in consent.names if name.startswith(mark)))
        for host, mark in marks.items()
    }


def _named(suite: Suite, fleet: Fleet, executor: str) -> Suite:
    """The suite with the names of the hosts that there are in place of `all`."""
    if not any(ALL_HOSTS in study.hosts for study in suite.studies):
        return suite
    names = fleet.names()
    if not names:
        raise UsageError(f"run.hosts is all, and {executor} has no host; wanted one at least: {fleet.join} --name NAME")
    studies = [study.on_hosts(names) if ALL_HOSTS in study.hosts else study for study in suite.studies]
    return suite.model_copy(update={"studies": studies})


def serve(address: str, name: str, folder: Path, *, allow_exec: bool, said: Callable[[str], None]) -> None:
    """Measure on this host for runs elsewhere, until SIGINT or SIGTERM; see `cluster.host_worker.serve`."""
    from ioassay.cluster import executor_name, requires

    if not HOST_NAME.match(name) or name == ALL_HOSTS:
        raise UsageError(f"--name {name}: wanted letters, digits, '.', '_' and '-', and another name than {ALL_HOSTS}")
    scheduler = executor_name.scheduler(address)
    requires("distributed", "ioassay worker")
    from ioassay.cluster import host_worker

    host_worker.serve(scheduler, name, folder, allow_exec=allow_exec, said=said)
