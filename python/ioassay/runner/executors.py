"""What computes or measures elsewhere, by an address such as `dask://host:8786`: its scheme says who opens it.

An executor computes trials of pure drivers, and is any `concurrent.futures.Executor`. `Hosts` measure trials: what the
runner asks of them, what they answer, and what is kept of each. Deliberately not here: executors of this machine, which
need no address (`worker_pool`), and what is submitted (`run`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from ioassay.errors import UsageError
from ioassay.hints import document, nearest
from ioassay.pack import listed
from ioassay.records.record import Warning_
from ioassay.registry import Contract, Registry
from ioassay.roles import Consent, CurrentRates, Trial
from ioassay.runner import worker_pool

if TYPE_CHECKING:
    from ioassay.runner.preflight import PreparedStudy, Storage
    from ioassay.study.model import Study, Suite


LOCAL = "local"
"""The executor that needs nothing: worker processes of the run."""
Said = Callable[[str], None]

EXECUTORS: dict[str, str] = listed("executors", {})
"""Scheme -> module:function, which takes the whole address and returns a context manager that yields an Executor; or an
`Opener`."""

REGISTRY = Registry("executors", "executor", EXECUTORS, Contract("__call__"))


class Opener:
    """An entry that knows more of its addresses than how to open them."""

    forms: Mapping[str, str] = {}
    """Scheme -> its addresses, for messages."""
    libraries: Sequence[str] = ()
    """Packages whose executors `adapted` takes."""

    def __call__(self, address: str, said: Said) -> AbstractContextManager[Executor]:
        """The executor, for as long as the context lasts. `said` is told what is waited for, and of what is refused.

        UsageError for an address that is wrong or needs what is not installed, RunError where nothing answers.
        """
        raise NotImplementedError

    def places(self, address: str) -> int | None:
        """How many trials it computes at once, as its address says; None where only what is behind it knows.

        UsageError as of a call.
        """
        return None

    def offers(self, text: str) -> Iterator[str]:
        """What an address that begins with `text` may be, for shells."""
        yield from ()

    def adapted(self, executor: Executor, said: Said) -> AbstractContextManager[Executor]:
        """An executor of the caller's, as one that loses no trial."""
        return nullcontext(executor)

    def measuring(
        self, address: str, suite: Suite, consent: Consent, said: Said, *, without_tools: bool
    ) -> tuple[Suite, Hosts] | None:
        """See `open_hosts`; None where no hosts measure."""
        return None


def opener(address: str) -> Any:
    """The entry of an address; UsageError where it has no scheme, or none that is known."""
    scheme, colon, _ = address.partition(":")
    if not colon or scheme == LOCAL:
        raise wrong(address)
    if why := REGISTRY.refusal(scheme):
        raise UsageError(f"--executor {address}: {why}")
    return REGISTRY.load(scheme)


def wrong(address: str) -> UsageError:
    forms = [LOCAL]
    for scheme in REGISTRY:
        entry = REGISTRY.load(scheme)
        forms.append(entry.forms.get(scheme, f"{scheme}:…") if isinstance(entry, Opener) else f"{scheme}:…")
    *first, last = forms
    wanted = f"{', '.join(first)} or {last}" if first else last
    return UsageError(f"--executor is '{address}'; expected {wanted}{nearest(address, offers(''))}")


def offers(text: str) -> Iterator[str]:
    yield LOCAL
    for entry in _openers():
        yield from entry.offers(text)


def places(address: str) -> int | None:
    if address == LOCAL:
        return worker_pool.processors()
    entry = opener(address)
    return entry.places(address) if isinstance(entry, Opener) else None


@contextmanager
def opened(address: str, said: Said = lambda text: None) -> Iterator[Executor]:
    """The executor at an address; UsageError where no scheme fits, or what it opens is no executor."""
    entry = opener(address)
    with entry(address, said) if isinstance(entry, Opener) else entry(address) as executor:
        if not isinstance(executor, Executor):
            kind = type(executor).__name__
            raise UsageError(f"--executor {address}: opens a {kind}, expected a concurrent.futures.Executor")
        yield executor


