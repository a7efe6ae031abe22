"""The driver db_bench: RocksDB's own benchmarks, in a database of the trial's own.

Parameters are db_bench's flags, as the installed version lists them (`parameters`). Results come from its output
(`claims`); `db_bench_outcome` decides whether they are a measurement. The target is a folder, in
which each trial has an empty one. Nothing is started here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.drivers.programs import require_version, text_of
from ioassay.errors import ConditionError, InputError, StudyError
from ioassay.packs.rocksdb import claims as db_bench_output
from ioassay.packs.rocksdb.driver import db_bench_outcome, parameters
from ioassay.packs.rocksdb.driver.parameters import Capabilities
from ioassay.records.record import FAILED, OK, Warning_
from ioassay.roles import WRITE, Command, Driver, Estimate, Load, Outcome, Parsed, Tool, Trial, short_s

MINIMUM = (6, 0)
PROGRAM = "IOASSAY_DB_BENCH"
"""The environment variable that names another db_bench than the first one in PATH. `./ioassay` sets it to what
setup/rocksdb.sh built."""
DATABASE = "db"
_NO_IO_URING = (
    "async_io: this db_bench was built without io_uring; setup/rocksdb.sh of ioassay's source builds one with it"
)
_LONGEST_FACTOR = 20


class DbBench(Driver):
    """Runs db_bench. Implements `roles.Driver`."""

    name = "db_bench"
    measures = True
    length_key = "num"

    def __init__(self) -> None:
        self._offer, self._program = Capabilities(), _program()

    def tool(self) -> Tool | None:
        """db_bench, with its flags and benchmarks."""
        asked = parameters.probes(self._program)
        return Tool(self._program, [self._program, "--version"], MINIMUM, "rocksdb-tools", asked)

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Take its version and flags; ToolError when it is another program or too old to be read."""
        # It says "version" after the name that its file has, which may be that of a build: db_bench-new.
        names = {"db_bench", Path(self._program).name}
        pattern = rf"^(?:{'|'.join(map(re.escape, names))}) version (\d+)\.(\d+)"
        asked, example = f"{self._program} --version", "a line such as db_bench version 7.8.3"
        require_version(version, pattern, MINIMUM, asked=asked, example=example, name="db_bench")
        self._offer = parameters.capabilities(probes)

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """Check one point; StudyError names the parameter. Flags are known after `configure`."""
        parameters.read(params, self._offer)
        if (kind := target.get("kind", "null")) == "virtual":
            if (form := target.get("form", "file")) != "folder":
                raise StudyError(
                    f"is '{form}'; db_bench makes a database in a folder: expected 'folder'", key="target.form"
                )
        elif kind != "folder":
            wanted = "expected 'folder', or 'virtual' with form = 'folder'"
            raise StudyError(f"is '{kind}'; db_bench makes a database in a folder: {wanted}", key="target.kind")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        """WRITE: also a benchmark that only reads makes a database."""
        return WRITE

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """From the number of operations."""
        wanted = parameters.read(params, self._offer)
        return Estimate(wanted.expected_s, wanted.written_bytes, occupied_bytes=wanted.occupied_bytes)

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """With a shorter `duration`, in whole seconds; None where the load ends after its operations."""
        wanted = parameters.read(params, self._offer)
        alone = len(wanted.benchmarks) == 1 and not wanted.prepare
        part_s = short_s(wanted.number("duration"), share, 1.0) if alone else None
        return None if part_s is None else {**params, "duration": int(part_s)}

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """db_bench with its histograms and statistics, and the trial's seed.

        ConditionError: it has no io_uring, and would run the load without it in silence.
        """
        wanted = parameters.read(trial.params, self._offer)
        if wanted.asynchronous and not self._offer.io_uring:
            raise ConditionError(_NO_IO_URING)
        place = (load.path or raw).absolute() / DATABASE
        asked = ["--histogram=1", f"--db={place}"]
        asked += [] if "statistics" in wanted.flags else ["--statistics=1"]
        longest_s = min(max(_LONGEST_FACTOR * wanted.expected_s, 600.0), parameters.LONGEST_S)
        if wanted.process_per_load:
            steps = wanted.steps(self._program, asked, trial.seed % 2**62 or 1)
            return Command.of_steps(steps, longest_s, place.parent, cold=wanted.cold_cache)
        asked += [] if "seed" in wanted.flags else [f"--seed={trial.seed % 2**63 or 1}"]
        return Command([self._program, *wanted.argv(), *asked], longest_s, cwd=place.parent)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Read its results; `failed`, with its own words, for everything that is no measurement."""
        if outcome is None:
            return Parsed(FAILED, "db_bench was not started")
        printed, said = text_of(outcome.stdout), text_of(outcome.stderr)
        try:
            wanted = parameters.read(trial.params, self._offer)
        except StudyError as error:
            return Parsed(FAILED, str(error))
        output, unread = db_bench_output.Output(()), ""
        try:
            outputs = _outputs(outcome, printed)
            output = db_bench_output.merged([one for _, one in outputs])
            measured = db_bench_outcome.metrics(output, wanted.measured)
            for name, one in outputs if outcome.steps else ():
                counted = db_bench_outcome.statistics(one.tickers) if name else {}
                measured |= {f"{name}.{key}": value for key, value in counted.items()}
            buckets = db_bench_outcome.buckets(output, wanted.measured)
        except InputError as error:
            measured, buckets, unread = {}, [], str(error)
        claims = db_bench_output.claims(output, wanted.argv()) if output.benchmarks else []
        status, reason = db_bench_outcome.judge(wanted, measured, outcome, said)
        if status != OK:
            silent = unread and ": " not in reason  # it left no words of its own
            return Parsed(FAILED, f"{reason}: {unread}" if silent else reason, claims=claims)
        own = {
            name: {key: value for key, value in measured.items() if key.startswith(f"{name}.")}
            for name in wanted.measured
        }
        return Parsed(
            OK,
            metrics=measured,
            buckets=buckets,
            parts=[{"name": name, "metrics": metrics} for name, metrics in own.items()],
            claims=claims,
            warnings=db_bench_outcome.suspicions(wanted, measured, output),
        )


def _program() -> str:
    """The db_bench to run. It is started in the folder of the database, so that a path must not be relative."""
    named = os.environ.get(PROGRAM) or "db_bench"
    return str(Path(named).absolute()) if "/" in named else named


def _outputs(outcome: Outcome, printed: str) -> list[tuple[str, db_bench_output.Output]]:
    """Of each process, with its step's name."""
    if not outcome.steps:
        return [("", db_bench_output.parse(printed))]
    encoded, begin, found = printed.encode(), 0, []
    for step in outcome.steps:
        text = encoded[begin : step.stdout_end].decode(errors="replace")
        begin = step.stdout_end
        if step.name or db_bench_output.CLAIMS.looks_like(text):
            found.append((step.name, db_bench_output.parse(text)))
    return found
