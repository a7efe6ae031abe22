"""The number of hardware threads as a rule over an axis that counts workers: from there on they share processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.factors import takes_processors
from ioassay.report.figures import chart
from ioassay.store.schema import Host


def threads(host: Host, factor: str, numbers: Sequence[float] | None) -> int | None:
    """The host's hardware threads, where `factor` counts workers, its levels are not all below, and the host is known.

    Neither a rule at the left edge nor one beyond the levels would say anything.
    """
    known = host.get("cpu", {}).get("cpus")
    if not isinstance(known, int) or not takes_processors(factor) or not numbers:
        return None
    return known if min(numbers) < known <= max(numbers) else None


def rule(number: int, x: Any, label: bool = True) -> list[Any]:
    """A vertical line at `number`, with its name at the lower end where there is room for one (`label`)."""
    base = chart.base([{"x": number, "text": f"{number} hardware thread{'' if number == 1 else 's'}"}]).encode(x=x)
    line = base.mark("rule", style="reference", strokeWidth=1.2, strokeDash=[1, 3])
    drawn = [line.encode(tooltip=chart.tips({"text:N": "the machine has"}))]
    if label:
        # Upright from the axis on: a curve that has grown up to there is far above.
        name = base.mark("text", style="note", angle=270, align="left", baseline="bottom", dx=6, dy=-3)
        drawn.append(name.encode(y={"value": "height"}, text="text:N"))
    return drawn
