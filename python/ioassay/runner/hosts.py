"""Hosts that measure trials of a run elsewhere: what the runner asks of them, what they answer, what is kept of each.

Which hosts there are, and how they are reached, is decided behind an executor's address (`executors`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from ioassay.errors import UsageError
from ioassay.hints import document
from ioassay.records.record import FAILED, Warning_
from ioassay.roles import Consent, CurrentRates, Parsed, Trial
from ioassay.runner import executors
from ioassay.runner.worker import Computed

if TYPE_CHECKING:
    from ioassay.runner.preflight import PreparedStudy, Storage
    from ioassay.study.model import Study, Suite


@dataclass(frozen=True)
class Measured:
    """What a host answers: the files of a trial by their path in its folder, record included; or why there are none."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    reason: str = ""
    """Why it failed without a record of its own: its host ended, or refused it."""
    is_over: bool = False
    """Whether its host measures nothing any more for the run."""
    began_unix_s: float = 0.0
    lasted_s: float = 0.0

    def failure(self) -> Computed:
        """What a trial came to that left no files."""
        return Computed(Parsed(FAILED, self.reason), self.began_unix_s, self.lasted_s)


@dataclass(frozen=True)
class News:
    """What happens on a host, for progress displays."""

    trial: Trial
    rates: CurrentRates | None = None
    """None: its tool was started, or what `preparing` says."""
    preparing: str = ""
    share: float = 0.0
    """Of what is being prepared, from 0 to 1."""


class Hosts(Protocol):
    """Hosts that have checked what a run wants of them, and measure its trials, one at a time on each.

    They never raise for a host that ends: its trials fail.
    """

    @property
    def most(self) -> int:
        """How many trials it is given at once, those that wait included."""

    def submit(self, trial: Trial) -> Future[Measured]:
        """Have a trial measured on the host of its point, after those that were submitted for that host before."""

    def submit_together(self, trials: Sequence[Trial]) -> Sequence[Future[Measured]]:
        """Have trials of different hosts measured, whose tools start at one instant."""

    def news(self) -> Iterable[News]:
        """What happened since it was asked last."""

    def cancel(self) -> None:
        """Give up all that was submitted and has not ended, and have tools that run ended."""

    wait_quiet_s: float
    """How long each trial waits at most for a quiet machine."""
    kept: Sequence[KeptFile]
    """Files that stay there; known when they are closed."""

    def facts(self) -> dict[str, Any]:
        """What a new run keeps of each host."""

    def devices(self) -> list[Storage]:
        """The block devices that are loaded there."""

    def warnings(self) -> list[Warning_]:
        """Those of the checks, each once with the hosts that it is about."""

    def close(self) -> None:
        """End what runs there, and have all put back."""


def with_hosts(suite: Suite) -> list[Study]:
    """The studies of a suite that name hosts."""
    return [study for study in suite.studies if study.hosts]


def names(suite: Suite) -> list[str]:
    """The hosts of all studies, each once."""
    return list(dict.fromkeys(name for study in suite.studies for name in study.hosts))


def unchecked(suite: Suite) -> list[Warning_]:
    """That the hosts of a suite were not asked, which a plan need not do."""
    named = ", ".join(names(suite))
    text = f"run.hosts is {named}, and nothing was checked there"
    remedy = "--executor dask://HOST:PORT, the scheduler of the hosts"
    return [Warning_("hosts-unchecked", text, remedy)] if named else []


def of_this_host(consent: Consent, suite: Suite) -> Consent:
    """What of the user's consent is about this host. UsageError for a name without one where only others measure."""
    hosts = names(suite)
    own = [name for name in consent.names if not any(name.startswith(f"{host}:") for host in hosts)]
    if own and hosts and len(with_hosts(suite)) == len(suite.studies):
        raise UsageError(
            f"--destroy-data {own[0]}: names no host, and consent is given for each; "
            f"expected HOST:NAME, such as {min(hosts)}:{own[0]}"
        )
    return replace(consent, names=tuple(own))


def opened(
    suite: Suite, executor: Executor | str | None, consent: Consent, said: executors.Said, *, without_tools: bool
) -> tuple[Suite, Hosts]:
    """Have the hosts that a suite names check what it wants of them; the suite is that with their names in it.

    `said` is told what is waited for. UsageError without a scheduler that hosts have joined, RunError for a host that
    is not there, and what a host refuses, with its name.
    """
    see = f"--executor dask://HOST:PORT; see {document('hosts')}"
    if not isinstance(executor, str):
        named = ", ".join(names(suite))
        raise UsageError(f"run.hosts is {named}; expected the scheduler that these hosts have joined: {see}")
    entry = None if executor == executors.LOCAL else executors.opener(executor)
    if isinstance(entry, executors.Opener) and (
        found := entry.measuring(executor, suite, consent, said, without_tools=without_tools)
    ):
        return found
    text = f"--executor {executor} computes, and measures no hosts; expected the scheduler that the hosts have joined"
    raise UsageError(f"{text}: {see}")


@dataclass(frozen=True)
class Start:
    """What is kept of how a trial's tool was started."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    warnings: Sequence[Warning_] = ()


class Gate:
    """The open gate: a tool starts when all that watches it is ready, and ends by itself."""

    def ready(self, trial: Trial) -> None:
        """Called while the tool is held before its first instruction. Returns once the instant of its start is fixed,
        early enough for readings of counters before it."""

    def go(self, trial: Trial) -> None:
        """Returns at that instant."""

    def account(self, trial: Trial, unix_s: float) -> Start:
        """What is to be kept of a start at a time of this host's clock."""
        return Start()

    def withdrawn(self) -> str:
        """Why the trial that runs must end; '' while it may go on."""
        return ""


# What a run keeps of this host, and which files its studies leave here


class KeptFile(TypedDict):
    """A file that a run made beside its folder and that stays."""

    path: str
    bytes: int
    """On disk."""
    remove: str
    """The command that removes it."""


def gathered(benches: Sequence[PreparedStudy]) -> dict[str, Any]:
    """What a new run keeps of this host."""
    from ioassay import host

    here = [bench for bench in benches if not bench.elsewhere]
    tools = {tool.executable: bench.version.partition("\n")[0] for bench in here if (tool := bench.driver.tool())}

    def measured() -> Iterator[Path]:
        for bench in here:
            for trial in bench.points():
                if path := trial.target.get("path"):
                    yield bench.folder / Path(path).expanduser()
                yield from (bench.folder / touch.path for touch in bench.driver.touches(trial.params))

    return {**host.facts(next(measured(), Path())), "tools": tools}


def kept_files(benches: Sequence[PreparedStudy]) -> list[KeptFile]:
    """What studies made beside the run's folder and that is still there, each with its bytes on disk."""
    from ioassay.targets import ownership_mark

    files = {path: ownership_mark.files(path) for bench in benches for path in bench.kept()}
    return [
        KeptFile(
            path=str(path),
            bytes=sum(part.stat().st_blocks * 512 for part in parts),
            remove=shlex.join(["rm", "--", *map(str, parts)]),
        )
        for path, parts in files.items()
        if parts
    ]
