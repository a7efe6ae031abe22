"""Searches without a command line: made, run to their end or to an interruption, and gone on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ioassay.packs.tuning.search import campaign, request
from ioassay.packs.tuning.search.campaign import Campaign, Script
from ioassay.packs.tuning.search.request import Request
from ioassay.roles import Consent, Trial
from ioassay.runner import preflight, run
from ioassay.runner.progress import Progress
from ioassay.runner.run import Tally
from ioassay.store.dataset import Dataset
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Study, Suite, make_study

from ...report import synthetic

EFFECTS = {
    "x": {"1": 1.0, "2": 1.1, "3": 1.3, "4": 1.2, "5": 0.9},
    "y": {"a": 1.0, "b": 1.2, "c": 0.7},
}


class Told(Progress):
    """Remembers which trials ran, and how they ended."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []

    def ended(self, trial: Trial, status: str) -> None:
        self.ends.append((trial.search, status))


@dataclass
class Searches:
    """One folder of searches."""

    root: Path
    told: Told = field(default_factory=Told)

    def study(self, **changes: Any) -> Study:
        """A surface of 15 points of the null driver, whose best is x = 3, y = b."""
        table = {
            "name": "s",
            "title": "S",
            "driver": "null",
            "params": {"noise": 0.02, "effects": EFFECTS},
            "factors": {"x": [1, 2, 3, 4, 5], "y": ["a", "b", "c"]},
            "watch": {"monitors": [], "witness": "off"},
            "run": {"governor": "keep"},
        }
        params = {**table["params"], **changes.pop("params", {})}  # type: ignore[dict-item]
        return make_study({**table, "params": params, **changes}, "s.toml")

    def asked(self, study: Study, subject_to: tuple[str, ...] = (), **changes: Any) -> Request:
        """20 trials for a large value, and a confirmation of 3 repetitions."""
        axes, default = request.space(study, changes.pop("ranges", {}), changes.pop("defaults", {}), listed=True)
        wanted = request.make_goal("value", None, subject_to)
        asked = Request(wanted, axes, default, trials=20, seed=study.seed, confirm=3)
        return replace(asked, **changes)

    def begin(self, study: Study, asked: Request, name: str = "run") -> RunStore:
        searched = request.searched(study, asked)
        suite = Suite(name="s", title="S", studies=[searched])
        opening = campaign.opening(searched, asked, self.bench(searched).driver)
        return RunStore.create(self.root / name, suite, {}, opening, asked.as_table())

    def bench(self, study: Study) -> preflight.PreparedStudy:
        (bench,) = preflight.assemble(Suite(name="s", title="S", studies=[study]), Consent())
        preflight.ready_tools([bench])
        return bench

    def go_on(self, name: str = "run", clock: Callable[[], float] | None = None, workers: int = 1) -> Tally:
        """Run what is left of a search."""
        store = RunStore.open(self.root / name)
        study, asked = store.suite().studies[0], campaign.resumed(store)
        bench = self.bench(study)
        source = Campaign(store, Script(study, asked, bench.driver))
        if clock is not None:
            source.clock = clock
        self.told = Told()
        return run.execute(store, [bench], self.told, workers, source)

    def searched(
        self, study: Study, *, clock: Callable[[], float] | None = None, **asked: Any
    ) -> tuple[RunStore, Tally]:
        """A search from its beginning to its end."""
        store = self.begin(study, self.asked(study, **asked))
        return store, self.go_on(clock=clock)

    def found(self, store: RunStore) -> dict[str, Any]:
        """What a search found."""
        tuning = store.tuning()
        assert tuning is not None
        result: dict[str, Any] = tuning["found"]
        return result

    def outcome(self, name: str = "run") -> dict[str, Any]:
        """All that must be the same however often a search was interrupted."""
        store = RunStore.open(self.root / name)
        records = {record.trial["id"]: (dict(record.metrics), record.status) for record in store.records()}
        planned = [(trial.id, trial.search, trial.order) for trial in store.trials()]
        return {"plan": planned, "records": records, "found": json.loads((store.root / "found.json").read_text())}


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The four studies of the block I/O suite, five repetitions of each point; must not be changed."""
    return synthetic.block_io(tmp_path_factory.mktemp("suite"), repetitions=5)


@pytest.fixture
def searches(tmp_path: Path) -> Searches:
    return Searches(tmp_path)
