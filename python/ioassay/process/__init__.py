"""Processes: how they are started, supervised, confined and ended, and which there are; and the user's pager."""

from __future__ import annotations


def show_in_pager(text: str) -> bool:
    """Show a text that is longer than a terminal in the pager ($PAGER, else less), and wait until the reader left it.

    False where no pager can be started on this terminal. Ctrl-C is the pager's own.
    """
    import os
    import shlex
    import signal
    import subprocess

    try:
        words = shlex.split(os.environ.get("PAGER") or "less")
    except ValueError:  # a quotation without an end
        return False
    if not words or os.environ.get("TERM", "dumb") == "dumb":
        return False
    # A handler that does nothing, unlike SIG_IGN, is not inherited (execve(2)).
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    # For less, where the user sets nothing: a text of one screen ends it, and what was shown stays.
    environment = {"LESS": "FRX", **os.environ}
    try:
        subprocess.run(words, input=text.encode(), env=environment, check=False)
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True
