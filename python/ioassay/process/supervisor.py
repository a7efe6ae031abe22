"""The only place that starts processes: argument lists, own group, timeout, whole group ended.

A child can be held before its first instruction (`on_held`), so that monitors attach first and see everything, and
looked at when it has ended and is not reaped yet (`on_ended`): its whole account is in /proc until then.
A child dies with its runner: it asks the kernel for SIGKILL when the thread that started it ends. Its own children may
leave its group (fio's jobs do: each is a session) and outlive it: this process adopts them as their subreaper, and
`kill_orphans_after` ends them when this process is killed itself. They have `IOASSAY_TRIAL` in their environment.
A `watchdog` ends a trial whose runner cannot, because real-time processes leave it no time. What a killed runner would
leave that is no process is put back by `if_killed`, and a `temporary_folder` goes with it.
A child that is talked to while it runs is a `partner`. Nothing here goes through a shell or signals what others began.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ioassay import debug_log
from ioassay.errors import StartError, ToolError
from ioassay.process import landlock, process_table, signals

if TYPE_CHECKING:
    from ioassay.roles import Outcome

TRIAL_VARIABLE = "IOASSAY_TRIAL"
GRACE_S = 5.0
"""How long a group may take to end after SIGTERM before SIGKILL: fio writes its results within it."""
_LONGEST_PAUSE_S, _SHORTEST_PAUSE_S = 0.25, 0.01
"""Between two looks for adopted children that have ended: where there are some, there will be more."""

MEASUREMENT = threading.RLock()
"""Held by the thread that measures: one at a time in a process. Two loads would disturb each other, and what one tool
leaves behind could not be told from what the other does."""
OWN: set[int] = set()
"""Children that this package started and has not reaped yet. They are nobody's leftovers."""

PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
EXEC_FAILED = 127
_READY = b"r"


@dataclass(frozen=True)
class Captured:
    """A short command's result. `exit_code` is negative for a signal, None when it timed out."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool


def capture(argv: Sequence[str], *, timeout_s: float = 10.0, cwd: Path | None = None) -> Captured:
    """Run a short command and keep its output; ToolError when the program does not exist."""
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            cwd=cwd,
        )
    except OSError as error:
        raise ToolError(f"cannot start '{argv[0]}': {error.strerror}") from None
    OWN.add(child.pid)
    try:
        stdout, stderr = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end_group(child.pid)
        stdout, stderr = child.communicate()
        return Captured(None, stdout, stderr, True)
    except BaseException:
        _end_group(child.pid)
        child.wait()
        raise
    finally:
        OWN.discard(child.pid)
    return Captured(child.returncode, stdout, stderr, False)


def run(
    argv: Sequence[str],
    *,
    stdout: Path,
    stderr: Path,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_held: Callable[[int], None] | None = None,
    on_ended: Callable[[int], None] | None = None,
    stdin: int | None = None,
    outputs: tuple[int, int] | None = None,
    spare_daemons: bool = False,
    confine: landlock.Ruleset | None = None,
    must_end: Callable[[], str] | None = None,
    on_wait: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Run `argv` to its end or to `timeout_s`; its output goes to the two files.

    `on_held(pid)` is called while the child waits before its first instruction; the time counted starts after it.
    `on_ended(pid)` is called when it and its group have ended, and its number is still its own. `stdin` is a descriptor
    to read from, by default nothing; `outputs` are two to write to in place of the files, which then are not opened.
    `timeout_s` may be infinite. With `spare_daemons`, what left the group and outlives the program goes on when that
    has ended by itself; an exception ends it all the same. With `confine` the program and all that it starts may change
    only what the ruleset grants; the two files are opened before. `must_end` is asked a few times a second, and ends it
    by naming a reason; `on_wait` is called as often.
    Any exception, Ctrl-C included, ends the whole group before it goes on. ToolError: the program cannot be started.
    Calls of several threads wait for each other.
    """
    from ioassay.roles import Outcome

    env = {**os.environ, **(env or {})}
    become = partial(_become, argv, stdin, outputs or (stdout, stderr), cwd, env, confine)
    tag = env.get(TRIAL_VARIABLE, "")
    with MEASUREMENT, signals.ignore_terminal_signals(), _adopting():
        own, told = frozenset(process_table.foster_children()), False
        child = _Held.start(argv[0], become)
        try:
            if on_held is not None:
                on_held(child.pid)
            # It has started nothing yet: what comes later is adopted.
            own, told = frozenset(process_table.foster_children()), True
            started_unix_s, started_s = time.time(), clock()
            child.release(argv[0])
            ended, ended_for = _has_ended(child.pid, timeout_s, own, must_end, on_wait)
            duration_s = clock() - started_s
            if not ended:
                _end_group(child.pid)
            # Not reaped before its group has been looked at: until then nobody else gets its number.
            leftovers = process_table.members(child.pid)
            if leftovers:
                _end_group(child.pid)
            if on_ended is not None:
                on_ended(child.pid)
            _, status, usage = os.wait4(child.pid, 0)
            _reap_group(child.pid)
            leftovers += _end_adopted("" if spare_daemons else tag, own, told)
        except BaseException:
            try:  # and at once where that is interrupted too
                _end_group(child.pid)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(child.pid, 0)
                _reap_group(child.pid)
                _end_adopted(tag, own, told)
            raise
        finally:
            child.close()
    debug_log.debug("process", f"{child.pid} ended: {argv[0]}")
    return Outcome(
        exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        timed_out=not ended and not ended_for,
        started_unix_s=started_unix_s,
        duration_s=duration_s,
        stdout=stdout,
        stderr=stderr,
        leftovers=leftovers,
        ended_for=ended_for,
        usage=usage,
        unconfined=os.strerror(child.refusal) if child.refusal else "",
    )


