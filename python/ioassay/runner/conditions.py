"""The conditions that a trial's processes run under: policy, processors, niceness, limits of time and memory.

    with Hold(wanted, tag=…, timeout_s=…) as hold:
        process.run(…, on_held=hold.apply, on_ended=hold.ended)
    hold.warnings, hold.took_effect, hold.account

They are set on the child while it is held before its first instruction, so that all it starts inherits them, and read
back. What the host does not allow is a ConditionError: nothing ever runs under other conditions than were asked for.
Under a real-time policy a processor is left to the lab, and a watchdog on it ends the trial where the runner cannot.
Deliberately not here: settings of the whole host (`settings`), and what a trial becomes that cannot run (`trial`).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ioassay.errors import ConditionError, StudyError, ToolError
from ioassay.host import cgroup
from ioassay.host.block_devices import text_of
from ioassay.process import process_table, supervisor
from ioassay.records.record import Warning_
from ioassay.study.run_conditions import Conditions
from ioassay.units import format_processors, parse_processors

__all__ = ["Conditions", "Hold", "check", "leftovers", "rehearse", "remove_leftovers"]

_WATCHDOG_MARGIN_S = 4 * supervisor.GRACE_S
"""How long after a trial's timeout the runner may take to end it by itself."""
_LIKE = 0.01
"""Limits are rounded by the kernel, to pages and microseconds."""

leftovers, remove_leftovers = cgroup.leftovers, cgroup.remove_leftovers


