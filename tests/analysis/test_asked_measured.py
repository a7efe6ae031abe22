"""What is said of studies that measure nothing."""

from typing import Any

from ioassay.drivers import DRIVERS, driver
from ioassay.store.dataset import DETERMINISTIC

# It imitates measurements: its repetitions differ by chance.
IMITATES = {"null_pure"}


def test_drivers_whose_trials_give_the_same_again_are_told() -> None:
    assert set(DETERMINISTIC) == {name for name in DRIVERS if not driver(name).measures} - IMITATES


def test_a_simulation_is_not_measured(lab: Any) -> None:
    records = lab.records()
    assert not records.is_measured(lab.study(driver="simulate"))
    assert records.is_measured(lab.study(driver="fio"))
