"""A search as a run: what it plans, that nothing is lost or run twice, that it ends alike however it was stopped.

And its confirmation: fresh trials, interleaved, and for the next best point where a constraint breaks.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ioassay import atomic_file
from ioassay.drivers.null import Null
from ioassay.errors import InputError, UsageError
from ioassay.packs.tuning.questions import tuned
from ioassay.packs.tuning.questions.tuned import Outcome, Tuned
from ioassay.packs.tuning.search import campaign
from ioassay.packs.tuning.search.campaign import Shorts, confirmation, repetitions_for
from ioassay.roles import Parsed, Trial
from ioassay.store import frames
from ioassay.store.run_folder import RunStore
from ioassay.study import plan

from ...cli.command_server import shared
from ...corpora import THOROUGH
from ...patience import until


def test_a_search_is_a_run_whose_plan_grows_and_that_is_not_run_again(searches: Any) -> None:
    study = searches.study()
    store = searches.begin(study, searches.asked(study))
    assert [trial.search for trial in store.trials()] == ["default"]
    assert store.resume_command.startswith("ioassay tune --resume")
    tally = searches.go_on()
    found, whys = frames.load(store), [trial.search for trial in store.trials()]
    assert found.trials["search"].to_list() == whys
    assert (whys[0], whys.count("confirm"), tally.planned, tally.ok) == ("default", 6, 26, 26)
    assert found.trials["order"].to_list() == list(range(26))
    assert found.tuning is not None and found.tuning["found"]["winner"] == {"x": 3, "y": "b"}
    assert found.planned == {"s": 26}
    before = searches.outcome()
    searches.go_on()
    assert {status for _, status in searches.told.ends} == {"kept"}
    assert searches.outcome() == before


def test_repeats_of_a_point_are_its_next_repetitions_with_seeds_of_their_own(searches: Any) -> None:
    store, _ = searches.searched(searches.study(), trials=40)
    seen: dict[str, list[tuple[int, int]]] = {}
    for trial in store.trials():
        seen.setdefault(str(trial.point), []).append((trial.repetition, trial.seed))
    assert max(map(len, seen.values())) > 1
    for point in seen.values():
        assert len({seed for _, seed in point}) == len(point)
        assert len({repetition for repetition, _ in point}) == len(point)


class Killed(BaseException):
    """Stands for a kill."""


def crashing(monkeypatch: pytest.MonkeyPatch, at: int, torn: bool) -> None:
    """Let the write number `at` from now on be the last thing that happens, or only be begun when `torn`."""
    write, left = atomic_file.write_pieces, [at]

    def write_pieces(path: Path, pieces: Any) -> None:
        if left[0] == 0:
            left[0] = -1
            if torn:
                atomic_file.unfinished_of(path).write_text("half of it")
            else:
                write(path, pieces)
            raise Killed
        left[0] -= 1
        write(path, pieces)

    monkeypatch.setattr(atomic_file, "write_pieces", write_pieces)


@pytest.mark.parametrize(("batch", "pruning_too"), [(1, False), (1, True), (4, False), (4, True)])
def test_a_search_that_was_killed_ends_as_one_that_was_not(
    searches: Any, monkeypatch: pytest.MonkeyPatch, seed: int, batch: int, pruning_too: bool
) -> None:
    chance = random.Random(seed)
    study = searches.study(driver="null" if batch == 1 else "null_pure")
    if pruning_too:
        shortening(monkeypatch)
    searches.begin(study, searches.asked(study, batch=batch), "whole")
    searches.go_on("whole")
    wanted = searches.outcome("whole")
    for attempt in range(3 if THOROUGH else 1):
        name = f"killed{attempt}"
        searches.begin(study, searches.asked(study, batch=batch), name)
        for _ in range(3):
            with monkeypatch.context() as patched:
                crashing(patched, chance.randrange(20), torn=chance.random() < 0.5)
                try:
                    searches.go_on(name)
                except Killed:
                    continue
        searches.go_on(name)
        assert searches.outcome(name) == wanted


def test_a_batch_is_asked_alike_whatever_the_number_of_workers(searches: Any) -> None:
    study = searches.study(driver="null_pure")
    for name, workers in (("one", 1), ("two", 2)):
        searches.begin(study, searches.asked(study, batch=4), name)
        searches.go_on(name, workers=workers)
    assert searches.outcome("one") == searches.outcome("two")
    kinds = [kind for _, kind, _ in searches.outcome("one")["plan"]]
    assert kinds[0] == "default" and kinds.count("confirm") == 6 and len(kinds) == 26


def test_a_point_that_fails_is_told_and_the_search_goes_on(searches: Any) -> None:
    store, tally = searches.searched(searches.study(params={"fail_share": 0.3}))
    assert tally.failed > 0
    assert searches.found(store)["winner"] is not None


def test_a_search_of_which_all_trials_fail_ends_without_a_winner(searches: Any) -> None:
    store, tally = searches.searched(searches.study(params={"fail_share": 1.0}))
    assert tally.failed == tally.planned
    found = searches.found(store)
    assert found["winner"] is None and not found["feasible"]
    assert not [trial for trial in store.trials() if trial.search == "confirm"]


def test_a_metric_that_the_driver_does_not_give_ends_the_search_at_once(searches: Any) -> None:
    study = searches.study(params={"metrics": {"read.bw": 1e8, "read.iops": 1e3}})
    searches.begin(study, searches.asked(study))
    with pytest.raises(UsageError, match=r"no metric value; .*read\.bw"):
        searches.go_on()
    assert len(searches.told.ends) == 1


def test_a_constraint_keeps_the_search_from_what_it_forbids(searches: Any) -> None:
    store, _ = searches.searched(searches.study(), subject_to=("value < 140",))
    found = searches.found(store)
    assert found["feasible"] and found["winner"] != {"x": 3, "y": "b"}


def test_constraints_that_nothing_fulfils_leave_the_nearest_and_no_confirmation(searches: Any) -> None:
    store, tally = searches.searched(searches.study(), subject_to=("value < 10",))
    found = searches.found(store)
    assert not found["feasible"] and found["winner"]["y"] == "c"
    assert tally.planned == 20


def test_nothing_new_is_tried_after_the_budget_and_the_confirmation_still_runs(searches: Any) -> None:
    store, _ = searches.searched(searches.study(), budget_s=60.0, clock=count(0.0, 10.0).__next__)
    kinds = [trial.search for trial in store.trials()]
    assert searches.found(store)["ended"] == "budget"
    assert kinds.index("confirm") == searches.found(store)["asked"] < 10


def test_a_search_whose_budget_has_ended_asks_for_nothing_more_when_it_is_resumed(
    searches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = searches.study()
    store = searches.begin(study, searches.asked(study, budget_s=60.0))
    write_found = RunStore.write_found

    def killed(self: RunStore, found: Any) -> None:
        write_found(self, found)
        raise Killed

    monkeypatch.setattr(RunStore, "write_found", killed)
    with pytest.raises(Killed):
        searches.go_on(clock=count(0.0, 10.0).__next__)
    planned = len(list(store.trials()))
    searches.go_on(clock=count(0.0, 0.0).__next__)
    assert len(list(store.trials())) == planned + 6


def shortening(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the null driver have a running time that can be shortened without any sleep."""
    from ioassay.drivers.null import Null

    monkeypatch.setattr(Null, "shortened", lambda self, params, share: {**params, "seconds": 8 * share})


