"""Runs on hosts that measure: records, consent, common starts, and hosts that end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import distributed
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ioassay as ia
from ioassay.api.execution import RunOptions, begin, resume
from ioassay.api.run_results import Run
from ioassay.errors import RunError, SafetyRefusal, StudyError, UsageError
from ioassay.packs.hosts import host_worker
from ioassay.packs.hosts.executors import dask_clusters
from ioassay.packs.hosts.fleet import ClockOffset, CommonStart, clock_offset, warnings_of
from ioassay.packs.hosts.host_worker import Examined, Opening, Session
from ioassay.roles import Consent
from ioassay.runner.executors import Measured
from ioassay.runner.progress import Progress
from ioassay.study import plan as trial_plan
from ioassay.study.model import Suite

from ...patience import PATIENCE_S, until
from . import hosts as made
from .hosts import Host

SLEEP = {"driver": "command", "params": {"argv": ["sleep", "0.3"], "expected_time": "1s"}}
FILE = {"kind": "file", "path": "data", "size": "1MiB"}
LONG = f"987.{os.getpid()}"
"""Seconds to sleep, by which these tests find their own sleeps among all processes."""
Fleet = tuple[str, dict[str, Host]]
"""The executor, and its hosts by name."""
FIO: dict[str, Any] = {
    "driver": "fio",
    "target": FILE,
    "params": {"rw": "randread", "bs": "4k", "size": "1MiB", "ioengine": "psync"},
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts, of which a lets loads run programs."""
    folder = tmp_path_factory.mktemp("fleet")
    with made.scheduler() as address:
        both = {"a": made.start(folder, "a", address, "--allow-exec"), "b": made.start(folder, "b", address)}
        yield f"dask://{address}", both
        for host in both.values():
            said = host.said
            assert host.stop() == 0, said
        for name in both:
            assert list((folder / f"{name}.tmp").iterdir()) == []


@pytest.fixture(scope="module")
def mortals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Host], Path]]:
    """The executor, its two hosts a and b, and the folder that holds theirs."""
    folder = tmp_path_factory.mktemp("mortals")
    with made.fleet(folder, ["a", "b"], "--allow-exec") as (executor, both):
        yield executor, both, folder


@pytest.fixture
def pair(mortals: tuple[str, dict[str, Host], Path]) -> Iterator[Fleet]:
    """Two hosts that let loads run programs; who is killed is replaced."""
    executor, both, folder = mortals
    yield executor, both
    for name, host in both.items():
        if host.process.has_ended():
            host.stop()
            until(lambda name=name: list((folder / f"{name}.tmp").iterdir()) == [])
            both[name] = made.start(folder, name, executor.removeprefix("dask://"), "--allow-exec")


def measure(root: Path, suite: Suite, executor: str, names: Sequence[str] = (), *, allow_exec: bool = False) -> Run:
    return begin(suite, root, RunOptions(executor, destroy_data=names, allow_exec=allow_exec)).run()


def records(run: Run, *hosts: str) -> list[dict[str, Any]]:
    """The records in the order of the plan; of these hosts, or all."""
    found = [json.loads(path.read_text()) for path in run.root.glob("trials/*/record.json")]
    kept = [record for record in found if not hosts or host_of(record) in hosts]
    return sorted(kept, key=lambda record: int(record["trial"]["order"]))


def host_of(record: dict[str, Any]) -> str:
    return str(record["trial"]["point"].get("host"))


def statuses(run: Run, *hosts: str) -> list[str]:
    return [record["status"] for record in records(run, *hosts)]


def absent(record: dict[str, Any]) -> list[str]:
    """What a record says of hosts that did not start with it."""
    return [warning["text"] for warning in record["warnings"] if warning["code"] == "together-incomplete"]


@pytest.mark.fio
def test_each_host_measures_its_own_files_and_returns_all_that_a_trial_leaves(tmp_path: Path, fleet: Fleet) -> None:
    executor, hosts = fleet
    run = measure(tmp_path / "run", made.suite(["a", "b"], **FIO, factors={"iodepth": [1, 2]}), executor)
    found = records(run)
    assert statuses(run) == ["ok"] * 8
    points = sorted((host_of(record), record["trial"]["point"]["iodepth"]) for record in found)
    assert points == [("a", 1), ("a", 1), ("a", 2), ("a", 2), ("b", 1), ("b", 1), ("b", 2), ("b", 2)]
    for record in found:
        folder = run.root / "trials" / record["trial"]["id"]
        assert record["claims"][0]["paths"] == [str(hosts[host_of(record)].folder / "data")]
        assert {path.name for path in (folder / "raw").iterdir()} == set(record["raw"])
        assert (folder / "hist.parquet").exists()
    assert {(file["path"]) for file in run.kept_files()} == {f"{name}:{hosts[name].folder}/data" for name in hosts}
    facts = json.loads((run.root / "host.json").read_text())["hosts"]
    assert facts.keys() == {"a", "b"}
    assert facts["a"]["tools"].keys() == {"fio"}
    assert run.trials["host"].to_list().count("a") == 4