@dataclass(frozen=True)
class _Held:
    """A child between fork and exec: it waits for one byte on `go`, and says on `failure` why exec failed.

    Before it waits it says there that it is ready: nothing but the wait is left to be done before the program is its
    own, so that who watches it from then on sees the program and not us.
    """

    pid: int
    go: int
    failure: int
    refusal: int  # errno of the kernel that did not confine it; 0 where it did

    @classmethod
    def start(cls, program: str, become: Callable[[int, int], NoReturn]) -> _Held:
        wait_end, go = os.pipe()
        failure, failure_end = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(EXEC_FAILED)
                os.close(go)
                become(wait_end, failure_end)
            except OSError as error:
                os.write(failure_end, f"{error.errno}".encode())
            finally:
                os._exit(EXEC_FAILED)
        with suppress(OSError):
            os.setpgid(pid, pid)  # in both processes: whichever comes first wins
        os.close(wait_end)
        os.close(failure_end)
        first = os.read(failure, 2)
        if not first.startswith(_READY):
            os.close(go)
            number = first + os.read(failure, 16)
            os.close(failure)
            os.waitpid(pid, 0)
            reason = os.strerror(int(number)) if number else "its process ended before it began"
            raise ToolError(f"cannot start '{program}': {reason}")
        return cls(pid, go, failure, first[1])

    def release(self, program: str) -> None:
        """Let the child go; ToolError when the program could not be started, or was ended before."""
        try:
            os.write(self.go, b"g")
        except BrokenPipeError:
            raise ToolError(f"cannot start '{program}': its process was ended before it began") from None
        if reason := os.read(self.failure, 16):
            raise StartError(program, int(reason))

    def close(self) -> None:
        os.close(self.go)
        os.close(self.failure)


