"""ioassay worker: this machine measures for runs elsewhere."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

from ioassay.cli import console, syntax
from ioassay.errors import UsageError


def worker(
    scheduler: Annotated[str, syntax.argument("ADDRESS", "The Dask scheduler: tcp://HOST:PORT[,encryption=none].")],
    name: Annotated[str, syntax.option("NAME", "What studies call this host; by default its host name.")] = "",
    directory: Annotated[Path, syntax.option("--dir DIR", "Where relative paths of studies start from.")] = Path(),
    allow_exec: Annotated[
        bool, syntax.option("--allow-exec", "Allow jobs to run programs here, where the run allows it as well.")
    ] = False,
) -> None:
    """Measure on this host for runs elsewhere, one trial at a time, until Ctrl-C.

    Examples: ioassay worker tcp://10.0.0.1:8786 --name a; then there: ioassay run study.toml --set run.hosts=a,b
    --executor dask://10.0.0.1:8786
    """
    from ioassay.packs.hosts import host_worker

    if not directory.is_dir():
        raise UsageError(f"--dir {directory}: no such folder; expected an existing one")
    host = name or socket.gethostname()
    host_worker.serve(scheduler, host, directory, allow_exec=allow_exec, said=console.note)