@pytest.mark.fio
def test_a_job_file_is_measured_in_the_folder_of_each_host(tmp_path: Path, fleet: Fleet) -> None:
    executor, hosts = fleet
    job = tmp_path / "job.fio"
    job.write_text("[job]\nioengine=psync\nrw=randwrite\nsize=1m\nfilename=jobdata\n")
    study = ia.Study.read(job, settings=["run.hosts=a,b"], repetitions=1)
    assert study.run(tmp_path / "run", executor=executor).tally.ok == 2
    for host in hosts.values():
        assert (host.folder / "jobdata").stat().st_size == 2**20


def test_all_hosts_that_there_are_measure_in_the_order_of_the_plan(tmp_path: Path, fleet: Fleet) -> None:
    run = measure(tmp_path / "run", made.suite(["all"], factors={"x": [1, 2, 3, 4]}), fleet[0])
    assert set(map(host_of, records(run))) == {"a", "b"}
    assert run.records.studies[0].hosts == ("a", "b")
    for host in ("a", "b"):
        begun = [record["started_unix_s"] for record in records(run, host)]
        assert begun == sorted(begun)


def test_one_study_may_be_measured_here_and_another_there(tmp_path: Path, fleet: Fleet) -> None:
    here = made.suite([], name="here").studies[0]
    both = made.suite(["a", "b"], name="there").model_copy(update={"studies": [here, made.suite(["a"]).studies[0]]})
    found = records(measure(tmp_path / "run", both, fleet[0]))
    ended = [(record["trial"]["study"], record["status"]) for record in found]
    assert ended == [("here", "ok"), ("here", "ok"), ("s", "ok"), ("s", "ok")]


def test_points_are_repeated_until_they_are_precise_on_each_host(tmp_path: Path, fleet: Fleet) -> None:
    until = {"metric": "value", "ci": 0.01, "min": 3, "max": 30}
    changes = {"repetitions": None, "until": until, "params": {"noise": 0.0001, "value": 5}}
    run = measure(tmp_path / "run", made.suite(["a", "b"], **changes), fleet[0])
    assert (run.tally.ok, run.tally.unneeded) == (6, 54)


def test_tools_start_at_one_instant_and_who_is_measured_later_is_told_who_was_absent(
    tmp_path: Path, pair: Fleet
) -> None:
    suite = made.suite(["a", "b"], **SLEEP, repetitions=2, run={"together": True})
    run = measure(tmp_path / "run", suite, pair[0], allow_exec=True)
    found = records(run)
    assert statuses(run) == ["ok"] * 4
    for group in (found[:2], found[2:]):
        assert set(map(host_of, group)) == {"a", "b"}
        assert all(record["metrics"]["start.late"] >= 0 and not absent(record) for record in group)
        # The clocks here are one clock: all give the same instant, as precisely as they were compared.
        instants = [record["started_unix_s"] - record["metrics"]["start.late"] / 1e9 for record in group]
        wrong_s = sum(record["metrics"]["start.uncertainty"] for record in group) / 1e9
        assert max(instants) - min(instants) <= wrong_s
    # As if it had been killed between two records.
    lost = records(run, "b")[0]["trial"]["id"]
    (run.root / "trials" / lost / "record.json").unlink()
    again = resume(run.root, RunOptions(pair[0], allow_exec=True)).run()
    (second,) = [record for record in records(again) if record["trial"]["id"] == lost]
    assert absent(second) == ["a did not start with this host; expected all at one instant"]


class Killer(Progress):
    """Kills a host at its first trial."""

    def __init__(self, host: Host) -> None:
        self.host, self.has_killed = host, threading.Event()

    def started(self, trial: Any) -> None:
        if trial.point["host"] == self.host.name and not self.has_killed.is_set():
            self.host.kill()
            self.has_killed.set()


