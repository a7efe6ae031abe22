"""Executors elsewhere, by an address such as `dask://host:8786`: the scheme before the colon says who opens it.

An executor computes trials of pure drivers, and is any `concurrent.futures.Executor`. Deliberately not here: those of
this machine, which need no address (`worker_pool`), and what is submitted (`run`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.pack import listed
from ioassay.registry import Contract, Registry
from ioassay.runner import worker_pool

if TYPE_CHECKING:
    from ioassay.roles import Consent
    from ioassay.runner.hosts import Hosts
    from ioassay.study.model import Suite

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
        """See `hosts.opened`; None where no hosts measure."""
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
    """An address that is none, with the forms that there are."""
    forms = [LOCAL]
    for scheme in REGISTRY:
        entry = REGISTRY.load(scheme)
        forms.append(entry.forms.get(scheme, f"{scheme}:…") if isinstance(entry, Opener) else f"{scheme}:…")
    *first, last = forms
    wanted = f"{', '.join(first)} or {last}" if first else last
    return UsageError(f"--executor is '{address}'; expected {wanted}{nearest(address, offers(''))}")


def offers(text: str) -> Iterator[str]:
    """What an address that begins with `text` may be, for shells."""
    yield LOCAL
    for entry in _openers():
        yield from entry.offers(text)


def places(address: str) -> int | None:
    """See Opener; UsageError for an address that nothing opens."""
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
    """Those of the packs, each once."""
    return [one for one in dict.fromkeys(map(REGISTRY.load, EXECUTORS)) if isinstance(one, Opener)]
