"""What is said of studies that measure nothing."""

from ioassay.analysis.measurements import study_view
from ioassay.drivers import DRIVERS, driver

# It imitates measurements: its repetitions differ by chance.
IMITATES = {"null_pure"}


def test_drivers_whose_trials_give_the_same_again_are_told() -> None:
    assert set(study_view.DETERMINISTIC) == {name for name in DRIVERS if not driver(name).measures} - IMITATES


def test_a_simulation_is_not_measured() -> None:
    assert not study_view.is_measured({"driver": "simulate"})
    assert study_view.is_measured({"driver": "fio"})
