"""NIST's Statistical Reference Datasets: certified values, and how many of their digits are met.

The log relative error LRE = -log10(|computed - certified| / |certified|) counts correct digits (McCullough, "Assessing
the reliability of statistical software", The American Statistician 52, 1998). Wanted: 9 digits for the lower and
average difficulties (met: 13 and 9.9). The higher difficulty has 13 equal leading digits: a double holds only about 4
of the digits that differ, and rounding the data leaves 3.9 of the certified digits, however one computes. That this is
the data's doing is a test of its own: against exact arithmetic on the same doubles nine digits are met there too.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy

from ioassay.stats.linear_models import Line, OneWay, fit_line, one_way

DATA = Path(scipy.__file__).parent / "stats" / "tests" / "data"
NUMBER = r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?"

ANOVA = {
    "SiRstv": 9,
    "SmLs01": 9,
    "SmLs02": 9,
    "SmLs03": 9,
    "AtmWtAg": 9,
    "SmLs04": 9,
    "SmLs05": 9,
    "SmLs06": 9,
    "SmLs07": 3,
    "SmLs08": 3,
    "SmLs09": 3,
}
"""Data set -> digits wanted; in NIST's order of difficulty: lower to SmLs03, average to SmLs06, then higher."""


def digits(computed: float, certified: float) -> float:
    if computed == certified:
        return 15.0
    return -math.log10(abs(computed - certified) / abs(certified))


def read(folder: str, name: str) -> str:
    path = DATA / folder / f"{name}.dat"
    if not path.exists():
        pytest.skip(f"this scipy comes without its tests' data ({path.name})")
    return path.read_text()


def numbers_after(text: str, label: str) -> list[float]:
    line = next(line for line in text.splitlines() if label in line)
    return [float(found) for found in re.findall(NUMBER, line.split(label)[1])]


@pytest.mark.parametrize("name", ANOVA)
def test_one_way_analysis_meets_the_certified_digits(name: str) -> None:
    text = read("nist_anova", name)
    rows = [line.split() for line in text.splitlines()[60:] if line.strip()]
    groups: dict[str, list[float]] = {}
    for group, value in rows:
        groups.setdefault(group, []).append(float(value))
    found = one_way([np.array(values) for values in groups.values()])
    assert isinstance(found, OneWay)
    df_between, ss_between, ms_between, f = numbers_after(text, "Between ")
    df_within, ss_within, ms_within = numbers_after(text, "Within ")
    assert (found.df_between, found.df_within) == (df_between, df_within)
    r2 = numbers_after(text, "Certified R-Squared")[0]
    deviation = numbers_after(text.replace("Certified Residual\n", ""), "Standard Deviation")[0]
    pairs = {
        "ss_between": (found.ss_between, ss_between),
        "ss_within": (found.ss_within, ss_within),
        "ms_between": (found.ms_between, ms_between),
        "ms_within": (found.ms_within, ms_within),
        "f": (found.f, f),
        "r2": (found.eta2, r2),
        "deviation": (found.ms_within**0.5, deviation),
    }
    met = {quantity: round(digits(*pair), 1) for quantity, pair in pairs.items()}
    assert min(met.values()) >= ANOVA[name], met


@pytest.mark.parametrize("name", ["SmLs07", "SmLs08"])
def test_the_higher_difficulty_is_exact_for_the_data_as_stored(name: str) -> None:
    rows = [line.split() for line in read("nist_anova", name).splitlines()[60:] if line.strip()]
    groups: dict[str, list[float]] = {}
    for group, value in rows:
        groups.setdefault(group, []).append(float(value))
    found = one_way([np.array(values) for values in groups.values()])
    assert isinstance(found, OneWay)
    exact = [list(map(Fraction, values)) for values in groups.values()]
    means = [sum(values) / len(values) for values in exact]
    grand = sum(map(sum, exact)) / sum(map(len, exact))
    within = sum((value - mean) ** 2 for values, mean in zip(exact, means, strict=True) for value in values)
    between = sum(len(values) * (mean - grand) ** 2 for values, mean in zip(exact, means, strict=True))
    assert digits(found.ss_within, float(within)) >= 9
    assert digits(found.ss_between, float(between)) >= 9


# Norris: 36 observations of ozone monitors, lower difficulty (NIST StRD, linear regression). y then x.
NORRIS = """0.1 0.2 338.8 337.4 118.1 118.2 888.0 884.6 9.2 10.1 228.1 226.5 668.5 666.3 998.5 996.3 449.1 448.6
778.9 777.0 559.2 558.2 0.3 0.4 0.1 0.6 778.1 775.5 668.8 666.9 339.3 338.0 448.9 447.5 10.8 11.6 557.7 556.0
228.3 228.1 998.0 995.8 888.8 887.6 119.6 120.2 0.3 0.3 0.6 0.3 557.6 556.8 339.3 339.1 888.0 887.2 998.5 999.0
778.9 779.0 10.2 11.1 117.6 118.3 228.9 229.2 668.4 669.1 449.2 448.9 0.2 0.5"""


def test_a_line_meets_the_certified_digits_of_norris() -> None:
    pairs = np.array(NORRIS.split(), dtype=np.float64).reshape(-1, 2)
    found = fit_line(pairs[:, 1], pairs[:, 0], 0.95)
    assert isinstance(found, Line)
    certified = {
        "intercept": -0.262323073774029,
        "slope": 1.00211681802045,
        "intercept_se": 0.232818234301152,
        "slope_se": 0.429796848199937e-03,
        "residual_stddev": 0.884796396144373,
        "r2": 0.999993745883712,
        "ss_residual": 26.6173985294224,
        "f": 5436385.54079785,
    }
    met = {name: round(digits(getattr(found, name), value), 1) for name, value in certified.items()}
    assert min(met.values()) >= 9, met


def test_the_norris_data_written_here_are_those_that_scipy_ships() -> None:
    text = read("nist_linregress", "Norris")
    shipped = [float(number) for line in text.splitlines()[60:] for number in line.split()]
    assert shipped == [float(number) for number in NORRIS.split()]