def test_a_candidate_that_is_clearly_worse_in_its_short_run_gets_no_whole_one(
    searches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortening(monkeypatch)
    store, _ = searches.searched(searches.study())
    trials = frames.load(store).trials
    pruned = trials.filter(search="pruned")
    assert pruned.height > 0
    assert pruned["value"].max() < trials.filter(search="confirm")["value"].max()  # type: ignore[operator]
    assert trials.filter(search="short").height > 0
    assert "pruned" not in {trial.search for trial in store.trials()}
    assert searches.found(store)["winner"] == {"x": 3, "y": "b"}


def test_no_candidate_is_given_up_where_pruning_is_off(searches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shortening(monkeypatch)
    store, _ = searches.searched(searches.study(), pruning=False)
    assert "short" not in {trial.search for trial in store.trials()}


def test_nothing_is_hopeless_until_short_runs_have_shown_what_they_foretell() -> None:
    shorts = Shorts(maximize=True, values={"best": 100.0, "bad": 10.0})
    assert not shorts.hopeless("bad", "best")
    shorts.ratios = [0.0, 0.01, -0.01]
    assert shorts.hopeless("bad", "best")
    assert not shorts.hopeless("best", "bad")
    shorts.values["near"] = 95.0
    assert not shorts.hopeless("near", "best")
    shorts.ratios = [1.0, -1.0, 0.5]  # short runs say nothing of whole ones
    assert not shorts.hopeless("bad", "best")
    lower = Shorts(maximize=False, values={"best": 10.0, "bad": 100.0}, ratios=[0.0, 0.01, -0.01])
    assert lower.hopeless("bad", "best")


def test_a_plan_that_is_not_of_this_search_is_refused(searches: Any) -> None:
    store, _ = searches.searched(searches.study())
    lines = (store.root / "plan.jsonl").read_text().splitlines(keepends=True)
    (store.root / "plan.jsonl").write_text("".join([lines[0], lines[2], *lines[3:]]))
    (store.root / "found.json").unlink()
    with pytest.raises(InputError, match="its plan is not that of this search"):
        searches.go_on()


@pytest.mark.parametrize("pruning_too", [False, True])
def test_a_plan_is_followed_even_where_the_search_would_ask_for_something_else_now(
    searches: Any, monkeypatch: pytest.MonkeyPatch, pruning_too: bool
) -> None:
    """As after a removed record that was measured again, or with another rounding of its model."""
    if pruning_too:
        shortening(monkeypatch)
    study = searches.study()
    store = searches.begin(study, searches.asked(study))
    with monkeypatch.context() as patched:
        crashing(patched, 25, torn=False)
        with pytest.raises(Killed):
            searches.go_on()
    before = list(store.trials())
    assert len(before) > 8
    asked = json.loads((store.root / "tune.json").read_text())
    (store.root / "tune.json").write_text(json.dumps({**asked, "seed": asked["seed"] + 1}))
    searches.go_on()
    assert list(store.trials())[: len(before)] == before
    assert searches.found(store)["asked"] == 20


def test_a_run_that_is_no_search_is_not_resumed_as_one(searches: Any, tmp_path: Path) -> None:
    from ioassay.study.model import Suite

    store = RunStore.create(tmp_path / "plain", Suite(name="s", title="S", studies=[searches.study()]), {})
    with pytest.raises(UsageError, match="is no search; go on with it: ioassay run --resume"):
        campaign.resumed(store)


def test_sigkill_at_any_instant_loses_nothing(searches: Any, tmp_path: Path, seed: int) -> None:
    """The real command line, killed again and again, ends with what an undisturbed search finds."""
    chance = random.Random(seed)
    study = searches.study(params={"sleep": "10ms"})
    asked = searches.asked(study, trials=15, confirm=2)
    searches.begin(study, asked, "whole")
    killed = searches.begin(study, asked, "killed")

    def recorded() -> int:
        return len(list(killed.root.glob("trials/*/record.json")))

    for _ in range(5 if THOROUGH else 2):
        before = recorded()
        with shared().start(["tune", "--resume", "killed"], tmp_path, os.environ, of_its_own=True) as running:
            until(lambda before=before, running=running: recorded() > before or running.has_ended())
            time.sleep(chance.uniform(0, 0.1))  # at any instant the outcome is the same
            running.send_signal(signal.SIGKILL)
            running.wait()
    for name in ("whole", "killed"):
        searches.go_on(name)
    assert searches.outcome("killed") == searches.outcome("whole")


# The confirmation


WINNER, DEFAULT = {"x": 3, "y": "b"}, {"x": 1, "y": "a"}


def test_winner_and_default_run_side_by_side_in_blocks_of_a_drawn_order(searches: Any) -> None:
    study = searches.study()
    trials = confirmation(study, WINNER, DEFAULT, 12, [])
    blocks = [trials[place : place + 2] for place in range(0, 24, 2)]
    assert all({str(trial.point) for trial in block} == {str(WINNER), str(DEFAULT)} for block in blocks)
    assert all(len({trial.repetition for trial in block}) == 1 for block in blocks)
    assert len({str(block[0].point) for block in blocks}) == 2
    assert {trial.search for trial in trials} == {"confirm"}
    assert confirmation(study, WINNER, DEFAULT, 12, []) == trials


def test_no_repetition_of_the_search_is_used_again(searches: Any) -> None:
    study = searches.study()
    before = [plan.make_trial(study, WINNER, repetition, repetition) for repetition in range(4)]
    before.append(plan.make_trial(study, DEFAULT, 0, 4))
    trials = confirmation(study, WINNER, DEFAULT, 3, before)
    assert not {trial.id for trial in trials} & {trial.id for trial in before}
    assert not {trial.seed for trial in trials} & {trial.seed for trial in before}
    assert [trial.order for trial in trials] == [5, 6, 7, 8, 9, 10]


def test_the_repetitions_follow_the_scatter_of_the_search_and_the_margin() -> None:
    assert repetitions_for([[100.0, 100.0]], 0.05) == 0
    assert repetitions_for([], 0.05) == 0
    quiet, noisy = [[99.0, 101.0], [198.0, 202.0]], [[90.0, 110.0], [180.0, 220.0]]
    assert repetitions_for(noisy, 0.05) == 62 and repetitions_for(quiet, 0.05) == 1
    assert repetitions_for(noisy, 0.1) == 16


def test_a_noisy_search_is_confirmed_by_more_repetitions_up_to_the_bound(searches: Any) -> None:
    counts = []
    for place, (noise, most) in enumerate(((0.005, 9), (0.2, 9), (0.2, 0))):
        study = searches.study(params={"noise": noise})
        store = searches.begin(study, searches.asked(study, confirm_most=most), f"run{place}")
        searches.go_on(f"run{place}")
        counts.append(sum(trial.search == "confirm" for trial in store.trials()))
    assert counts == [6, 18, 6]


def constrained(searches: Any, monkeypatch: pytest.MonkeyPatch, costly: int) -> RunStore:
    """A search whose `costly` best points have a short latency while it runs, and one of 6 ms in the confirmation."""
    parse, best = Null.parse, [{"x": 3, "y": "b"}, {"x": 4, "y": "b"}, {"x": 2, "y": "b"}, {"x": 3, "y": "a"}][:costly]

    def noisy(self: Null, trial: Trial, outcome: Any, raw: Path) -> Parsed:
        parsed = parse(self, trial, outcome, raw)
        beyond = trial.search == "confirm" and dict(trial.point) in best
        return replace(parsed, metrics={**parsed.metrics, "read.lat.p99": 6e6 if beyond else 1e6})

    monkeypatch.setattr(Null, "parse", noisy)
    study = searches.study(params={"noise": 0.002})
    return searches.begin(study, searches.asked(study, subject_to=("read.lat.p99 < 5ms",), trials=25))


def judged(store: RunStore) -> Tuned:
    records = frames.load(store)
    return tuned.measure(records, records.studies[0])


@pytest.mark.parametrize("costly", [1, 2])
def test_the_next_best_is_confirmed_where_the_best_violates_a_constraint(
    searches: Any, monkeypatch: pytest.MonkeyPatch, costly: int
) -> None:
    store = constrained(searches, monkeypatch, costly)
    searches.go_on()
    answer = judged(store)
    winner = [{"x": 4, "y": "b"}, {"x": 2, "y": "b"}][costly - 1]
    assert [one.point for one in answer.dropped] == [{"x": 3, "y": "b"}, {"x": 4, "y": "b"}][:costly]
    assert answer.winner is not None and (answer.winner.point, answer.outcome) == (winner, Outcome.IMPROVED)
    assert answer.counts["confirm"] == 6 * (costly + 1)
    assert answer.default is not None and (answer.default.n, answer.winner.n) == (3, 3)
    before = searches.outcome()
    searches.go_on()
    assert searches.outcome() == before


def test_no_winner_is_named_where_three_candidates_violate_a_constraint(
    searches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = constrained(searches, monkeypatch, 4)
    searches.go_on()
    answer = judged(store)
    assert (answer.outcome, answer.feasible, len(answer.dropped)) == (Outcome.VIOLATION, False, 3)
    assert answer.counts["confirm"] == 18


def test_no_other_candidate_is_confirmed_after_the_budget_even_by_a_resumed_search(
    searches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = constrained(searches, monkeypatch, 1)
    asked = json.loads((store.root / "tune.json").read_text())
    (store.root / "tune.json").write_text(json.dumps({**asked, "budget_s": 60.0}))
    seconds = iter(range(0, 10_000, 2))
    searches.go_on(clock=lambda: float(next(seconds)) + 60 * (len(list(store.trials())) > 25))
    assert (judged(store).outcome, len(judged(store).dropped)) == (Outcome.VIOLATION, 1)
    searches.go_on(clock=lambda: 0.0)
    assert judged(store).counts["confirm"] == 6
