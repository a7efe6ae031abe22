"""What a run keeps of the host that measures, and which files its studies leave there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from ioassay import host
from ioassay.runner.preflight import PreparedStudy
from ioassay.targets import ownership_mark


class KeptFile(TypedDict):
    """A file that a run made beside its folder and that stays."""

    path: str
    bytes: int
    """On disk."""
    remove: str
    """The command that removes it."""


def gathered(benches: Sequence[PreparedStudy]) -> dict[str, Any]:
    """What a new run keeps of this host."""
    here = [bench for bench in benches if not bench.elsewhere]
    tools = {tool.executable: bench.version.partition("\n")[0] for bench in here if (tool := bench.driver.tool())}
    return {**host.facts(_measured_path(here)), "tools": tools}


def _measured_path(benches: Sequence[PreparedStudy]) -> Path:
    for bench in benches:
        for trial in bench.points():
            if path := trial.target.get("path"):
                return bench.folder / Path(path).expanduser()
            for touch in bench.driver.touches(trial.params):
                return bench.folder / touch.path
    return Path()


def kept_files(benches: Sequence[PreparedStudy]) -> list[KeptFile]:
    """What studies made beside the run's folder and that is still there, each with its bytes on disk."""
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
