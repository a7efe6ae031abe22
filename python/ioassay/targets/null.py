"""The target that is nothing: for loads without storage, and to measure the lab itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ioassay.host.block_devices import ROOT
from ioassay.records.record import Warning_
from ioassay.roles import Consent, Footprint, Load, Trial
from ioassay.targets.target_table import Settings, read_settings


class NullTarget:
    """Nothing to inspect, to make or to give back."""

    kind = "null"

    def __init__(self, spec: Mapping[str, Any], consent: Consent, *, root: Path = ROOT) -> None:
        read_settings(Settings, spec)

    def inspect(self, access: str) -> Sequence[Warning_]:
        """Nothing can be wrong with nothing."""
        return ()

    def prepare(self, access: str, progress: Callable[[str, float], None]) -> Sequence[Warning_]:
        """Nothing to make."""
        return ()

    def footprints(self) -> Sequence[Footprint]:
        """None: nothing is stored."""
        return ()

    @contextmanager
    def load(self, trial: Trial) -> Iterator[Load]:
        """A load without a path."""
        yield Load(kind=self.kind, path=None, size_bytes=0, read_only=False)

    def close(self) -> None:
        """Nothing was taken."""

    def abandon(self) -> None:
        """Nothing was taken."""
