"""The captured outputs in tests/golden/fio (made by its capture.py), as the driver would find them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from ioassay.drivers.fio import Fio
from ioassay.roles import Outcome, Parsed, Trial

FIO = Path(__file__).parents[1] / "golden" / "fio"


@dataclass(frozen=True)
class Golden:
    """The captured outputs of one version of fio."""

    folder: Path

    def text(self, name: str) -> str:
        """What fio wrote."""
        return (self.folder / name / "fio.json").read_text()

    def parsed(self, name: str) -> Parsed:
        """The driver's reading of the whole case."""
        folder = self.folder / name
        case = json.loads((folder / "case.json").read_text())
        outcome = Outcome(**case["outcome"], stdout=folder / "stdout", stderr=folder / "stderr")
        return Fio().parse(Trial(name, "golden", "fio", {}, case["params"], {}, {}, 0, 1, 0), outcome, folder)


@pytest.fixture(params=sorted(path.parent.name for path in FIO.glob("[0-9]*/read")))
def golden(request: pytest.FixtureRequest) -> Golden:
    """The captured outputs of each version of fio in turn."""
    return Golden(FIO / request.param)
