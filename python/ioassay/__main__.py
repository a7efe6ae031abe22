"""`python -m ioassay`: the command line, from its first instant to its exit status.

What takes time is imported after the handlers of signals are there. The process ends by os._exit: when all is said,
nothing that Python does while it takes itself apart may change how the command ended.
"""

from __future__ import annotations

import gc
import os
import sys

from ioassay import GC_THRESHOLD
from ioassay.process import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


_STDERR = 2
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")


def main() -> NoReturn:
    """Run the command line and end with its exit status: 130, with a sentence, where a signal ends it."""
    code = None
    gc.set_threshold(GC_THRESHOLD)
    try:
        _fill_closed_streams()
        signals.listen()
        _search_system_folders()
        from ioassay import cli

        code = cli.run(sys.argv[1:])
        signals.ignore()
    except BaseException as error:
        signals.ignore()
        if code is None:
            code = _interrupted(error)
    os._exit(code)


def _fill_closed_streams() -> None:
    """Open what the caller closed of the three streams on /dev/null: no other file of ours may get their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)


def _search_system_folders() -> None:
    """Find wipefs, losetup and mkfs also where a user's PATH leaves out their folders, as Debian's does."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*path, *(folder for folder in _SYSTEM_FOLDERS if folder not in path)])


def _interrupted(error: BaseException) -> int:
    """The status after an exception that the command line did not answer itself, because a signal came in between."""
    if not signals.received():
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    try:
        sys.stdout.flush()
        os.write(2, f"ioassay: {signals.sentence(signals.received()[0])}\n".encode())
    except (OSError, ValueError, AttributeError):
        pass  # nobody is there to read it
    return signals.STATUS


if __name__ == "__main__":
    main()
