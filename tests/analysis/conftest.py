"""The builder of data sets, and samples with published results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # importmode=importlib leaves it out

from lab import Lab


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()


# Samples with published results. Facts; each names where it was published.

INSECT_SPRAYS = {
    "A": [10, 7, 20, 14, 14, 12, 10, 23, 17, 20, 14, 13],
    "B": [11, 17, 21, 11, 16, 14, 17, 17, 19, 21, 7, 13],
    "C": [0, 1, 7, 2, 3, 1, 2, 1, 3, 0, 1, 4],
    "D": [3, 5, 12, 6, 4, 3, 5, 5, 5, 5, 2, 4],
    "E": [3, 5, 3, 5, 3, 6, 1, 1, 3, 2, 6, 4],
    "F": [11, 9, 15, 22, 15, 16, 13, 10, 26, 26, 24, 13],
}
"""Beall, "The transformation of data from entomological field experiments", Biometrika 29 (1942); R's InsectSprays."""

TOOTH_GROWTH = {
    ("VC", 0.5): [4.2, 11.5, 7.3, 5.8, 6.4, 10, 11.2, 11.2, 5.2, 7],
    ("VC", 1.0): [16.5, 16.5, 15.2, 17.3, 22.5, 17.3, 13.6, 14.5, 18.8, 15.5],
    ("VC", 2.0): [23.6, 18.5, 33.9, 25.5, 26.4, 32.5, 26.7, 21.5, 23.3, 29.5],
    ("OJ", 0.5): [15.2, 21.5, 17.6, 9.7, 14.5, 10, 8.2, 9.4, 16.5, 9.7],
    ("OJ", 1.0): [19.7, 23.3, 23.6, 26.4, 20, 25.2, 25.8, 21.2, 14.5, 27.3],
    ("OJ", 2.0): [25.5, 26.4, 22.4, 24.5, 24.8, 30.9, 26.4, 27.3, 29.4, 23],
}
"""Crampton, "The growth of the odontoblast of the incisor teeth", Journal of Nutrition 33 (1947); R's ToothGrowth."""


@pytest.fixture(scope="session")
def insect_sprays() -> list[list[float]]:
    return [list(map(float, group)) for group in INSECT_SPRAYS.values()]


@pytest.fixture(scope="session")
def tooth_growth() -> dict[tuple[str, float], list[float]]:
    return {key: list(map(float, values)) for key, values in TOOTH_GROWTH.items()}