def _become(
    argv: Sequence[str],
    stdin: int | None,
    outputs: Sequence[Path | int],
    cwd: Path | None,
    env: Mapping[str, str],
    confine: landlock.Ruleset | None,
    wait_end: int,
    ready_end: int,
) -> NoReturn:
    """In the child: redirect, confine, wait for the word, become the program. All other descriptors close then."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    opened = [os.open(each, flags, 0o644) if isinstance(each, Path) else each for each in outputs]
    if stdin != 0:
        os.dup2(os.open("/dev/null", os.O_RDONLY) if stdin is None else stdin, 0)
    for number, descriptor in enumerate(opened, start=1):
        os.dup2(descriptor, number)
    if cwd is not None:
        os.chdir(cwd)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
        signal.signal(number, signal.SIG_DFL)
    os.write(ready_end, _READY + bytes([confine.enter() if confine is not None else 0]))
    if not os.read(wait_end, 1):
        os._exit(EXEC_FAILED)  # the runner is gone
    os.execvpe(argv[0], list(argv), dict(env))


def _has_ended(
    pid: int,
    timeout_s: float,
    own: frozenset[int],
    must_end: Callable[[], str] | None,
    on_wait: Callable[[], None] | None,
) -> tuple[bool, str]:
    """Whether `pid` ended within `timeout_s`, and the reason why it has to end before.

    It is left to be reaped, what was adopted meanwhile is not.
    """
    pidfd = os.pidfd_open(pid)
    give_up_s, pause_s = time.monotonic() + timeout_s, _LONGEST_PAUSE_S
    try:
        while True:
            left_s = give_up_s - time.monotonic()
            ready, _, _ = select.select([pidfd], [], [], max(0.0, min(left_s, pause_s)))
            if ready or left_s <= pause_s:
                return bool(ready), ""
            if must_end is not None and (reason := must_end()):
                return False, reason
            if on_wait is not None:
                on_wait()
            pause_s = _SHORTEST_PAUSE_S if _reap_adopted(own) else min(2 * pause_s, _LONGEST_PAUSE_S)
    finally:
        os.close(pidfd)


@contextmanager
def _adopting() -> Iterator[None]:
    """While this lasts, this process gets the children of its descendants that end (prctl(2)); then as before.

    A program that uses this one, such as a notebook, does not expect to become the parent of daemons.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    before = ctypes.c_int()
    prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def adopted(own: Iterable[int]) -> list[int]:
    """Children, ended ones too, that became this process's when their parent ended; none of `own`.

    The kernel gives them to the main thread. Where another thread measures, the main one may start processes of its own
    meanwhile: those stay in its process group, or have an environment of ours without the tag of a trial.
    """
    found = sorted(process_table.foster_children() - OWN - set(own))
    if threading.current_thread() is threading.main_thread():
        return found
    inherited = {name + b"=" + value for name, value in os.environb.items()}

    def is_of_caller(pid: int) -> bool:
        """Whether the program that uses this package seems to have started it; of an ended one only the group tells."""
        seen = process_table.group_and_session(pid)
        if seen is not None and seen[0] == os.getpgrp():
            return True
        environment = set(process_table.environment(pid))
        tagged = any(entry.startswith(os.fsencode(f"{TRIAL_VARIABLE}=")) for entry in environment)
        return bool(environment & inherited) and not tagged

    return [pid for pid in found if not is_of_caller(pid)]


def _reap_adopted(own: frozenset[int]) -> int:
    """Reap those children that were adopted and have ended; how many. Elsewhere init does it, at once.

    Without that, a tool that makes daemons would soon have used up the process numbers of the machine.
    """
    reaped = 0
    for pid in adopted(own):
        with suppress(ChildProcessError):
            reaped += os.waitpid(pid, os.WNOHANG)[0] == pid
    return reaped