class Hold:
    """A context for one trial: what its conditions need is made on entry and gone on exit, however that comes.

    `tag` marks the trial's processes, `timeout_s` is the trial's, `program` the name of what it runs. `warnings` says
    what is not quite as asked, `took_effect` what was read back, `account` what the limits did.
    """

    def __init__(
        self, wanted: Conditions, *, tag: str, timeout_s: float, program: str = "", margin_s: float = _WATCHDOG_MARGIN_S
    ) -> None:
        self.warnings: list[Warning_] = []
        self.took_effect: dict[str, str | int | float] = {}
        self.account: dict[str, int] = {}
        self._wanted, self._tag, self._after_s = wanted, tag, timeout_s + margin_s
        self._program = program
        self._stack = ExitStack()
        self._share = Share(None)
        self._group: cgroup.Group | None = None
        self._watchdog: supervisor.Watchdog | None = None
        self._memory: OutOfMemory | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._wanted:
                self._share = share(self._wanted)
                self.warnings += [self._share.warning] if self._share.warning else []
            if self._share.lab is not None:
                stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, self._share.lab)  # this thread, and what it starts
            if self._wanted.limits:
                self._group = cgroup.make(self._wanted)
                stack.callback(self._remove, self._group)
            self._memory = OutOfMemory(self._program)
            stack.callback(self._memory.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        if self._watchdog is not None and self._watchdog.fired:
            text = (
                f"its processes were ended by the watchdog {self._after_s:g} s after they began: the runner could not"
            )
            self.warnings.append(Warning_("watchdog-ended", text, "leave it more processors with run.affinity"))

    def apply(self, pid: int) -> None:
        """Set the conditions of a held child, and read them back. ConditionError: this host does not allow one."""
        if not self._wanted:
            return
        if self._group is not None:
            self._group.admit(pid)
        if self._share.lab is not None:
            watchdog = supervisor.watchdog(pid, self._tag, after_s=self._after_s, processors=self._share.lab)
            self._watchdog = self._stack.enter_context(watchdog)
        put(pid, self._wanted, self._share.load)
        try:
            self._verify(pid)
        except (ProcessLookupError, FileNotFoundError):
            raise ToolError(f"{self._wanted.text}: the process was ended before it began") from None

    def ended(self, pid: int) -> None:
        """Take the account of the limits, when the trial's processes have ended."""
        if self._group is not None:
            self.account = self._group.account()
        if self._memory is None or self.account.get("oom_kill"):
            return  # those of the trial's group are counted for the host as well
        self._memory.ended(pid)
        if self._memory.of_others:
            text = self._memory.of_others
            self.warnings.append(Warning_("host-out-of-memory", text, "free memory, and run the trial again"))

    @property
    def over_memory(self) -> str:
        """That the kernel ended processes of the trial for want of memory, for a record's reason; else empty."""
        if not (killed := self.account.get("oom_kill", 0)):
            return self._memory.of_trial if self._memory is not None else ""
        count = "a process" if killed == 1 else f"{killed} processes"
        return f"run.memory_limit = {self._wanted.memory_limit} bytes was reached, and the kernel ended {count}"

    def _verify(self, pid: int) -> None:
        self.took_effect |= effective_policy(pid)
        if self._group is not None:
            self.took_effect |= self._group.found()
            if pid not in self._group.members():
                text = f"{self._wanted.text}: the process is not in the group that was made for it"
                self.warnings.append(Warning_("condition-differs", text))
        load = format_processors(self._share.load) if self._share.load is not None else None
        for key, wanted in {**vars(self._wanted), "affinity": load}.items():
            seen = self.took_effect.get(key)
            if isinstance(wanted, int | float) and isinstance(seen, int | float):
                is_alike = abs(wanted - seen) <= _LIKE * abs(wanted)
            else:
                is_alike = wanted in (None, seen)
            if not is_alike:
                text = f"run.{key} = {wanted}: was set, and the kernel says {seen}"
                self.warnings.append(Warning_("condition-differs", text))

    def _remove(self, group: cgroup.Group) -> None:
        if strays := group.members():
            were = f"{len(strays)} processes were" if len(strays) > 1 else "a process was"
            text = f"{were} still in the trial's control group at its end, and ended by the lab"
            self.warnings.append(Warning_("processes-left-behind", text))
        try:
            group.remove()
        except OSError as error:
            self.warnings.append(Warning_("group-left", str(error), "ioassay doctor --restore"))


def check(wanted: Conditions) -> list[Warning_]:
    """What no host can do is a StudyError; what has no effect is a warning."""
    if wanted.real_time and wanted.cpu_limit is not None:
        # Documentation/scheduler/sched-bwc.rst: the quota is of the fair scheduler.
        why = f"limits normal policies only, and has no effect under run.scheduler = {wanted.scheduler}"
        raise StudyError(f"is {wanted.cpu_limit:g}; {why}: remove one of them", key="run.cpu_limit")
    processors = os.cpu_count() or 1
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    without_effect = wanted.real_time or wanted.scheduler == "idle"
    found = []
    if wanted.nice is not None and without_effect:
        text = f"run.nice = {wanted.nice} has no effect under run.scheduler = {wanted.scheduler} (sched(7))"
        found.append(Warning_("nice-unused", text, "remove it from the study"))
    if wanted.cpu_limit is not None and wanted.cpu_limit >= processors:
        text = f"run.cpu_limit = {wanted.cpu_limit:g} processors limits nothing: this host has {processors}"
        found.append(Warning_("limit-unused", text))
    if wanted.memory_limit is not None and wanted.memory_limit >= memory_bytes:
        text = f"run.memory_limit = {wanted.memory_limit} bytes limits nothing: this host has {memory_bytes}"
        found.append(Warning_("limit-unused", text))
    return found


def rehearse(wanted: Conditions) -> list[Warning_]:
    """Put a program that does nothing under the conditions: its warnings; ConditionError where the host refuses."""
    with Hold(wanted, tag="", timeout_s=10) as hold:
        nothing = Path(os.devnull)
        supervisor.run(["true"], stdout=nothing, stderr=nothing, timeout_s=10, on_held=hold.apply)
    return hold.warnings


# Scheduling policy, processors and niceness of one process: set, and read back as the kernel has them.

_NUMBERS = {
    "other": os.SCHED_OTHER,
    "fifo": os.SCHED_FIFO,
    "rr": os.SCHED_RR,
    "batch": os.SCHED_BATCH,
    "idle": os.SCHED_IDLE,
}
_MAY = "run as root (with sudo), allow it with 'ulimit -r' and 'ulimit -e', or give the container CAP_SYS_NICE"


@dataclass(frozen=True)
class Share:
    """Who runs where: processors of the load (None: not asked) and, under a real-time policy, of the lab."""

    load: frozenset[int] | None
    lab: frozenset[int] | None = None
    warning: Warning_ | None = None


def share(wanted: Conditions, root: Path = Path("/")) -> Share:
    """How a host's processors are shared; ConditionError where it lacks one that is asked for, or has none to leave."""
    allowed = frozenset(os.sched_getaffinity(0))
    asked = parse_processors(wanted.affinity) if wanted.affinity is not None else None
    online = parse_processors((root / "sys/devices/system/cpu/online").read_text().strip())
    if asked is not None and (absent := asked - online):
        raise ConditionError(
            f"run.affinity = {wanted.affinity}: this host has no processor {format_processors(absent)}; "
            f"it has {format_processors(online)}"
        )
    load = allowed if asked is None else asked
    if not wanted.real_time:
        return Share(asked)
    if lab := allowed - load:
        return Share(load, lab)
    spared = min(allowed)  # the first, which has most of the interrupts
    if not (rest := load - {spared}):
        raise ConditionError(
            f"run.scheduler = {wanted.scheduler}: under a real-time policy one processor is left to the runner, its "
            f"monitors and the watchdog, and it may run on processor {spared} only; expected a host with two or more"
        )
    kept = format_processors(rest)
    text = f"run.scheduler = {wanted.scheduler}: runs on {kept}, since processor {spared} is left to the lab"
    return Share(rest, frozenset({spared}), Warning_("affinity-narrowed", text, f"set run.affinity = '{kept}'"))


def put(pid: int, wanted: Conditions, load: frozenset[int] | None) -> None:
    """Set what is asked for; the policy last, so that nothing is done under it here. ConditionError: not allowed."""
    if load is not None:
        with _refused(
            f"run.affinity = {format_processors(load)}", "expected processors that the runner's own cpuset has"
        ):
            os.sched_setaffinity(pid, load)
    if wanted.nice is not None:
        with _refused(f"run.nice = {wanted.nice}", _MAY):
            os.setpriority(os.PRIO_PROCESS, pid, wanted.nice)
    if wanted.scheduler is not None:
        policy, _, priority = wanted.scheduler.partition(":")
        with _refused(f"run.scheduler = {wanted.scheduler}", _MAY):
            os.sched_setscheduler(pid, _NUMBERS[policy], os.sched_param(int(priority or 0)))


@contextmanager
def _refused(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConditionError(f"{what}: the kernel refused ({error.strerror}); {remedy}") from None


def effective_policy(pid: int) -> dict[str, str | int]:
    """What the kernel says of a process: scheduler, affinity and nice, in the spelling of a study."""
    number, priority = os.sched_getscheduler(pid), os.sched_getparam(pid).sched_priority
    name = next((name for name, known in _NUMBERS.items() if known == number), str(number))
    status = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    allowed = next(line.split()[1] for line in status if line.startswith("Cpus_allowed_list:"))
    return {
        "scheduler": f"{name}:{priority}" if priority else name,
        "affinity": allowed,
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
    }


# What the kernel's out-of-memory killer ended while a trial ran, outside of the trial's own control group. The kernel
# counts its victims for the whole host (/proc/vmstat) and names each in its log, which only root may read where
# kernel.dmesg_restrict is 1. A victim is taken for the trial's where it bears the name of the trial's program, or where
# that program itself was ended by SIGKILL. Any other makes the trial suspicious: the host was out of memory. Who
# exceeded the limit of a control group that the trial is not in is nobody of the trial's, whatever its name

_KILLED = re.compile(r"Killed process \d+ \((?P<name>.*?)\)(?:,| total-vm)")
"""mm/oom_kill.c, __oom_kill_process."""
_LIMIT = re.compile(r"oom-kill:constraint=CONSTRAINT_MEMCG,.*?,oom_memcg=(?P<group>/.*?),task_memcg=")
"""mm/oom_kill.c, dump_oom_victim: the control group whose limit was exceeded, before its victim is named."""
_FIRST_NAMESPACE = "cgroup:[4026531835]"
"""PROC_CGROUP_INIT_INO of include/linux/proc_ns.h: where paths of groups are those of the kernel's log."""
_RECORD_BYTES = 8192
"""No record of the log is longer (Documentation/ABI/testing/dev-kmsg)."""
_NAME_BYTES = 15
"""Of a program's name, which its children lengthen or keep (TASK_COMM_LEN of linux/sched.h, less its end)."""


class OutOfMemory:
    """Opened before a trial's program runs, asked when it has ended and is not reaped yet.

    `program` is its name where another one starts it (strace).
    """

    def __init__(self, program: str = "", root: Path = Path("/")) -> None:
        self._program, self._root = program, root
        self._before = self._killed()
        self._log = _opened(root / "dev/kmsg")
        self.of_trial = ""
        """That processes of the trial were ended, for a record's reason."""
        self.of_others = ""
        """That others were, or somebody of whom nobody can say."""

    def ended(self, pid: int) -> None:
        count = self._killed() - self._before
        own, names = _memory_group(self._root), []
        for name, group in self._victims():
            # Those whose group's limit, if one was exceeded, is one for our processes as well.
            if group is None or own is None or f"{own}/".startswith(f"{group.rstrip('/')}/"):
                names.append(name)
            else:
                count -= 1
        if count <= 0:
            return
        leader = text_of(self._root / f"proc/{pid}/comm")
        programs = tuple(name[:_NAME_BYTES] for name in (self._program, leader) if name)
        ours = [name for name in names if programs and name.startswith(programs)]
        status = process_table.status(pid, self._root)  # not reaped yet
        end = status.wait_status if status is not None else 0
        if ours or (os.WIFSIGNALED(end) and os.WTERMSIG(end) == signal.SIGKILL):
            self.of_trial = f"the host ran out of memory, and the kernel ended {_listed(ours or [leader])}"
        else:
            said = f" ({_listed(names)})" if names else ""
            were = "a process" if count == 1 else f"{count} processes"
            self.of_others = f"the host ran out of memory during the trial, and the kernel ended {were}{said}"

    def close(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _killed(self) -> int:
        """Victims since the host started; 0 where the kernel does not count them (before 4.13)."""
        lines = text_of(self._root / "proc/vmstat").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)

    def _victims(self) -> Iterator[tuple[str, str | None]]:
        """Victims since the log was opened: the name, and the control group whose limit was exceeded, if one was."""
        group = None
        while self._log is not None:
            try:
                record = os.read(self._log, _RECORD_BYTES)
            except BrokenPipeError:
                continue  # records were overwritten before they were read: the next is the oldest that is there
            except OSError:
                return
            if not record:
                return
            text = record.decode(errors="replace")
            if limit := _LIMIT.search(text):
                group = limit["group"]
            if victim := _KILLED.search(text):
                yield victim["name"], group
                group = None


def _opened(path: Path) -> int | None:
    """The kernel's log from its end on; None where this user may not read it."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        os.lseek(log, 0, os.SEEK_END)
    return log


def _memory_group(root: Path) -> str | None:
    """Path of the control group of this process, which the trial's group is or lies in; None where it is not known."""
    try:
        if str((root / "proc/self/ns/cgroup").readlink()) != _FIRST_NAMESPACE:
            return None
    except OSError:
        return None
    paths = cgroup.paths_of(root)
    return paths.get("memory", paths.get(""))


def _listed(names: list[str]) -> str:
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(name if count == 1 else f"{name} {count} times" for name, count in counts.items())
