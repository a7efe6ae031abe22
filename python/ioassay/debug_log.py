"""The debug log: what was decided and why, one line a decision, on standard error. Off by default (`--log-level`).

It is for those who look for a fault, in the program or in a study. Results and warnings never depend on it, and nothing
reads it back. The standard library's logging is imported when a level is set, so that a command that logs nothing
does not wait for it.
"""

from __future__ import annotations

from ioassay.errors import UsageError
from ioassay.hints import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from logging import Logger
    from typing import TextIO

LEVELS = ("off", "info", "debug")
"""Nothing; what was decided for the whole command; also what was decided for each trial, file and process."""

_logger: Logger | None = None


def enable(level: str, stream: TextIO) -> None:
    """Log from `level` on to `stream`, until the process ends; UsageError where there is no such level."""
    global _logger
    if level not in LEVELS:
        raise UsageError(f"--log-level is '{level}', expected {', '.join(LEVELS)}{nearest(level, LEVELS)}")
    if level == "off":
        _logger = None
        return
    import logging

    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("ioassay %(relativeCreated)7.0f ms %(levelname)-5s %(message)s"))
    _logger = logging.Logger("ioassay", level.upper())
    _logger.addHandler(handler)


def enabled() -> bool:
    """True if anything is logged."""
    return _logger is not None


def info(subject: str, text: str) -> None:
    """Log a decision about the whole command; `subject` is the room or the thing that it is about."""
    if _logger is not None:
        _logger.info("%s: %s", subject, text)


def debug(subject: str, text: str) -> None:
    """Log a decision about one trial, file or process."""
    if _logger is not None:
        _logger.debug("%s: %s", subject, text)
