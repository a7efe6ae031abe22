"""Signals: those by which a user ends a command, and those that a tool's processes mean for the parent they had.

SIGINT, SIGTERM and SIGHUP end a command at every instant in the same way: `listen` makes the first of them an
exception, `Signalled`, which unwinds what is under way. Those that follow while it unwinds raise nothing: a cleanup is
not torn apart by impatience, but whoever waits in it looks at `received` and waits no longer. The fifth ends the
process where it stands; those that wait for the end of this one (`supervisor.kill_orphans_after`, `if_killed`) clean
up then.

Python runs a handler in the main thread, between two of its instructions. A signal that arrives in the instant before
that thread begins to wait, or in another thread, is noted and does not end the wait, which may last for hours. A thread
that sleeps until a signal is noted (`signal.set_wakeup_fd`) then interrupts the main thread once more.

`process` adopts what a tool leaves behind. A program that tells its parent by kill(getppid(2), SIGALRM) that it ends,
as stress-ng's network stressors do, then tells us; and the default action of such a signal ends a process (signal(7)).
`ignore_terminal_signals` is about those.

It prints nothing, and is the first module of ours that a command imports: it may import nothing that takes time.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which a user, a service manager or a terminal that closes ends a command."""
STATUS = 130
_PATIENCE = 5
_SECOND_TRY_S = 0.01
_REMINDERS_S = (0.01, 0.05, 0.25, 1.0)
"""Pauses after which the main thread is interrupted again, where it has not answered a signal yet."""
_LOADING = ("ExtensionFileLoader.create_module", "ExtensionFileLoader.exec_module")
_BETWEEN_PROCESSES = (
    *(signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGIO, signal.SIGVTALRM, signal.SIGPROF),
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)


class Signalled(KeyboardInterrupt):
    """A user ends this process. Like KeyboardInterrupt it is no Exception, so that no library takes it for its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return sentence(self.number)


class _State:
    """What came so far, and for which process: a forked child has these handlers too until it is another program."""

    received: tuple[int, ...] = ()
    owner = 0
    lost = False


def listen() -> None:
    """From now on the first signal that ends a command raises Signalled in the main thread.

    Signals that are ignored stay so (nohup, a shell's background job). Those that a launcher has blocked until now are
    delivered here.
    """
    _State.owner = os.getpid()
    sys.unraisablehook = _unraisable
    signal.signal(signal.SIGALRM, _delivered_again)
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _arrived)
    noted, end = os.pipe()
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    threading.Thread(target=_remind, args=(noted,), name="ioassay-signals", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _remind(noted: int) -> None:
    """Interrupt the main thread where it waits on after a signal of ENDING was noted; ends with the process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    arrived = 0
    while numbers := os.read(noted, 64):
        arrived += sum(number in ENDING for number in numbers)
        for pause_s in _REMINDERS_S:
            time.sleep(pause_s)
            if len(_State.received) >= arrived:
                break
            signal.pthread_kill(main_thread, signal.SIGALRM)
        arrived = len(_State.received)  # what a forked child noted is none of ours


def ignore() -> None:
    """How the command ends is decided; no signal changes it any more."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def received() -> tuple[int, ...]:
    return _State.received


def sentence(number: int) -> str:
    return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"


def _arrived(number: int, frame: FrameType | None) -> None:
    if os.getpid() != _State.owner:
        os._exit(128 + number)  # a child that is not yet the program it was forked for; cleaning up is its parent's
    _State.received = (*_State.received, number)
    if _is_unwinding():
        if len(_State.received) >= _PATIENCE:
            os._exit(STATUS)
        return
    _raise(number, frame)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise Signalled, or a little later where an extension module loads: what that cannot import makes it panic.

    Of the initialisation of a module in C or Rust, Python sees its imports only.
    """
    while frame is not None:
        if frame.f_code.co_qualname in _LOADING and frame.f_code.co_filename.startswith("<frozen importlib"):
            _State.lost = True
            signal.setitimer(signal.ITIMER_REAL, _SECOND_TRY_S)
            return
        frame = frame.f_back
    raise Signalled(number)


def _is_unwinding() -> bool:
    """Whether what runs is a cleanup or a handler of such an exception."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    """An exception in a destructor or a callback, which Python can only print. One of ours is raised again, soon."""
    if isinstance(args.exc_value, Signalled):
        _State.lost = True
        signal.setitimer(signal.ITIMER_REAL, _SECOND_TRY_S)
    else:
        sys.__unraisablehook__(args)


def _delivered_again(number: int, frame: FrameType | None) -> None:
    if _State.lost and os.getpid() == _State.owner:
        _State.lost = False
        if not _is_unwinding():
            _raise(_State.received[-1], frame)


@contextmanager
def ignore_terminal_signals() -> Iterator[None]:
    """While this lasts, such signals do nothing to this process, unless it has a use for them itself.

    They have a handler, and are not ignored, because what is started meanwhile would inherit that (execve(2)). Python
    lets only its main thread set handlers, so that the C library is asked. One of its functions is the handler, which
    takes the signal's number, has no effect and may be called at any instant: abs(3).
    """
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    library.signal.argtypes, library.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    nothing = ctypes.cast(library.abs, ctypes.c_void_p)
    unused = [number for number in _BETWEEN_PROCESSES if signal.getsignal(number) is signal.SIG_DFL]
    for number in unused:
        library.signal(number, nothing)
    try:
        yield
    finally:
        for number in unused:
            # To ignore one for an instant discards what has not been delivered yet (sigaction(2), POSIX): the thread
            # that is to take it may wait for a processor, and would find the default action.
            library.signal(number, int(signal.SIG_IGN))
            library.signal(number, None)  # SIG_DFL
