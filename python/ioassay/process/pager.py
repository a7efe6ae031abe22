"""The user's pager, for a text that is longer than a terminal: that of $PAGER, else less.

What is shown, and where it goes when there is no pager, is the command line's business.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from types import FrameType

_DEFAULT = "less"
_LESS = "FRX"
"""For less, where the user sets nothing: a text of one screen ends it, and what was shown stays."""


def show(text: str) -> bool:
    """Show a text, and wait until the reader has left it; False where no pager can be started on this terminal.

    Ctrl-C is the pager's own.
    """
    try:
        words = shlex.split(os.environ.get("PAGER") or _DEFAULT)
    except ValueError:  # a quotation without an end
        return False
    if not words or os.environ.get("TERM", "dumb") == "dumb":
        return False
    before = signal.signal(signal.SIGINT, _leave_to_the_pager)
    try:
        subprocess.run(words, input=text.encode(), env={"LESS": _LESS, **os.environ}, check=False)
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def _leave_to_the_pager(number: int, frame: FrameType | None) -> None:
    """Nothing: a handler, unlike SIG_IGN, is not inherited (execve(2))."""
