"""What each network interface sent and received, from /proc/net/dev (of this network namespace)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import COUNTER, Field
from ioassay.monitors.procfs import ProcFile
from ioassay.monitors.text_monitor import TextMonitor, Texts

_COLUMNS = (
    "rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "rx_fifo_errors", "rx_frame_errors", "rx_compressed",
    "rx_multicast",
    "tx_bytes", "tx_packets", "tx_errors", "tx_dropped", "tx_fifo_errors", "tx_collisions", "tx_carrier_errors",
    "tx_compressed",
)  # fmt: skip
"""In the order of /proc/net/dev (proc_pid_net(5))."""

FIELDS: dict[str, Field] = {
    "rx_bytes": Field(COUNTER, "bytes", "received"),
    "rx_packets": Field(COUNTER, "packets", "received"),
    "rx_errors": Field(COUNTER, "packets", "received broken"),
    "rx_dropped": Field(COUNTER, "packets", "received and dropped"),
    "rx_fifo_errors": Field(COUNTER, "packets", "lost because the receive queue was full"),
    "rx_multicast": Field(COUNTER, "packets", "received that went to a group"),
    "tx_bytes": Field(COUNTER, "bytes", "sent"),
    "tx_packets": Field(COUNTER, "packets", "sent"),
    "tx_errors": Field(COUNTER, "packets", "that could not be sent"),
    "tx_dropped": Field(COUNTER, "packets", "dropped instead of sent"),
    "tx_fifo_errors": Field(COUNTER, "packets", "lost because the send queue was full"),
    "tx_collisions": Field(COUNTER, "packets", "that collided on the wire"),
    "tx_carrier_errors": Field(COUNTER, "packets", "lost for want of a carrier"),
}
_KEPT = tuple((index, name) for index, name in enumerate(_COLUMNS) if name in FIELDS)


class NetMonitor(TextMonitor):
    """Fields `<interface>.<field>`; the name of a VLAN's interface has a dot itself (`eth0.100.rx_bytes`)."""

    name = "net"

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__([ProcFile(root / "proc/net/dev")])

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading; an interface that went away is simply not in it."""
        reading: dict[str, float] = {}
        for line in texts[0].decode(errors="replace").splitlines()[2:]:
            # From the right: an alias such as eth0:1 has a colon in its name.
            interface, _, rest = line.rpartition(":")
            columns = rest.split()
            if len(columns) != len(_COLUMNS):
                continue
            for index, field in _KEPT:
                reading[f"{interface.strip()}.{field}"] = int(columns[index])
        return reading


def make(root: Path, devices: Sequence[str]) -> NetMonitor:
    """For `ioassay.monitors.monitor`."""
    return NetMonitor(root)
