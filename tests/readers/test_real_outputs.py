"""Outputs that real tools make here and now: an import has every number of a plain reading, also of damaged copies.

`benches/real_outputs.py` examines hundreds in the same way, in all formats.
"""

from __future__ import annotations

import functools
import random
import shutil
import sys
from pathlib import Path

import pytest

from ..conftest import EXPLORE
from .mutation import COPIES, SEED

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
import real_outputs
import tool_outputs
from tool_outputs import Make

FORMS = ["json", "json+", "normal,json", "json+,terse,normal"]
FILES_OF_FIO = functools.partial(tool_outputs.fio, program="fio", forms=FORMS[:2])
OF_FIO: dict[str, Make] = {
    "fio": functools.partial(tool_outputs.fio, program="fio", forms=FORMS),
    "fio twice": functools.partial(tool_outputs.again, FILES_OF_FIO),
    "logs of fio": functools.partial(tool_outputs.fio_logs, program="fio"),
    "iologs of fio": functools.partial(tool_outputs.iolog, program="fio"),
}
SYSBENCH = functools.partial(tool_outputs.sysbench, tests=tool_outputs.SYSBENCH_TESTS[:-1])
OTHERS: dict[str, Make] = {"traces": tool_outputs.layout, "sysbench": SYSBENCH}
MAKERS = [
    *(pytest.param(name, make, marks=pytest.mark.fio, id=name) for name, make in OF_FIO.items()),
    *(pytest.param(name, make, id=name) for name, make in OTHERS.items()),
]


@pytest.mark.parametrize("name, make", MAKERS)
def test_each_number_is_that_of_a_plain_reading(tmp_path: Path, name: str, make: Make) -> None:
    if name == "sysbench" and not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    (folder := tmp_path / "work").mkdir()
    tally = real_outputs.Tally()
    for number in range(200 if EXPLORE else 4):
        dice = random.Random(f"{SEED}/{name}/{number}")
        output, wrap = make(dice, folder), dice.choice([*real_outputs.WRAPS])
        found = real_outputs.examine(output, "gz" if output.is_trace else wrap, tmp_path, tally)
        assert not found, f"{number}: {output.command} in {wrap}, IOASSAY_SEED={SEED}"
    assert tally.equal > 10


DAMAGED = [pytest.param("fio", FILES_OF_FIO, marks=pytest.mark.fio, id="fio"), MAKERS[-1]]


@pytest.mark.parametrize("name, make", DAMAGED)
def test_a_damaged_copy_has_no_other_numbers(tmp_path: Path, name: str, make: Make) -> None:
    """It is refused, or a warning says what is wrong, or each number is that of the damaged text."""
    if name == "sysbench" and not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    (folder := tmp_path / "work").mkdir()
    for number in range(3):
        output = make(random.Random(f"{SEED}/damaged {name}/{number}"), folder)
        found = [one for one in real_outputs.damage(output, tmp_path, COPIES // 3) if "plain reading fails" not in one]
        assert not found, output.command
