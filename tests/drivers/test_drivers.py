"""The list of drivers."""

import pytest

from ioassay.drivers import DRIVERS, driver
from ioassay.errors import StudyError


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_carries_the_name_that_it_is_asked_for_by(name: str) -> None:
    assert driver(name).name == name


def test_every_call_gives_a_new_driver() -> None:
    assert driver("null") is not driver("null")


def test_an_unknown_driver_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(StudyError, match="did you mean 'fio'") as caught:
        driver("fyo")
    assert caught.value.key == "driver"
