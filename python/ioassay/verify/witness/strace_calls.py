"""System calls by name, counted from strace's lines, whatever they are about.

Not told apart are calls of 32-bit programs: strace gives them their names and no sign.
"""

from __future__ import annotations

import re
from collections import Counter

from ioassay.verify.witness.strace_line import Call, Gone

_NUMBERED = re.compile(r"syscall_(0x[0-9a-f]+)")
_RESTORES = "rt_sigreturn"
"""What it returns is the result of the call that a signal interrupted."""


class ByName:
    """Fed with what `Lines` gives."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def see(self, event: Call | Gone) -> None:
        """One call that ended, or that its task never came back from."""
        call = event.during if isinstance(event, Gone) else event
        if call is None:
            return
        name = _NUMBERED.sub(lambda found: f"syscall_{int(found[1], 16) & 0xFFFFFFFF}", call.name)
        self.calls[name] += 1
        if (call.returned or 0) < 0 and name != _RESTORES:
            self.errors[name] += 1
