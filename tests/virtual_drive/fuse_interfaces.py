"""What requests of a mounted file come through: /dev/fuse, or io_uring where the kernel can.

The kernel decides for each mount, by a parameter that root may change (Linux 6.14). Tests change it only where
`IOASSAY_REQUIRE` is set, as in continuous integration, and put it back. They hold a lock meanwhile. Another mount of
that moment uses io_uring, too, which no client notices.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PARAMETER = Path("/sys/module/fuse/parameters/enable_uring")
INTERFACES = ("/dev/fuse", "io_uring") if PARAMETER.exists() else ("/dev/fuse",)


@contextmanager
def enabled(interface: str) -> Iterator[None]:
    """New mounts use it meanwhile."""
    if interface != "io_uring":
        yield
        return
    with PARAMETER.open() as parameter:
        fcntl.flock(parameter, fcntl.LOCK_EX)
        before = parameter.read()
        if before.strip() != "Y":
            if not os.environ.get("IOASSAY_REQUIRE"):
                pytest.skip(f"FUSE over io_uring is not enabled; as root: echo Y > {PARAMETER}")
            PARAMETER.write_text("Y")
        try:
            yield
        finally:
            PARAMETER.write_text(before)
