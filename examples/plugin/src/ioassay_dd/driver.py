"""The driver dd: copies the target to /dev/null, or zeros to the target, in blocks of one size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ioassay import formats, units
from ioassay.errors import InputError, StudyError
from ioassay.metrics import Metric
from ioassay.records.record import FAILED, OK, Warning_
from ioassay.roles import READ, WRITE, Command, Driver, Estimate, Load, Outcome, Parsed, Tool, Touch, Trial

IOASSAY_API = 1
PARAMETERS = ("rw", "bs", "direct")
TIMEOUT_S = 600.0
USUAL_BYTES_PER_S = 2e8


class Dd(Driver):
    """Parameters: `rw` (read or write), `bs` (a size), `direct` (past the page cache, true by default)."""

    name = "dd"
    measures = True
    responses = ("dd.block_time",)
    metrics = (Metric("dd.block_time", "ns", "lower", "Time of a block", units.format_ns),)

    def tool(self) -> Tool | None:
        """That of GNU coreutils; direct I/O came with 6.0, the exact number of bytes is older."""
        return Tool("dd", ["dd", "--version"], (6, 0), "coreutils")

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Any version will do."""

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError names the parameter that is wrong."""
        for name in params:
            if name not in PARAMETERS:
                raise StudyError(f"no such parameter; expected {', '.join(PARAMETERS)}", key=f"params.{name}")
        if params.get("rw", "read") not in ("read", "write"):
            raise StudyError(f"is {params['rw']!r}; expected 'read' or 'write'", key="params.rw")
        if target.get("kind", "null") not in ("file", "device", "virtual"):
            raise StudyError("dd copies one file or device; expected kind = 'file'", key="target.kind")
        if block_bytes(params) < 1:
            raise StudyError("expected at least 1 byte", key="params.bs")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        """What is done to the target."""
        return WRITE if params.get("rw") == "write" else READ

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """Nothing but the target."""
        return ()

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """All of the target once, at the speed of a common disk."""
        size_bytes = units.parse_size(target.get("size", 0))
        return Estimate(size_bytes / USUAL_BYTES_PER_S + 0.1, size_bytes if params.get("rw") == "write" else 0)

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """None: it ends with the target."""
        return None

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """Whole blocks only, so that a file never grows."""
        size, writes = block_bytes(trial.params), trial.params.get("rw") == "write"
        files = ["if=/dev/zero", f"of={load.path}"] if writes else [f"if={load.path}", "of=/dev/null"]
        argv = ["dd", *files, f"bs={size}", f"count={load.size_bytes // size}", "conv=notrunc"]
        if trial.params.get("direct", True):
            argv.append("oflag=direct" if writes else "iflag=direct")
        return Command(argv, TIMEOUT_S, env={"LC_ALL": "C"})

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Failed unless dd says how much it copied; the claims are those that ioassay reads of any dd."""
        if outcome is None or outcome.timed_out:
            return Parsed(FAILED, "dd did not end in time")
        said = outcome.stderr.read_text(errors="replace")
        if outcome.status:
            return Parsed(FAILED, f"dd ended with status {outcome.status}: {said.strip()[-200:]}")
        writes = trial.params.get("rw") == "write"
        sides = ["if=/dev/zero", "of=target"] if writes else ["if=target", "of=/dev/null"]
        words = ["dd", *sides, f"bs={block_bytes(trial.params)}"]
        try:
            # Which path the target had is not told to `parse`, and dd opens nothing else.
            claims = [replace(claim, paths=(), paths_stated=False) for claim in formats.read(words, "", said)]
        except InputError as error:
            return Parsed(FAILED, str(error))
        copied = next((claim for claim in claims if claim.bytes and claim.seconds), None)
        if copied is None or not copied.bytes or not copied.seconds:
            return Parsed(FAILED, "dd does not say how much it copied")
        way = "write" if writes else "read"
        rate = copied.bytes / copied.seconds
        values = {f"{way}.bw": rate, "dd.block_time": block_bytes(trial.params) / rate * 1e9}
        return Parsed(OK, metrics=values, claims=claims)


def block_bytes(params: Mapping[str, Any]) -> int:
    """The size of a block; StudyError where it is none."""
    try:
        return units.parse_size(params.get("bs", "64KiB"))
    except (ValueError, TypeError) as error:
        raise StudyError(str(error), key="params.bs") from None
