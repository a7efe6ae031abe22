"""The study of `ioassay replay`: a trace on one target, or on several beside each other.

Targets are paths, whose kind is what lies there, and described drives, which are served. Several are cases, so that the
answer is which of them serves the trace better. Nothing here is touched: the run examines its targets as every run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.api.study import Study
from ioassay.errors import StudyError, UsageError
from ioassay.factors import CASE
from ioassay.hints import nearest
from ioassay.packs.replay import driver
from ioassay.packs.replay.driver import FAST, LATENESS, TIMED, Facts
from ioassay.simulation import drive_files
from ioassay.study import catalog

QUICK, FULL = "quick", "full"
_QUICK_S, _REPETITIONS = 10, {QUICK: 3, FULL: 5}
_ALIGN_BYTES = 2**20
"""Targets that are made have whole MiB."""
_SHOWN = (
    *("total.lat.p99", f"{LATENESS}.p99", "total.lat.p50", "total.lat.p99.9"),
    *("read.lat.p99", "write.lat.p99", "sync.lat.p99"),
)
"""The first decides which target is better."""


@dataclass(frozen=True)
class Replayed:
    """What a command asks for; `params` are those of the driver that are given."""

    trace: str
    targets: Sequence[Path] = ()
    drives: Sequence[str] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    speeds: Sequence[float] = (1.0,)
    repetitions: int | None = None
    scale: str = FULL
    makes: bool = False
    """Whether files that are not there are made, as large as the trace reaches."""

    def study(self) -> Study:
        """The study. UsageError for what is not there, StudyError for what cannot be replayed."""
        if not self.targets and not self.drives:
            raise UsageError("no target is given; expected --target FILE or DEVICE, or --drive NAME for a served drive")
        if self.scale not in _REPETITIONS:
            known = ", ".join(_REPETITIONS)
            raise UsageError(f"--scale {self.scale}: expected one of {known}{nearest(self.scale, _REPETITIONS)}")
        params: dict[str, Any] = {"trace": self.trace, "direct": True, **self.params}
        if self.scale == QUICK:
            params.setdefault("duration", f"{_QUICK_S}s")
        if len(self.speeds) == 1 and self.speeds[0] != 1.0:
            params["speed"] = self.speeds[0]
        fastest = {**params, "speed": max(self.speeds)} if params.get("pace", TIMED) != FAST else params
        seen = driver.facts(driver.read(fastest))
        cases = self._cases(seen, mapped=driver.read(fastest).is_mapped)
        several, fast = len(cases) > 1, params.get("pace") == FAST
        table: dict[str, Any] = {
            "name": "replay",
            "title": f"Which target serves {_named(self.trace)} better?"
            if several
            else f"How is {_named(self.trace)} served?",
            "description": _about(seen, fast=fast),
            "driver": "replay",
            "repetitions": self.repetitions or _REPETITIONS[self.scale],
            "params": params,
            "watch": {"monitors": ["cpu", "disk"]},
            "analysis": {
                "responses": [name for name in _SHOWN if not (fast and name.startswith(LATENESS))],
                **({"lead": "choice"} if several else {}),
            },
            "figures": [
                {
                    "kind": "cdf",
                    "name": f"replay_{kind}",
                    "direction": "total",
                    "latency": kind,
                    **({"color": CASE} if several else {}),
                }
                for kind in ("lat", "clat")
            ],
        }
        if several:
            table["case"] = cases
            table["target"] = {"kind": cases[0]["target.kind"]}
        else:
            table["target"] = {key.removeprefix("target."): value for key, value in cases[0].items() if key != "name"}
        if len(self.speeds) > 1:
            table["factors"] = {"speed": list(self.speeds)}
        return Study.of_suite(catalog.from_table(table, Path("replay.toml")))

    def _cases(self, seen: Facts, *, mapped: bool) -> list[dict[str, Any]]:
        """A case a target, with its settings as keys of cases."""
        found = [self._path(path, seen, mapped=mapped) for path in self.targets]
        found += [_served(name, seen) for name in self.drives]
        names = [case["name"] for case in found]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"{doubled} is given twice, expected each target once")
        return found

    def _path(self, path: Path, seen: Facts, *, mapped: bool) -> dict[str, Any]:
        if path.is_dir():
            raise UsageError(f"--target {path}: a folder; expected a file in it, such as {path / 'replay.dat'}")
        if not path.exists() and not self.makes:
            size = units.format_size(_rounded(seen.end_bytes))
            raise UsageError(f"--target {path}: no such file; --make makes one of {size}, as far as the trace reaches")
        own = {
            "name": str(path),
            "target.kind": "device" if path.is_block_device() else "file",
            "target.path": str(path),
        }
        size_bytes = driver.target_bytes({"path": path})
        if size_bytes is None:
            return {**own, "target.size": _rounded(seen.end_bytes)}
        if not mapped and (problem := driver.beyond(seen, size_bytes)):
            raise StudyError(f"{self.trace} {problem}", source=f"--target {path}")
        # No more of it is filled and checked than what the trace reaches.
        return {**own, "target.size": size_bytes if mapped else min(_rounded(seen.end_bytes), size_bytes)}


def _served(name: str, seen: Facts) -> dict[str, Any]:
    """A described drive, just large enough, each page written once, so that reads come from flash."""
    drive_files.load(name)
    served = {"kind": "virtual", "drive": name, "size": _rounded(seen.end_bytes), "precondition": "full"}
    return {"name": name, **{f"target.{key}": value for key, value in served.items()}}


def _rounded(size_bytes: int) -> int:
    return max(-(-size_bytes // _ALIGN_BYTES), 1) * _ALIGN_BYTES


def _named(trace: str) -> str:
    return Path(trace).name


def _about(seen: Facts, *, fast: bool) -> str:
    requests, span = f"{seen.requests:,} requests", units.format_duration(seen.span_s)
    how = "as fast as their order allows" if fast else f"each at its own time of {span}, whatever is outstanding"
    return f"{requests} are issued {how}."