def test_a_host_that_dies_fails_its_trials_and_no_others(
    tmp_path: Path, pair: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ioassay.packs.hosts.fleet.PATIENCE_S", 15.0)
    executor, hosts = pair
    suite = made.suite(["a", "b"], repetitions=4, params={"sleep": "500ms"})
    run = begin(suite, tmp_path / "run", RunOptions(executor=executor)).run(Killer(hosts["b"]))
    assert statuses(run, "a") == ["ok"] * 4
    assert statuses(run, "b") == sorted(statuses(run, "b"), reverse=True)  # those that ended before it, then failed
    reasons = [record["reason"] for record in records(run, "b") if record["status"] == "failed"]
    assert len(reasons) >= 2 and set(reasons) == {"host b: its worker ended"}


def test_a_host_that_comes_back_goes_on(tmp_path: Path, pair: Fleet) -> None:
    executor, hosts = pair
    suite = made.suite(["a", "b"], repetitions=5, params={"sleep": "500ms"})
    ready = begin(suite, tmp_path / "run", RunOptions(executor=executor))
    killer = Killer(hosts["b"])

    def revive() -> None:
        assert killer.has_killed.wait(PATIENCE_S)
        hosts["b"] = made.start(killer.host.folder.parent, "b", executor.removeprefix("dask://"), "--allow-exec")

    reviver = threading.Thread(target=revive)
    reviver.start()
    try:
        run = ready.run(killer)
    finally:
        reviver.join()
        killer.host.stop()
    status = statuses(run, "b")
    assert (len(status), status[-1]) == (5, "ok")
    assert status.count("failed") <= 1  # none where it died between two trials


def test_a_group_starts_without_a_host_that_dies(tmp_path: Path, pair: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ioassay.packs.hosts.fleet.PATIENCE_S", 15.0)
    executor, hosts = pair
    suite = made.suite(["a", "b"], **SLEEP, repetitions=2, run={"together": True})
    ready = begin(suite, tmp_path / "run", RunOptions(executor, allow_exec=True))
    hosts["b"].kill()
    run = ready.run()
    assert (statuses(run, "a"), statuses(run, "b")) == (["ok"] * 2, ["failed"] * 2)
    assert all(map(absent, records(run, "a")))


def test_a_host_measures_for_one_run_at_a_time(tmp_path: Path, fleet: Fleet) -> None:
    executor, _ = fleet
    first = begin(made.suite(["a"]), tmp_path / "first", RunOptions(executor=executor))
    try:
        with pytest.raises(RunError, match=r"^a: measures for another run \('s', since ..:..:..\)"):
            begin(made.suite(["a"]), tmp_path / "second", RunOptions(executor=executor))
        assert not (tmp_path / "second").exists()
    finally:
        assert first.hosts is not None
        first.hosts.close()
    assert measure(tmp_path / "second", made.suite(["a"]), executor).tally.ok == 2


def test_consent_is_given_for_each_host_and_before_it_nothing_is_begun_anywhere(tmp_path: Path, fleet: Fleet) -> None:
    executor, hosts = fleet
    write = {**FIO, "params": {**FIO["params"], "rw": "randwrite"}, "target": {**FILE, "path": "old"}}
    suite, old = made.suite(["a", "b"], **write), {name: host.folder / "old" for name, host in hosts.items()}
    old["b"].write_bytes(b"precious" * 1000)
    with pytest.raises(SafetyRefusal, match=f"(?s)^b: .*--destroy-data=b:{re.escape(str(old['b']))}"):
        measure(tmp_path / "run", suite, executor)
    assert not (tmp_path / "run").exists() and not old["a"].exists()
    old["a"].write_bytes(b"old" * 1000)
    names = [f"{name}:{path}" for name, path in old.items()]
    with pytest.raises(SafetyRefusal, match="^b: "):
        measure(tmp_path / "one", suite, executor, names[:1])
    with pytest.raises(UsageError, match="names no host, and consent is given for each"):
        measure(tmp_path / "none", suite, executor, [str(old["a"])])
    assert old["b"].read_bytes() == b"precious" * 1000
    assert measure(tmp_path / "both", suite, executor, names).tally.ok == 4


def test_programs_run_where_the_run_and_the_host_allow_it(tmp_path: Path, fleet: Fleet) -> None:
    executor, _ = fleet
    with pytest.raises(SafetyRefusal, match=r"(?s)^a: .*--allow-exec"):
        measure(tmp_path / "run", made.suite(["a"], **SLEEP), executor)
    with pytest.raises(SafetyRefusal, match=r"(?s)^b: .*ioassay worker --allow-exec"):
        measure(tmp_path / "run", made.suite(["b"], **SLEEP), executor, allow_exec=True)
    assert measure(tmp_path / "run", made.suite(["a"], **SLEEP), executor, allow_exec=True).tally.ok == 2


def test_a_plan_checks_the_hosts_and_leaves_them(tmp_path: Path, fleet: Fleet) -> None:
    executor, hosts = fleet
    study = ia.Study(driver="fio", target={**FILE, "path": "planned"}, params=FIO["params"], run={"hosts": ["a", "b"]})
    plan = study.plan(executor=executor)
    assert set(plan.trials["host"]) == {"a", "b"}
    assert not (hosts["a"].folder / "planned").exists()
    assert "hosts-unchecked" not in {warning.code for warning in plan.warnings}
    assert [warning.code for warning in study.plan().warnings] == ["hosts-unchecked"]
    assert measure(tmp_path / "run", made.suite(["a", "b"]), executor).tally.ok == 4


def test_hosts_that_are_not_there_are_named(tmp_path: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ioassay.packs.hosts.fleet.PATIENCE_S", 0.1)
    with pytest.raises(RunError) as error:
        measure(tmp_path / "run", made.suite(["a", "z"]), fleet[0])
    address = fleet[0].removeprefix("dask://")
    remedy = f"start its worker there: ioassay worker tcp://{address} --name z"
    assert str(error.value).endswith(f"has no host 'z' (there: a, b); {remedy}")


def test_studies_of_hosts_need_their_scheduler(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run.hosts is a, b; expected the scheduler .* --executor dask://HOST:PORT"):
        begin(made.suite(["a", "b"]), tmp_path / "run", RunOptions())
    with pytest.raises(UsageError, match="--executor dask:local computes, and measures no hosts"):
        begin(made.suite(["a", "b"]), tmp_path / "run", RunOptions(executor="dask:local"))
    with pytest.raises(StudyError, match="run.hosts: names hosts; expected none: the driver 'null_pure' computes"):
        begin(
            made.suite(["a"], driver="null_pure", watch={}), tmp_path / "run", RunOptions(executor="dask://127.0.0.1:1")
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("together", [False, True])
def test_storage_that_hosts_share_by_chance_is_a_warning(together: bool) -> None:
    def seen(source: str, kind: str) -> Examined:
        return Examined({"disk": {"mount": {"source": source, "filesystem": kind}}}, [], [])

    nfs, disk = seen("server:/data", "nfs4"), seen("/dev/sda1", "ext4")
    examined = {"a": nfs, "b": disk, "c": nfs, "d": seen("server:/other", "nfs4"), "e": disk}
    studies = made.suite(["a", "b"], run={"together": together}).studies
    texts = [warning.text for warning in warnings_of(examined, studies)]
    expected = ["a, c measure side by side on server:/data (nfs4), and their loads meet by chance"]
    assert texts == ([] if together else expected)


def test_a_second_worker_of_one_name_is_refused(tmp_path: Path, fleet: Fleet) -> None:
    with pytest.raises(AssertionError, match="has a worker called 'a' already; expected another --name"):
        made.start(tmp_path, "a", fleet[0].removeprefix("dask://"))


def test_a_host_computes_nothing(tmp_path: Path, fleet: Fleet) -> None:
    """Trials of pure drivers would disturb what it measures."""
    address = fleet[0].removeprefix("dask://")
    with distributed.Client(f"tcp://{address}", set_as_default=False) as client:
        assert dask_clusters.addresses(client, measuring=False) == []
        assert len(dask_clusters.addresses(client, measuring=True)) == 2


def test_a_stopped_worker_ends_what_it_measures_and_puts_it_back(
    tmp_path: Path, pair: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ioassay.packs.hosts.fleet.PATIENCE_S", 1.0)
    executor, hosts = pair
    suite = made.suite(["a"], driver="command", params={"argv": ["sleep", LONG], "expected_time": "1s"})
    ready = begin(suite, tmp_path / "run", RunOptions(executor, allow_exec=True))
    worker = hosts["a"].process

    def stop() -> None:
        until(lambda: LONG in children(worker.pid))
        worker.send_signal(signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    run = ready.run()
    stopper.join()
    assert worker.wait() == 0
    assert set(statuses(run)) == {"failed"}
    assert LONG not in children(1)


def test_a_worker_ends_with_its_scheduler(tmp_path: Path) -> None:
    with made.scheduler() as address:
        host = made.start(tmp_path, "a", address)
    with host.process:
        assert host.process.wait() == 1
        assert f"the scheduler at tcp://{address} went away; start this worker again when it is back" in host.said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_that_waits_for_its_scheduler_can_be_stopped(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        words = ("worker", address, "--dir", str(tmp_path), "--log-level", "debug")
        with made.begin(tmp_path, *words) as worker:
            until(lambda: "Waiting to connect to" in worker.err)
            worker.send_signal(number)
            assert worker.wait() == 0
            assert "no Dask scheduler answers" not in worker.err


def test_an_interrupted_run_frees_its_hosts_at_once(tmp_path: Path, pair: Fleet) -> None:
    executor, hosts = pair
    (tmp_path / "long.toml").write_text(
        f'title = "Long"\ndriver = "command"\n[params]\nargv = ["sleep", "{LONG}"]\nexpected_time = "1s"\n'
        '[watch]\nmonitors = []\nwitness = "off"\n[run]\nhosts = ["a", "b"]\n'
    )
    words = ["run", "long.toml", "--allow-exec", "--executor", executor, "--output", "run"]
    with made.begin(tmp_path, *words) as running:
        for host in hosts.values():
            until(lambda host=host: LONG in children(host.process.pid))
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        assert f"ioassay run --resume run --allow-exec --executor {executor}" in running.err
    for host in hosts.values():
        assert LONG not in children(host.process.pid)
    assert measure(tmp_path / "next", made.suite(["a", "b"]), executor).tally.ok == 4


def children(pid: int) -> str:
    """The command lines of all that a process started, however deep."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            found.append(" ".join(child.cmdline()))
        except psutil.Error:
            continue
    return "\n".join(found)


def test_a_session_of_a_run_that_is_gone_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = made.suite(["a"], driver="command", params={"argv": ["sleep", LONG], "expected_time": "1s"})
    session = Session(Opening("t", "a", suite, Consent((), True)), tmp_path)
    session.examine()
    answers: list[Measured] = []
    asker = threading.Thread(target=lambda: answers.append(session.measure(next(trial_plan.trials(suite)))))
    asker.start()
    until(lambda: LONG in children(os.getpid()))
    monkeypatch.setattr(host_worker, "LEASE_S", 0.1)
    asker.join()
    (measured,) = answers
    reason = json.loads(measured.files["record.json"])["reason"]
    assert reason.startswith("ended by the lab: its run has not asked about it")
    until(lambda: session.state().ended != "")
    assert session.is_over
    session.close()


# One instant for several hosts: clocks that differ, and hosts that do not come


@given(
    ahead_s=st.floats(-1e4, 1e4),
    ways=st.lists(st.tuples(st.floats(1e-5, 0.5), st.floats(1e-5, 0.5)), min_size=12, max_size=12),
)
def test_an_offset_is_never_further_off_than_it_says(ahead_s: float, ways: list[tuple[float, float]]) -> None:
    """Whatever the ways there and back take, and however unequal they are."""
    now_s, left = [1.7e9], iter(ways)

    def ask() -> float:
        there_s, back_s = next(left)
        now_s[0] += there_s
        told_s = now_s[0] + ahead_s
        now_s[0] += back_s
        return told_s

    found = clock_offset(ask, lambda: now_s[0])
    assert abs(found.seconds - ahead_s) <= found.uncertainty_s + 1e-6  # of seconds since 1970 in double precision
    assert found.uncertainty_s == pytest.approx(min(there + back for there, back in ways) / 2, abs=1e-6)


def test_the_last_host_fixes_the_instant() -> None:
    start = CommonStart(["a", "b"])
    start.arrive("a", ClockOffset(5.0, 0.001))
    assert start.instant_s(0.01) is None
    start.arrive("b", ClockOffset(-5.0, 0.002))
    first = start.instant_s(0.01)
    assert first is not None
    assert start.instant_s(0.01) == first
    assert start.absent == ()


def test_the_others_do_not_wait_for_a_host_that_left() -> None:
    start = CommonStart(["a", "b", "c"], absent=["d"])
    start.arrive("a", ClockOffset())
    start.leave("b")
    waiting: list[float | None] = []
    thread = threading.Thread(target=lambda: waiting.append(start.instant_s(60)))
    thread.start()
    start.leave("c")
    thread.join(timeout=240)
    assert waiting[0] is not None
    assert start.absent == ("b", "c", "d")


def test_a_host_that_has_started_and_ends_is_not_absent() -> None:
    start = CommonStart(["a", "b"])
    for host in ("a", "b"):
        start.arrive(host, ClockOffset())
    start.leave("a")
    assert start.absent == ()