def _reap_group(group: int) -> None:
    """Reap what this process adopted of a group that has been ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass


def _end_group(group: int) -> None:
    """SIGTERM, a while of grace, then SIGKILL, for every process of a group that was started here.

    Another signal of a user who is waiting for that ends the grace.
    """
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        os.killpg(group, signal.SIGCONT)  # what is stopped ends only then
    deadline_s, came = time.monotonic() + GRACE_S, signals.received()
    while time.monotonic() < deadline_s and signals.received() == came and process_table.members(group):
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _end_adopted(tag: str, own: frozenset[int], told: bool) -> tuple[int, ...]:
    """End the children that became ours when their parent ended, and what they start meanwhile; their ids.

    With `told`, all that is not in `own` was adopted, and is the tool's: stress-ng, for one, writes its name over its
    environment, so that the tag is gone. Else those are ended that carry the tag; without a tag, none.
    What ended by itself is reaped: each of these may have started another one, which is ours then.
    """
    # Where there are no lists, `kill_orphans_after` ends them, or the next run.
    ended: list[int] = []
    give_up_s, changing = time.monotonic() + GRACE_S, True
    while changing and time.monotonic() < give_up_s:
        others = adopted(own)
        found = [pid for pid in others if tag and (_end_child(pid) if told else _end_tagged(pid, tag))]
        signalled = bool(tag) and told and _end_sessions(others)
        for pid in found:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        ended += found
        left = filter(None, map(process_table.status, others))
        is_ending = any(
            process.virtual_bytes == 0 for process in left
        )  # it has given back its memory, and tells nothing
        changing = bool(found) or _reap_adopted(own) > 0 or is_ending
        if signalled and not changing:  # on a busy machine a killed process may wait for its turn to end
            time.sleep(_SHORTEST_PAUSE_S)
            changing = True
    return tuple(ended)


def _end_sessions(adopted: Iterable[int]) -> bool:
    """SIGKILL for the groups of those that have a session of their own: it holds nothing but what they started.

    A daemon that forks faster than it is found is caught so: no fork gets past a signal to the whole group. Whether
    there was such a group; until what it held is reaped, the answer stays the same.
    """
    signalled = False
    for group, session in set(filter(None, map(process_table.group_and_session, adopted))):
        if session != os.getsid(0):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
                signalled = True
    return signalled


def _end_child(pid: int) -> bool:
    """SIGKILL for a living child, whose number is its own until it is reaped here."""
    if process_table.group_of(pid) is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return True


@contextmanager
def kill_orphans_after(trial_tag: str, undo: Callable[[], None] = lambda: None, *kept: int) -> Iterator[None]:
    """While this lasts, another process waits for the end of this one and then ends what carries the tag.

    Without it a SIGKILL of the runner would leave fio's jobs writing to a device that nobody claims any more.
    Where this one was killed, it calls `undo` once they have ended. Descriptors `kept`, such as a lock, stay open in it
    until it is done: else it would end what the next runner starts under the same tag.
    """

    def duty(waiting: int) -> None:
        killed = _was_killed(waiting)
        end_orphans(trial_tag)
        if killed:
            undo()

    with _guardian(duty, *kept):
        yield


@contextmanager
def if_killed(undo: Callable[[], None], *, terminal: int | None = None) -> Iterator[None]:
    """While this lasts, another process waits for the end of this one; where this one is killed, it calls `undo`.

    For what outlives a process and is none: mounts, folders, kernel modules. Who leaves by himself puts back himself.
    `undo` runs while `kill_orphans_after` ends the trial's processes, so that what these use is free only soon.
    With `terminal`, it is about that descriptor of our terminal, which only processes of our session may change.
    """
    kept = () if terminal is None else (terminal,)
    with _guardian(lambda waiting: undo() if _was_killed(waiting) else None, *kept, in_session=terminal is not None):
        yield


@contextmanager
def temporary_folder(
    prefix: str, within: Path | None = None, clear: Callable[[Path], None] | None = None
) -> Iterator[Path]:
    """A new folder of ours alone, which `clear` takes away in the end, also where this process is killed.

    That is promised before the folder is there, so that no kill leaves it behind. OSError: it cannot be made.
    """
    import shutil
    import tempfile

    above = Path(tempfile.gettempdir()) if within is None else within
    made = above.absolute() / f"{prefix}{os.urandom(4).hex()}"
    undo = partial(clear, made) if clear else partial(shutil.rmtree, made, ignore_errors=True)
    with if_killed(undo):
        made.mkdir(mode=0o700)
        try:
            yield made
        finally:
            undo()


@dataclass
class Watchdog:
    """What became of a `watchdog`: `fired` says, after its end, that it ended the trial."""

    fired: bool = False


@contextmanager
def watchdog(child: int, trial_tag: str, *, after_s: float, processors: Iterable[int]) -> Iterator[Watchdog]:
    """While this lasts, a process of highest priority on `processors` ends child, group and tagged processes after
    `after_s`, or at once when this process is gone. Its processors are to be others than those of the child.
    """
    leader = os.pidfd_open(child)

    def duty(waiting: int) -> bool:
        os.sched_setaffinity(0, processors)
        with suppress(OSError):  # nothing of real-time priority is expected there, so it runs without it too
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
        ready, _, _ = select.select([waiting], [], [], None if math.isinf(after_s) else after_s)
        if ready and not _was_killed(waiting):
            return False
        with suppress(OSError):
            signal.pidfd_send_signal(leader, signal.SIGKILL)
            os.killpg(child, signal.SIGKILL)  # only while its leader is not reaped, so that it is still that group
        if trial_tag:
            with suppress(OSError):
                end_orphans(trial_tag)
        return True

    try:
        with _guardian(duty, leader) as state:
            yield state
    finally:
        os.close(leader)


@contextmanager
def _guardian(duty: Callable[[int], bool | None], *kept: int, in_session: bool = False) -> Iterator[Watchdog]:
    """Another process does its duty, which gets a descriptor to wait on for the end of this; whether it fired.

    It is out of reach of the terminal's signals, and keeps nothing open but that descriptor and those `kept`.
    """
    state = Watchdog()
    waiting, open_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        fired: bool | None = False
        try:
            if in_session:
                os.setpgid(0, 0)
            else:
                os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU):
                signal.signal(number, signal.SIG_IGN)
            os.chdir("/")
            close_all_but(waiting, *kept)
            fired = duty(waiting)
        finally:
            os._exit(1 if fired else 0)
    OWN.add(pid)
    os.close(waiting)
    try:
        yield state
    finally:
        with suppress(BrokenPipeError):
            os.write(open_end, b"d")
        os.close(open_end)
        _, status = os.waitpid(pid, 0)
        OWN.discard(pid)
        state.fired = os.waitstatus_to_exitcode(status) == 1


def _was_killed(waiting: int) -> bool:
    """Wait for the end of what is guarded; whether its process was killed: the last copy of the other end is closed."""
    return not os.read(waiting, 1)


def close_all_but(*kept: int) -> None:
    """Keep no pipe of the runner open, or who reads its output would wait for this process too; nor its locks."""
    first = 0
    for descriptor in sorted(kept):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def end_processes(pids: Iterable[int]) -> None:
    """SIGKILL for members of a trial's own control group, which only that trial's processes are in."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        for pid in pids:
            os.waitpid(pid, os.WNOHANG)


def end_orphans(trial_tag: str) -> list[int]:
    """End processes that a killed runner left behind, and what they start meanwhile: all that carry its tag."""
    ended: dict[int, None] = {}
    deadline_s = time.monotonic() + GRACE_S
    while found := [pid for pid in process_table.everyone() if pid != os.getpid() and _end_tagged(pid, trial_tag)]:
        ended.update(dict.fromkeys(found))
        while time.monotonic() < deadline_s and any(process_table.group_of(pid) is not None for pid in found):
            time.sleep(0.01)
        if time.monotonic() > deadline_s:
            break
    return list(ended)


def _end_tagged(pid: int, tag: str) -> bool:
    """SIGKILL for a process that carries the tag, and for no other that may get its number meanwhile."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if os.fsencode(f"{TRIAL_VARIABLE}={tag}") not in process_table.environment(pid):
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True
