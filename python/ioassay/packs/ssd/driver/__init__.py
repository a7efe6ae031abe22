"""The driver simulate: a trial is a simulation of a trace over an SSD, and nothing on the machine is touched.

Parameters are the options of `ioassay.simulator` and the source of the requests (`simulation_parameters`). A pure
driver: all work is done in `parse`, in any process. `simulation_metrics` turns the outcome into metrics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.errors import UsageError
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.driver import simulation_metrics, simulation_parameters
from ioassay.packs.ssd.driver.simulation_parameters import NotFound
from ioassay.records.record import FAILED, OK, SKIPPED, Warning_
from ioassay.roles import NOTHING, Command, Driver, Estimate, Load, Outcome, Parsed, Portable, Tool, Touch, Trial

SUMMARY, ELEMENTS = "summary.json", "elements.json"


class Simulate(Driver):
    """Simulates an SSD over a trace. Implements `roles.Driver`."""

    name = "simulate"
    measures = False
    deterministic = True

    def tool(self) -> Tool | None:
        """None: the simulator is part of ioassay."""
        return None

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Nothing to take."""

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError names the parameter that is wrong; a warning for a trace that is not here and may be absent."""
        wanted = simulation_parameters.read(params)
        simulation_parameters.check(wanted)
        try:
            simulation_parameters.trace(wanted, repetition=0)
        except NotFound as error:
            return [Warning_("trace-absent", f"{error}; its trials will be skipped", wanted.get)]
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        """Nothing is ever touched."""
        return NOTHING

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """No paths: traces are only read."""
        return ()

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """Seconds from the number of requests, memory from the size of the drive."""
        return simulation_parameters.cost(simulation_parameters.read(params))

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """None: a simulation lasts as long as its trace."""
        return None

    def portable(self, params: Mapping[str, Any]) -> Portable:
        """The file of its trace goes along; of a drive's own file the options, since that may name further files."""
        return simulation_parameters.portable(params)

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        """None: no process."""
        return None

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Simulate one trial. `raw` gets the summary and the elements as the simulator said them."""
        wanted = simulation_parameters.read(trial.params)
        try:
            trace = simulation_parameters.trace(wanted, trial.repetition)
            done = simulator.simulate(
                trace,
                format=wanted.format,
                read=wanted.read,
                prepare=simulation_parameters.prepared(wanted),
                **wanted.options,
            )
            optimum = simulation_parameters.optimum(wanted, trace)
        except NotFound as error:
            return Parsed(SKIPPED, f"{error}. {wanted.get}")
        except UsageError as error:  # a trace that makes no sense, or a drive that does not fit into the memory
            return Parsed(FAILED, str(error))
        (raw / SUMMARY).write_text(
            json.dumps(simulation_metrics.summary(done, trace, optimum), indent=1), encoding="utf-8"
        )
        (raw / ELEMENTS).write_text(json.dumps(dict(done.raw["elements"])), encoding="utf-8")
        if done.nothing and not done.summary["saturated"]:
            return Parsed(SKIPPED, f"nothing was measured: {done.nothing}", warnings=done.warnings)
        return Parsed(
            OK,
            metrics=simulation_metrics.metrics(done, optimum),
            buckets=simulation_metrics.buckets(done),
            series=simulation_metrics.series(done),
            warnings=done.warnings,
        )
