"""Hosts for tests: workers on loopback, each in a folder of its own, at a scheduler in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioassay.study.model import Suite, make_study

WAIT_S = 120.0


@dataclass
class Host:
    """A worker that was started, and the folder that its relative paths start from."""

    name: str
    folder: Path
    process: subprocess.Popen[str]

    @property
    def said(self) -> str:
        """What it wrote to its terminal."""
        return (self.folder.parent / f"{self.name}.log").read_text()

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End it as Ctrl-C does; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=WAIT_S)


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
        cluster.close(timeout=WAIT_S)


def start(folder: Path, name: str, address: str, *words: str) -> Host:
    """Have a worker join a scheduler; returns once it measures."""
    own = folder / name
    own.mkdir(exist_ok=True)
    (folder / f"{name}.tmp").mkdir(exist_ok=True)
    log = folder / f"{name}.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "ioassay", "worker", f"tcp://{address}", "--name", name, "--dir", str(own), *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(folder / f"{name}.tmp")},
            start_new_session=True,
        )
    made = Host(name, own, process)
    wait_for(lambda: "measures for runs" in made.said or process.poll() is not None)
    assert process.poll() is None, made.said
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


def wait_for(condition: Any, seconds: float = WAIT_S) -> None:
    """Until a condition holds; fails where it does not in time."""
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def suite(hosts: Sequence[str], **changes: Any) -> Suite:
    """A study of the null driver on hosts, unless the changes name another."""
    watch = {"monitors": [], "witness": "off"}
    table = {"name": "s", "title": "S", "driver": "null", "repetitions": 2, "watch": watch, **changes}
    table["run"] = {"hosts": list(hosts), **table.get("run", {})}
    return Suite(name="s", title="S", studies=[make_study(table, "s.toml")])
