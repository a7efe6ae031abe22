"""Hosts for tests: workers on loopback, each in a folder of its own, at a scheduler in this process.

They are forked from a process that has everything imported (tests/cli/command_server.py).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioassay.study.model import Suite

from ... import computed_runs
from ...cli import command_server
from ...cli.command_server import Running
from ...patience import PATIENCE_S, until


def begin(folder: Path, *words: str, **environment: str) -> Running:
    """A command at work, in a session of its own."""
    return command_server.shared("distributed").start(words, folder, {**os.environ, **environment}, of_its_own=True)


@dataclass
class Host:
    """A worker that was started, and the folder that its relative paths start from."""

    name: str
    folder: Path
    process: Running

    @property
    def said(self) -> str:
        """What it wrote to its terminal."""
        return self.process.out + self.process.err

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End it as Ctrl-C does; its exit status."""
        if not self.process.has_ended():
            self.process.send_signal(signal.SIGINT)
        with self.process:
            return self.process.wait()


@contextmanager
def scheduler() -> Iterator[str]:
    """The address of a scheduler on loopback, HOST:PORT."""
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=0,
        host="127.0.0.1",
        protocol="tcp",
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs=50,
    )
    try:
        yield cluster.scheduler_address.removeprefix("tcp://")
    finally:
        cluster.close(timeout=PATIENCE_S)


def start(folder: Path, name: str, address: str, *words: str) -> Host:
    """Have a worker join a scheduler; returns once it measures."""
    own = folder / name
    own.mkdir(exist_ok=True)
    (folder / f"{name}.tmp").mkdir(exist_ok=True)
    words = ("worker", f"tcp://{address}", "--name", name, "--dir", str(own), *words)
    made = Host(name, own, begin(folder, *words, TMPDIR=str(folder / f"{name}.tmp")))
    until(lambda: "measures for runs" in made.said or made.process.has_ended())
    if made.process.has_ended():
        said = made.said
        made.stop()
        raise AssertionError(said)
    return made


@contextmanager
def fleet(folder: Path, names: Sequence[str], *words: str) -> Iterator[tuple[str, dict[str, Host]]]:
    """Hosts at a scheduler of their own; the executor's name, and the hosts by name."""
    with scheduler() as address:
        made: dict[str, Host] = {}
        try:
            made |= {name: start(folder, name, address, *words) for name in names}
            yield f"dask://{address}", made
        finally:
            for host in made.values():
                host.stop()


def suite(hosts: Sequence[str], **changes: Any) -> Suite:
    """A study of the null driver on hosts, unless the changes name another."""
    usual = {"driver": "null", "repetitions": 2, "watch": {"monitors": [], "witness": "off"}}
    return computed_runs.suite(**{**usual, **changes, "run": {"hosts": list(hosts), **changes.get("run", {})}})
