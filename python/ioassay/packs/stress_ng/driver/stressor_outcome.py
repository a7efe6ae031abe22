"""Was this a measurement? stress-ng exits with 0 where it skipped the stressor, and where it did nothing at all.

Exit statuses are those of stress-ng(1). `skipped` is what this machine, kernel or user cannot do, in stress-ng's words;
everything else that is no measurement is `failed`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ioassay import units
from ioassay.drivers.programs import ended_badly
from ioassay.packs.stress_ng.driver.stressor_parameters import PREFIX, Settings, about, hopeless, log_messages
from ioassay.records.record import FAILED, OK, SKIPPED, Warning_
from ioassay.roles import Outcome

_EXITS = {
    1: "refused its options or could not set itself up",
    2: "says that the stressor failed",
    3: "could not start the stressor for want of resources",
    4: "has not implemented the stressor for this machine",
    5: "says that a signal ended a worker",
    6: "says that a worker ended in an unexpected way",
    7: "says that its own counts cannot be trusted",
}
_NOT_HERE = (0, 1, 3, 4)
"""Statuses behind which may be something that cannot be had here; the words tell."""
_GAVE_UP = (3, 4)
_GRACE_S = 0.5
"""Starting many workers takes a moment of a run."""
_LONGEST_QUOTE = 300
_WORKER_STARTED = re.compile(r"started \[\d+\] \(instance (\d+)\)")
_WORKER_KILLED = re.compile(r"\[\d+\] (?:\(\S+\) )?terminated on signal:? (?P<number>\d+)")
"""`process [7] (cpu) terminated on signal: 9 (Killed)` of 0.15, `cpu: [7] terminated on signal 9 'SIGKILL'` of 0.19,
which counts such a worker as passed (presumably the OOM killer's, which some stressors provoke) and ends with 0."""


def judge(wanted: Settings, measured: Mapping[str, float] | None, outcome: Outcome, log: str) -> tuple[str, str]:
    """The status of a trial and the reason, '' where it is ok."""
    remedy = "raise run.timeout, or lower params.timeout"
    if reason := ended_badly(outcome, "stress-ng", remedy, lambda: _quoted(log)):
        return FAILED, reason
    code, worked = outcome.exit_code or 0, measured is not None and measured.get("bogo_ops", 0.0) > 0
    # On level `info` it states a fact of the machine; on `fail` and `error` it is about this very run.
    facts = log_messages(log, "info")
    own = about(wanted.stressor, facts)
    if not worked and code in _NOT_HERE and (why := hopeless([own]) or hopeless(facts)):
        return SKIPPED, f"stress-ng cannot do this here: {why}"
    if code in _GAVE_UP and "skipping stressor" in own:
        return SKIPPED, f"stress-ng cannot do this here: {own}"  # though some of its workers had begun
    if code == 4:
        return SKIPPED, f"stress-ng {_EXITS[4]}{_quoted(log)}"
    if code:
        meaning = _EXITS.get(code, "failed")
        return FAILED, f"stress-ng {meaning} (exit status {code}){_quoted(log, last=True)}"
    return _worked(wanted, measured, outcome, log)


def _worked(wanted: Settings, measured: Mapping[str, float] | None, outcome: Outcome, log: str) -> tuple[str, str]:
    if measured is None:
        return FAILED, f"stress-ng wrote no results of '{wanted.stressor}'{_quoted(log)}"
    if killed := next(filter(None, map(_WORKER_KILLED.search, log_messages(log, "debug"))), None):
        return FAILED, f"signal {killed['number']} ended a worker of '{wanted.stressor}': its counts are not whole"
    if measured.get("bogo_ops", 0.0) <= 0:
        return FAILED, f"'{wanted.stressor}' did no operation (0 bogo ops){_quoted(log)}"
    ran_s = measured.get("real_time", 0.0) or outcome.duration_s
    if wanted.timeout_s and not wanted.counted and ran_s < 0.9 * wanted.timeout_s - _GRACE_S:
        took = units.format_duration(ran_s)
        return FAILED, f"'{wanted.stressor}' ended after {took} of {wanted.timeout_s} s{_quoted(log)}"
    return OK, ""


def workers_started(log: str) -> int:
    """How many workers the log says were started (each has its number, also where it is started again)."""
    return len({started[1] for started in _WORKER_STARTED.finditer(log)})


def suspicions(wanted: Settings, measured: Mapping[str, float], workers: int, log: str) -> list[Warning_]:
    """What is odd about a good result."""
    found = []
    if wanted.workers and workers and workers < wanted.workers:
        text = f"{workers} of {wanted.workers} workers were started"
        found.append(Warning_("fewer-workers-started", text, "lower params.workers"))
    ran_s = measured.get("real_time", 0.0)
    if wanted.timeout_s and ran_s > 1.2 * wanted.timeout_s + 1:
        text = f"the workers ran for {units.format_duration(ran_s)} instead of {wanted.timeout_s} s"
        found.append(Warning_("over-run", text, "rates are over the time that they took"))
    notes = log_messages(log, "warn", "error", "fail")[:5]
    return [*found, *(Warning_("stress-ng-note", line[:_LONGEST_QUOTE]) for line in notes)]


def _quoted(log: str, last: bool = False) -> str:
    """The first lines of its complaints; options that it does not take are named without a prefix.

    `last`: where it complains of nothing, what it said last.
    """
    lines: Sequence[str] = list(dict.fromkeys(log_messages(log, "fail", "error", "warn")))  # workers complain alike
    if not lines:
        plain = (line.strip() for line in log.split("\n") if not PREFIX.match(line))
        lines = [line for line in plain if line and not line.startswith("Try '")]
    if not lines and last:
        lines = log_messages(log)[-1:]
    return f": {'; '.join(lines[:2])[:_LONGEST_QUOTE]}" if lines else ""


# Shared memory: the stressor `shm` (0.15.06) sometimes forgets objects, also where it ends in time. Each is memory that
# no process can use until it is removed (shm_overview(7)). An object is taken for one of a trial's only where its name
# is stress-ng's, the process in that name is gone, this user owns it, and it was changed since the trial began. Files
# that a stressor leaves in the target's folder go with that folder.

SHARED_MEMORY = Path("/dev/shm")
_NAME = re.compile(r"stress-ng-(\d+)-[0-9a-f]+-[0-9a-f]+")
"""Process, size or number, and a random number (stress-shm.c)."""


def remove_shared_memory(
    since_unix_s: float, folder: Path = SHARED_MEMORY, proc: Path = Path("/proc")
) -> list[Warning_]:
    """Remove what a trial that began at `since_unix_s` left in `folder`; a warning that says what it was."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    sizes_bytes = []
    for name in names:
        named, path = _NAME.fullmatch(name), folder / name
        if named is None or (proc / named[1]).exists():
            continue
        with suppress(OSError):
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_ctime >= since_unix_s:
                path.unlink()
                sizes_bytes.append(found.st_size)
    if not sizes_bytes:
        return []
    objects = f"{len(sizes_bytes)} object{'s' if len(sizes_bytes) > 1 else ''} of shared memory"
    text = f"stress-ng left {objects} ({units.format_size(sum(sizes_bytes))}) in {folder}; removed"
    return [Warning_("memory-left-behind", text)]
