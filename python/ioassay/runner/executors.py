"""Executors elsewhere, by an address such as `dask://host:8786`: the scheme before the colon says who opens it.

An executor computes trials of pure drivers, and is any `concurrent.futures.Executor`. Deliberately not here: those of
this machine, which need no address (`worker_pool`), and what is submitted (`run`).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from ioassay.errors import UsageError
from ioassay.registry import Contract, Registry

EXECUTORS: dict[str, str] = dict.fromkeys(("local", "dask", "slurm", "pbs", "lsf"), "ioassay.cluster:opened")
"""Scheme -> module:function, which takes the whole address and returns a context manager that yields an Executor."""

REGISTRY = Registry("executors", "executor", EXECUTORS, Contract("__call__"))


@contextmanager
def opened(address: str) -> Iterator[Executor]:
    """The executor at an address; UsageError where no scheme fits, or what it opens is no executor."""
    scheme, colon, _ = address.partition(":")
    if not colon:
        raise UsageError(f"--executor is '{address}', wanted SCHEME:ADDRESS; schemes: {', '.join(REGISTRY) or 'none'}")
    if why := REGISTRY.refusal(scheme):
        raise UsageError(f"--executor {address}: {why}")
    with REGISTRY.load(scheme)(address) as executor:
        if not isinstance(executor, Executor):
            kind = type(executor).__name__
            raise UsageError(f"--executor {address}: opens a {kind}, wanted a concurrent.futures.Executor")
        yield executor
