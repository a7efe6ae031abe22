"""Look-ups by name: one registry a list, one message for an unknown name, one contract for its entries."""

from collections.abc import Sequence
from typing import Protocol

import pytest

from ioassay import analysis, drivers, formats, monitors, targets
from ioassay.drivers.null import Null
from ioassay.registry import Contract, Registry
from ioassay.report import figures

COLOURS = {"red": "ioassay.units:parse_size", "green": "ioassay.units"}


class Painter(Protocol):
    """A role of one method."""

    def paint(self, wall: str, coats: int) -> None:
        """Paint it."""


@pytest.fixture
def colours() -> Registry:
    return Registry("colours", "colour", COLOURS, Contract())


def test_a_name_leads_to_a_module_or_to_what_is_in_it(colours: Registry) -> None:
    assert colours.load("red")("1KiB") == 1024
    assert colours.load("green").__name__ == "ioassay.units"


def test_an_unknown_name_is_refused_with_the_nearest_or_with_all(colours: Registry) -> None:
    assert colours.refusal("red") == ""
    assert colours.refusal("grene") == "no colour is called 'grene'; did you mean 'green'?"
    assert colours.refusal("xyz") == "no colour is called 'xyz'; known: red, green"


@pytest.mark.parametrize(
    ("room", "own"),
    [
        (drivers, drivers.DRIVERS),
        (targets, targets.TARGETS),
        (monitors, monitors.MONITORS),
        (analysis, analysis.ANALYSES),
        (figures, figures.FIGURES),
        (formats, formats.PARSERS),
    ],
)
def test_each_list_has_the_registry_that_its_room_asks(room: object, own: dict[str, str]) -> None:
    assert room.REGISTRY.own is own
    assert list(room.REGISTRY)[: len(own)] == list(own)


class Silent(Painter):
    """Inherits the stub, which does nothing."""


class Reversed_:
    def paint(self, coats: int, wall: str) -> None: ...


class Careful:
    def paint(self, wall: str, coats: int, brush: str = "") -> None: ...


@pytest.mark.parametrize(
    ("entry", "members", "breach"),
    [
        (object, ["paint"], "has no paint"),
        (object, [], "has no method paint"),
        (Silent, ["paint"], "has no paint"),
        (Reversed_, ["paint"], "has paint(self, coats, wall), expected paint(self, wall, coats)"),
        (Careful, ["paint"], ""),
    ],
)
def test_a_contract_names_what_is_missing(entry: type, members: Sequence[str], breach: str) -> None:
    assert Contract(*members, role=Painter).breach(entry) == breach


def test_a_driver_that_inherits_what_it_should_define_breaks_the_contract() -> None:
    class Half(drivers.Driver):
        name = "half"
        measures = True

    assert drivers.REGISTRY.contract.breach(Half) == "has no validate"
    assert drivers.REGISTRY.contract.breach(Null) == ""