def adapted(executor: Executor, said: Said = lambda text: None) -> AbstractContextManager[Executor]:
    """An executor of the caller's; one of a library that may lose trials becomes one that loses none."""
    library = type(executor).__module__.partition(".")[0]
    entry = next((one for one in _openers() if library in one.libraries), None)
    return entry.adapted(executor, said) if entry else nullcontext(executor)


def _openers() -> list[Opener]:
    return [one for one in dict.fromkeys(map(REGISTRY.load, EXECUTORS)) if isinstance(one, Opener)]


# Hosts that measure trials of a run elsewhere


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


@dataclass(frozen=True)
class News:
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
    return [study for study in suite.studies if study.hosts]


def host_names(suite: Suite) -> list[str]:
    return list(dict.fromkeys(name for study in suite.studies for name in study.hosts))


def unchecked(suite: Suite) -> list[Warning_]:
    named = ", ".join(host_names(suite))
    text = f"run.hosts is {named}, and nothing was checked there"
    remedy = "--executor dask://HOST:PORT, the scheduler of the hosts"
    return [Warning_("hosts-unchecked", text, remedy)] if named else []


def of_this_host(consent: Consent, suite: Suite) -> Consent:
    """What of the user's consent is about this host. UsageError for a name without one where only others measure."""
    hosts = host_names(suite)
    own = tuple(name for name in consent.names if not name.startswith(tuple(f"{host}:" for host in hosts)))
    if own and hosts and len(with_hosts(suite)) == len(suite.studies):
        raise UsageError(
            f"--destroy-data {own[0]}: names no host, and consent is given for each; "
            f"expected HOST:NAME, such as {min(hosts)}:{own[0]}"
        )
    return replace(consent, names=own)


def open_hosts(
    suite: Suite, executor: Executor | str | None, consent: Consent, said: Said, *, without_tools: bool
) -> tuple[Suite, Hosts]:
    """Have the hosts that a suite names check what it wants of them; the suite is that with their names in it.

    `said` is told what is waited for. UsageError without a scheduler that hosts have joined, RunError for a host that
    is not there, and what a host refuses, with its name.
    """
    wanted = "expected the scheduler that"
    why = f"run.hosts is {', '.join(host_names(suite))}; {wanted} these hosts have joined"
    if isinstance(executor, str):
        entry = None if executor == LOCAL else opener(executor)
        found = isinstance(entry, Opener) and entry.measuring(
            executor, suite, consent, said, without_tools=without_tools
        )
        if found:
            return found
        why = f"--executor {executor} computes, and measures no hosts; {wanted} the hosts have joined"
    raise UsageError(f"{why}: --executor dask://HOST:PORT; see {document('hosts')}")


@dataclass(frozen=True)
class Start:
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
    from ioassay import host

    here = [bench for bench in benches if not bench.elsewhere]
    versions = {tool.executable: bench.version.partition("\n")[0] for bench in here if (tool := bench.driver.tool())}
    first = next((path for bench in benches for path in bench.paths()), Path())
    return {**host.facts(first), "tools": versions}


def kept_files(benches: Sequence[PreparedStudy]) -> list[KeptFile]:
    """What studies made beside the run's folder and that is still there, each with its bytes on disk."""
    from ioassay.targets import ownership_mark, safety

    found = []
    for path in dict.fromkeys(safety.resolve(path) for bench in benches for path in bench.paths()):
        if parts := ownership_mark.files(path):
            size_bytes = sum(part.stat().st_blocks * 512 for part in parts)
            remove = shlex.join(["rm", "--", *map(str, parts)])
            found.append(KeptFile(path=str(path), bytes=size_bytes, remove=remove))
    return found
