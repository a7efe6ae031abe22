"""A guest that has this host's files, so that ioassay itself runs in it: read from here, written to the guest's memory.

One folder of the host is the guest's as well, for what is to be kept.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

KEPT = "/mnt"
"""Where the guest has that folder."""

_LATEST = "trans=virtio,version=9p2000.L,msize=512000"
"""What the kernel takes of the protocol's versions, and the largest message."""


def arguments(kept: Path) -> list[str]:
    """Of the machine."""
    share = "local,security_model=none,multidevs=remap"
    return [
        *("-nic", "none"),
        *("-virtfs", f"{share},path=/,mount_tag=host,readonly=on"),
        *("-virtfs", f"{share},path={kept},mount_tag=kept"),
    ]


def script(lines: str, folder: Path, environment: Sequence[str] = ()) -> str:
    """A guest's script that runs these lines of bash(1) there, from a folder of the host, as root."""
    variables = ["HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *environment]
    command = ["cd", str(folder)]
    return f"""
mkdir -p /host /memory /all
mount -t 9p -o {_LATEST},ro,cache=loose host /host
mount -t tmpfs memory /memory
mkdir /memory/changed /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/changed,workdir=/memory/work all /all
mount -t proc proc /all/proc
mount -t sysfs sys /all/sys
mount -t cgroup2 groups /all/sys/fs/cgroup
mount -t bpf bpf /all/sys/fs/bpf
mount -t tracefs tracing /all/sys/kernel/tracing
mount -t devtmpfs dev /all/dev
mkdir -p /all/dev/shm /all/dev/pts
mount -t devpts pts /all/dev/pts
mount -t tmpfs shm /all/dev/shm
mount -t tmpfs run /all/run
case {shlex.quote(str(folder))} in # elsewhere than there, what the guest writes is in memory as well
/tmp/*) ;;
*) mount -t tmpfs tmp /all/tmp ;;
esac
mount -t 9p -o {_LATEST} kept /all{KEPT}
for name in insmod rmmod; do # as busybox has them, where the host has no kmod
    [ -e /all/usr/sbin/$name ] || cp /bin/busybox /all/usr/local/sbin/$name
done
ip link set lo up
cat >/all/run/lines <<'END OF LINES'
set -eu
{shlex.join(command)}
{lines}
END OF LINES
env -i {shlex.join(variables)} chroot /all /bin/bash /run/lines
"""
