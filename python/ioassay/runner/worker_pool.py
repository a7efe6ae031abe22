"""Executors for trials of pure drivers: worker processes of this machine, or this process itself.

Both are a `concurrent.futures.Executor`, and whoever uses them needs no more than that. Unlike the standard library's
ProcessPoolExecutor, a worker that dies takes nothing but its own call with it, cancelling ends what runs (a simulation
that never returns to Python included), and workers start without importing what this process has imported.
Which trial comes next, and what becomes of its result, is decided in `run`.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ioassay import units
from ioassay.errors import RunError, ToolError
from ioassay.process.piped_child import PipedChild
from ioassay.records.record import Warning_

if TYPE_CHECKING:
    from ioassay.host.machine import Machine

P = ParamSpec("P")
T = TypeVar("T")

MEMORY_SHARE = 0.8
"""Of the memory that is available, what workers may take together: the rest is for this process and the page cache."""
_STARTS = 3
"""How often a worker is started that ends before its first call: no trial is to blame, but memory may be short."""
_GRACE_S = 5.0
"""How long a worker whose pipe has closed may take to be gone: a large process is not unmapped at once."""


class WorkerLost(ToolError):
    """A worker process ended in the middle of a call, which had begun at `began_unix_s` and taken `lasted_s`."""

    def __init__(self, message: str, began_unix_s: float, lasted_s: float) -> None:
        super().__init__(message)
        self.began_unix_s = began_unix_s
        self.lasted_s = lasted_s


class NoWorker(RunError):
    """No worker process can be started."""


def processors() -> int:
    return len(os.sched_getaffinity(0))


def fitted(
    workers: int, needs_bytes: Sequence[int | None], machine: Machine | None = None
) -> tuple[int, list[Warning_]]:
    """How many of `workers` the memory has room for when each computes the largest trial; at least one."""
    from ioassay.host import system
    from ioassay.host.machine import Machine

    machine = machine or Machine()
    # What the kernel thinks available, at most what the control group allows.
    known = (system.memory(machine).get("available_bytes"), system.limits(machine).get("memory_bytes"))
    free_bytes = min((size for size in known if size is not None), default=None)
    largest_bytes = max((need or 0 for need in needs_bytes), default=0)
    if free_bytes is None or largest_bytes * workers <= MEMORY_SHARE * free_bytes:
        return workers, []
    room = max(int(MEMORY_SHARE * free_bytes // largest_bytes), 1)
    if room >= workers:
        return workers, []
    text = (
        f"{room} of {workers} workers are used: a trial takes up to {units.format_size(largest_bytes)} "
        f"and {units.format_size(free_bytes)} are available"
    )
    return room, [Warning_("fewer-workers", text, "free memory, or compute smaller trials")]


def executor(workers: int, tag: str) -> Executor:
    """Where to compute with so many workers; one is this process. `tag` marks the processes as a run's."""
    return Workers(workers, tag) if workers > 1 else InlineExecutor()


class InlineExecutor(Executor):
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Workers(ThreadPoolExecutor):
    """Computes in processes: each thread has one, and waits for it.

    A worker starts with its thread's first call. WorkerLost is the result of a call whose worker ended, and the next
    call gets a new one; NoWorker when none can be started. `relief` is the option that asks for less memory, if any.
    """

    def __init__(self, number: int, tag: str, relief: str = "--workers") -> None:
        super().__init__(number, "ioassay-worker")
        self._tag = tag
        self._relief = relief
        self._own = threading.local()
        self._lock = threading.Lock()
        self._started: set[PipedChild] = set()
        self._starters: set[threading.Thread] = set()
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return super().submit(self._ask, partial(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            with self._lock:
                self._closed = True
                for worker in self._started:
                    worker.kill()
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            for thread in list(self._starters):
                thread.join()  # which `super` does not, where a signal came before it had noted the thread
            for worker in list(self._started):
                self._end(worker)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.shutdown(cancel_futures=kind is not None)
        return None

    def _ask(self, call: Callable[[], Any]) -> Any:
        message = pickle.dumps(call)
        worker = self._worker()
        began_unix_s, began_s = time.time(), time.monotonic()
        try:
            worker.forget()
            worker.questions.write(message)
            worker.questions.flush()
            message = pickle.load(worker.answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            lasted_s = time.monotonic() - began_s
            raise WorkerLost(f"its worker process {self._lost(worker)}", began_unix_s, lasted_s) from None
        good, answer = pickle.loads(message)
        if not good:
            raise answer
        return answer

    def _worker(self) -> PipedChild:
        worker: PipedChild | None = getattr(self._own, "worker", None)
        isolated = "-I" if sys.flags.isolated else "-P"  # a file of the working directory must not shadow a module
        code = f"from ioassay.runner import worker; worker.serve({os.getpid()})"
        ends: list[str] = []
        while worker is None:
            if len(ends) == _STARTS:
                raise NoWorker(f"a worker process cannot start: it {ends[-1]}")
            with self._lock:
                if self._closed:
                    raise NoWorker("the pool of workers was closed")
                try:
                    worker = self._own.worker = PipedChild([sys.executable, isolated, "-c", code], self._tag)
                except (ToolError, OSError) as error:
                    relief = f"; {self._relief} 1 needs none" if self._relief else ""
                    raise NoWorker(f"a worker process cannot start: {error}{relief}") from None
                self._started.add(worker)
                self._starters.add(threading.current_thread())
            try:
                pickle.load(worker.answers)
            except (EOFError, OSError, pickle.UnpicklingError):
                ends.append(self._lost(worker))
                worker = None
        return worker

    def _lost(self, worker: PipedChild) -> str:
        self._own.worker = None
        status, said = worker.end(_GRACE_S), worker.said().strip()
        self._end(worker)
        how = f"ended with code {status}"
        if status == -signal.SIGKILL:
            hint = f"; {self._relief} N runs fewer at once" if self._relief else ""
            how = f"was ended by SIGKILL, as the kernel does when memory runs out (see dmesg){hint}"
        elif status < 0:
            how = f"was ended by signal {-status} ({signal.strsignal(-status)})"
        lines = said.splitlines()
        is_traceback = any(line.startswith("Traceback") for line in lines)  # whose last line says why
        return how + (f"; it said: {lines[-1 if is_traceback else 0]}" if lines else "")

    def _end(self, worker: PipedChild) -> None:
        worker.end()
        worker.close()
        with self._lock:
            self._started.discard(worker)
