"""Remembers which devices were filled in full, so that the next study and a resumed run need not do it again.

A device has no place for a mark of ours: the load overwrites all of it. The note lies in /run, gone with the next start
of the machine, and names the medium by its diskseq; another disk in the same place does not inherit it. It only saves
time: no safety check reads it. What was discarded since (zeros where data should be) counts as not filled.
"""

from __future__ import annotations

import json
from pathlib import Path

from typing_extensions import TypedDict

from ioassay import validation
from ioassay.errors import InputError
from ioassay.host import block_devices
from ioassay.host.block_devices import Device
from ioassay.targets import content_signatures
from ioassay.validation import Count, Whole


class _Fill(TypedDict):
    diskseq: int | None
    size_bytes: Whole
    times: Count


STATE = Path("/run/ioassay/filled")
_DATA_SHARE = 0.99


def times(device: Device, size_bytes: int, state: Path = STATE) -> int:
    """How many times this medium was filled up to this size, 0 when that is not known."""
    try:
        note = validation.read(_Fill, _note(device, state).read_bytes(), "the note")
    except (OSError, InputError):
        return 0
    if note["diskseq"] != device.diskseq or device.diskseq is None or note["size_bytes"] < size_bytes:
        return 0
    node = block_devices.node_of(device)
    sample = content_signatures.content(node) if node is not None else None
    whole = sample is not None and (sample.places - sample.blank) >= _DATA_SHARE * sample.places
    return note["times"] if whole else 0


def note(device: Device, size_bytes: int, number: int, state: Path = STATE) -> None:
    """Remember a fill that has been flushed. Where nothing can be noted, the next study fills again."""
    path = _note(device, state)
    text = json.dumps({"diskseq": device.diskseq, "size_bytes": size_bytes, "times": number})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:
        path.unlink(missing_ok=True)


def _note(device: Device, state: Path) -> Path:
    return state / f"{device.number.major}-{device.number.minor}.json"
