"""The jobs of a batch system that were submitted for a run: which of them are left, and the log of one that ended.

dask-jobqueue submits and cancels jobs and asks after none, so that a run whose jobs all fail at once would wait for
workers indefinitely. The batch system is asked by its own command, whose output is read as its manual has it
(squeue(1) of Slurm, qstat(1) of PBS and Torque, bjobs(1) of LSF).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ioassay import debug_log
from ioassay.errors import ToolError
from ioassay.process import supervisor

_PATIENCE_S = 30.0
"""How long a busy controller may take to answer."""
_LONGEST_LINE = 200
_MOST_IDS = 4


@dataclass(frozen=True)
class _System:
    """How one batch system is asked."""

    command: Callable[[Sequence[str]], list[str]]
    """Of ids to the words that list their jobs."""
    line: re.Pattern[str]
    """A job in the output: its `id` and its `state`."""
    ended: frozenset[str]
    """States of jobs that are listed and have ended."""
    gone: re.Pattern[str]
    """What it writes of a job that it does not know any more. Any other failure says nothing about the jobs."""


_SYSTEMS: Mapping[str, _System] = {
    "slurm": _System(
        lambda ids: ["squeue", "--noheader", "--states=all", "--format=%i %T", f"--jobs={','.join(ids)}"],
        re.compile(r"^\s*(?P<id>\d+)\S* +(?P<state>\w+)", re.M),
        frozenset(
            {
                *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
                *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
            }
        ),
        re.compile(r"Invalid job id"),
    ),
    "pbs": _System(
        lambda ids: ["qstat", *ids],
        re.compile(r"^(?P<id>\d+)\S*\s.*\s(?P<state>[A-Z])\s+\S+\s*$", re.M),
        frozenset({"C", "F", "X"}),
        re.compile(r"Unknown Job Id|Job has finished"),
    ),
    "lsf": _System(
        lambda ids: ["bjobs", "-noheader", "-o", "jobid stat", *ids],
        re.compile(r"^\s*(?P<id>\d+) +(?P<state>\w+)", re.M),
        frozenset({"DONE", "EXIT"}),
        re.compile(r"is not found"),
    ),
}


@dataclass(frozen=True)
class SubmittedJobs:
    """Jobs by their ids, and the folder that their logs are in."""

    system: str
    """Of `executor_name.SYSTEMS`."""
    ids: Sequence[str]
    logs: Path

    @property
    def title(self) -> str:
        """How messages call them: `2 jobs (12, 13)`."""
        shown = [*self.ids[:_MOST_IDS], *(["…"] if len(self.ids) > _MOST_IDS else [])]
        return f"{len(self.ids)} job{'s' if len(self.ids) != 1 else ''} ({', '.join(shown)})"

    def left(self) -> Mapping[str, str] | None:
        """State by id of those that wait or run; None where the batch system does not say."""
        how = _SYSTEMS[self.system]
        try:
            answer = supervisor.capture(how.command(self.ids), timeout_s=_PATIENCE_S)
        except ToolError as error:
            debug_log.info("cluster", f"{self.system}: jobs cannot be asked for: {error}")
            return None
        said = f"{answer.stdout}\n{answer.stderr}"
        if answer.exit_code != 0 and not how.gone.search(said):
            debug_log.info("cluster", f"{self.system}: jobs cannot be asked for: {said.strip()[:_LONGEST_LINE]}")
            return None
        states = {match["id"]: match["state"] for match in how.line.finditer(answer.stdout)}
        return {id: state.lower() for id, state in states.items() if id in self.ids and state not in how.ended}

    def last_words(self) -> str:
        """What the log of one of them says last; where none says anything, that."""
        logs = [path for id in self.ids for path in sorted(self.logs.glob(f"*{id}*")) if path.is_file()]
        for path in sorted(logs, key=lambda path: path.suffix != ".err"):  # what it complained of, then all else
            lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
            if lines:
                return f"the log of one says: {lines[-1][:_LONGEST_LINE]}"
        return "their logs are empty"
