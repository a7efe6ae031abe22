"""Runs on hosts that measure: records, consent, common starts, and hosts that end."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from ..patience import PATIENCE_S, until

pytest.importorskip("distributed")

import ioassay as ia
from ioassay.api.execution import Checks, begin, resume
from ioassay.api.progress import Progress
from ioassay.api.run_results import Run
from ioassay.errors import RunError, SafetyRefusal, StudyError, UsageError
from ioassay.roles import Consent
from ioassay.study.model import Suite

from . import hosts as made
from .hosts import Host

SLEEP = {"driver": "command", "params": {"argv": ["sleep", "0.3"], "expected_time": "1s"}}
FILE = {"kind": "file", "path": "data", "size": "1MiB"}
LONG = f"987.{os.getpid()}"
"""Seconds to sleep, by which these tests find their own sleeps among all processes."""
FIO: dict[str, Any] = {
    "driver": "fio",
    "target": FILE,
    "params": {"rw": "randread", "bs": "4k", "size": "1MiB", "ioengine": "psync"},
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Host]]]:
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
def pair(mortals: tuple[str, dict[str, Host], Path]) -> Iterator[tuple[str, dict[str, Host]]]:
    """Two hosts that let loads run programs; who is killed is replaced."""
    executor, both, folder = mortals
    yield executor, both
    for name, host in both.items():
        if host.process.has_ended():
            host.stop()
            until(lambda name=name: list((folder / f"{name}.tmp").iterdir()) == [])
            both[name] = made.start(folder, name, executor.removeprefix("dask://"), "--allow-exec")


def measure(root: Path, suite: Suite, executor: str, names: Sequence[str] = (), *, allow_exec: bool = False) -> Run:
    return begin(suite, root, Checks(Consent(tuple(names), allow_exec), executor=executor)).run(executor=executor)


def records(run: Run) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in run.root.glob("trials/*/record.json")]
    return sorted(found, key=lambda record: int(record["trial"]["order"]))


@pytest.mark.fio
def test_each_host_measures_its_own_files_and_returns_all_that_a_trial_leaves(
    tmp_path: Path, fleet: tuple[str, dict[str, Host]]
) -> None:
    executor, hosts = fleet
    run = measure(tmp_path / "run", made.suite(["a", "b"], **FIO, factors={"iodepth": [1, 2]}), executor)
    found = records(run)
    assert [record["status"] for record in found] == ["ok"] * 8
    assert sorted(
        (record["trial"]["point"]["host"], record["trial"]["point"]["iodepth"]) for record in found
    ) == sorted([(host, depth) for host in ("a", "b") for depth in (1, 2)] * 2)
    for record in found:
        host, folder = record["trial"]["point"]["host"], run.root / "trials" / record["trial"]["id"]
        assert record["claims"][0]["paths"] == [str(hosts[host].folder / "data")]
        assert {path.name for path in (folder / "raw").iterdir()} == set(record["raw"])
        assert (folder / "hist.parquet").exists()
    assert {(file["path"]) for file in run.kept_files()} == {f"{name}:{hosts[name].folder}/data" for name in hosts}
    facts = json.loads((run.root / "host.json").read_text())["hosts"]
    assert facts.keys() == {"a", "b"}
    assert facts["a"]["tools"].keys() == {"fio"}
    assert run.trials["host"].to_list().count("a") == 4


@pytest.mark.fio
def test_a_job_file_is_measured_in_the_folder_of_each_host(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    executor, hosts = fleet
    job = tmp_path / "job.fio"
    job.write_text("[job]\nioengine=psync\nrw=randwrite\nsize=1m\nfilename=jobdata\n")
    study = ia.Study.read(job, settings=["run.hosts=a,b"], repetitions=1)
    assert study.run(tmp_path / "run", executor=executor).tally.ok == 2
    for host in hosts.values():
        assert (host.folder / "jobdata").stat().st_size == 2**20


def test_all_hosts_that_there_are_measure(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    run = measure(tmp_path / "run", made.suite(["all"]), fleet[0])
    assert {record["trial"]["point"]["host"] for record in records(run)} == {"a", "b"}
    assert run.records.studies[0].hosts == ("a", "b")


def test_one_study_may_be_measured_here_and_another_there(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    here = made.suite([], name="here").studies[0]
    both = made.suite(["a", "b"], name="there").model_copy(update={"studies": [here, made.suite(["a"]).studies[0]]})
    found = records(measure(tmp_path / "run", both, fleet[0]))
    assert [(record["trial"]["study"], record["status"]) for record in found] == [("here", "ok")] * 2 + [
        ("s", "ok")
    ] * 2


def test_the_order_of_each_host_is_that_of_the_plan(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    run = measure(tmp_path / "run", made.suite(["a", "b"], factors={"x": list(range(8))}), fleet[0])
    for host in ("a", "b"):
        begun = [record["started_unix_s"] for record in records(run) if record["trial"]["point"]["host"] == host]
        assert begun == sorted(begun)


def test_points_are_repeated_until_they_are_precise_on_each_host(
    tmp_path: Path, fleet: tuple[str, dict[str, Host]]
) -> None:
    until = {"metric": "value", "ci": 0.01, "min": 3, "max": 30}
    changes = {"repetitions": None, "until": until, "params": {"noise": 0.0001, "value": 5}}
    run = measure(tmp_path / "run", made.suite(["a", "b"], **changes), fleet[0])
    assert (run.tally.ok, run.tally.unneeded) == (6, 54)


def test_tools_start_at_one_instant_and_who_is_measured_later_is_told_who_was_absent(
    tmp_path: Path, pair: tuple[str, dict[str, Host]]
) -> None:
    suite = made.suite(["a", "b"], **SLEEP, repetitions=2, run={"together": True})
    run = measure(tmp_path / "run", suite, pair[0], allow_exec=True)
    found = records(run)
    assert [record["status"] for record in found] == ["ok"] * 4
    for group in (found[:2], found[2:]):
        assert {record["trial"]["point"]["host"] for record in group} == {"a", "b"}
        for record in group:
            assert record["metrics"]["start.late"] >= 0
            assert [warning for warning in record["warnings"] if warning["code"] == "together-incomplete"] == []
        # The clocks here are one clock: all give the same instant, as precisely as they were compared.
        instants = [record["started_unix_s"] - record["metrics"]["start.late"] / 1e9 for record in group]
        wrong_s = sum(record["metrics"]["start.uncertainty"] for record in group) / 1e9
        assert max(instants) - min(instants) <= wrong_s
    # As if it had been killed between two records.
    lost = next(record for record in found if record["trial"]["point"]["host"] == "b")["trial"]["id"]
    (run.root / "trials" / lost / "record.json").unlink()
    again = resume(run.root, Checks(Consent((), True), executor=pair[0])).run(executor=pair[0])
    (second,) = [record for record in records(again) if record["trial"]["id"] == lost]
    (told,) = [warning["text"] for warning in second["warnings"] if warning["code"] == "together-incomplete"]
    assert told == "a did not start with this host; wanted all at one instant"


class Killer(Progress):
    """Kills a host at its first trial."""

    def __init__(self, host: Host) -> None:
        self.host, self.has_killed = host, threading.Event()

    def started(self, trial: Any) -> None:
        if trial.point["host"] == self.host.name and not self.has_killed.is_set():
            self.host.kill()
            self.has_killed.set()


def test_a_host_that_dies_fails_its_trials_and_no_others(
    tmp_path: Path, pair: tuple[str, dict[str, Host]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ioassay.cluster.fleet.PATIENCE_S", 3.0)
    executor, hosts = pair
    suite = made.suite(["a", "b"], repetitions=4, params={"sleep": "500ms"})
    run = begin(suite, tmp_path / "run", Checks(executor=executor)).run(Killer(hosts["b"]), executor=executor)
    of = {host: [one for one in records(run) if one["trial"]["point"]["host"] == host] for host in ("a", "b")}
    assert [record["status"] for record in of["a"]] == ["ok"] * 4
    status = [record["status"] for record in of["b"]]
    assert status == sorted(status, reverse=True)  # those that ended before it, then failed ones
    reasons = [record["reason"] for record in of["b"] if record["status"] == "failed"]
    assert len(reasons) >= 2
    assert set(reasons) == {"host b: its worker ended"}


def test_a_host_that_comes_back_goes_on(tmp_path: Path, pair: tuple[str, dict[str, Host]]) -> None:
    executor, hosts = pair
    suite = made.suite(["a", "b"], repetitions=5, params={"sleep": "500ms"})
    ready = begin(suite, tmp_path / "run", Checks(executor=executor))
    killer = Killer(hosts["b"])

    def revive() -> None:
        assert killer.has_killed.wait(PATIENCE_S)
        hosts["b"] = made.start(killer.host.folder.parent, "b", executor.removeprefix("dask://"), "--allow-exec")

    reviver = threading.Thread(target=revive)
    reviver.start()
    try:
        run = ready.run(killer, executor=executor)
    finally:
        reviver.join()
        killer.host.stop()
    status = [record["status"] for record in records(run) if record["trial"]["point"]["host"] == "b"]
    assert len(status) == 5
    assert status.count("failed") <= 1  # none where it died between two trials
    assert status[-1] == "ok"


def test_a_group_starts_without_a_host_that_dies(
    tmp_path: Path, pair: tuple[str, dict[str, Host]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ioassay.cluster.fleet.PATIENCE_S", 3.0)
    executor, hosts = pair
    suite = made.suite(["a", "b"], **SLEEP, repetitions=2, run={"together": True})
    ready = begin(suite, tmp_path / "run", Checks(Consent((), True), executor=executor))
    hosts["b"].kill()
    found = records(ready.run(executor=executor))
    ended = sorted((one["trial"]["point"]["host"], one["status"]) for one in found)
    assert ended == [("a", "ok"), ("a", "ok"), ("b", "failed"), ("b", "failed")]
    for record in found:
        if record["status"] == "ok":
            assert "together-incomplete" in [warning["code"] for warning in record["warnings"]]


def test_a_host_measures_for_one_run_at_a_time(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    executor, _ = fleet
    first = begin(made.suite(["a"]), tmp_path / "first", Checks(executor=executor))
    try:
        with pytest.raises(RunError, match=r"^a: measures for another run \('s', since ..:..:..\)"):
            begin(made.suite(["a"]), tmp_path / "second", Checks(executor=executor))
        assert not (tmp_path / "second").exists()
    finally:
        first.close()
    assert measure(tmp_path / "second", made.suite(["a"]), executor).tally.ok == 2


def test_what_a_host_refuses_names_it_and_nothing_is_begun_anywhere(
    tmp_path: Path, fleet: tuple[str, dict[str, Host]]
) -> None:
    executor, hosts = fleet
    theirs = hosts["b"].folder / "theirs"
    theirs.write_bytes(b"precious" * 1000)
    write = {**FIO, "params": {**FIO["params"], "rw": "randwrite"}, "target": {**FILE, "path": "theirs"}}
    with pytest.raises(SafetyRefusal) as refusal:
        measure(tmp_path / "run", made.suite(["a", "b"], **write), executor)
    assert str(refusal.value).startswith("b: ")
    assert f"--destroy-data=b:{theirs}" in str(refusal.value)
    assert theirs.read_bytes() == b"precious" * 1000
    assert not (tmp_path / "run").exists()
    assert not (hosts["a"].folder / "theirs").exists()


def test_consent_is_given_for_each_host(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    executor, hosts = fleet
    write = {**FIO, "params": {**FIO["params"], "rw": "randwrite"}, "target": {**FILE, "path": "old"}}
    for host in hosts.values():
        (host.folder / "old").write_bytes(b"old" * 1000)
    names = [f"{name}:{host.folder / 'old'}" for name, host in hosts.items()]
    with pytest.raises(SafetyRefusal, match="^b: "):
        measure(tmp_path / "one", made.suite(["a", "b"], **write), executor, names[:1])
    with pytest.raises(UsageError, match="names no host, and consent is given for each"):
        measure(tmp_path / "none", made.suite(["a", "b"], **write), executor, [str(hosts["a"].folder / "old")])
    assert (hosts["b"].folder / "old").read_bytes() == b"old" * 1000
    assert measure(tmp_path / "both", made.suite(["a", "b"], **write), executor, names).tally.ok == 4


def test_programs_run_where_the_run_and_the_host_allow_it(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    executor, _ = fleet
    with pytest.raises(SafetyRefusal, match=r"(?s)^a: .*--allow-exec"):
        measure(tmp_path / "run", made.suite(["a"], **SLEEP), executor)
    with pytest.raises(SafetyRefusal, match=r"(?s)^b: .*ioassay worker --allow-exec"):
        measure(tmp_path / "run", made.suite(["b"], **SLEEP), executor, allow_exec=True)
    assert measure(tmp_path / "run", made.suite(["a"], **SLEEP), executor, allow_exec=True).tally.ok == 2


def test_a_plan_checks_the_hosts_and_leaves_them(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    executor, hosts = fleet
    study = ia.Study(driver="fio", target={**FILE, "path": "planned"}, params=FIO["params"], run={"hosts": ["a", "b"]})
    plan = study.plan(executor=executor)
    assert set(plan.trials["host"]) == {"a", "b"}
    assert not (hosts["a"].folder / "planned").exists()
    assert "hosts-unchecked" not in {warning.code for warning in plan.warnings}
    assert [warning.code for warning in study.plan().warnings] == ["hosts-unchecked"]
    assert measure(tmp_path / "run", made.suite(["a", "b"]), executor).tally.ok == 4


def test_hosts_that_are_not_there_are_named(
    tmp_path: Path, fleet: tuple[str, dict[str, Host]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ioassay.cluster.fleet.PATIENCE_S", 0.1)
    with pytest.raises(RunError) as error:
        measure(tmp_path / "run", made.suite(["a", "z"]), fleet[0])
    address = fleet[0].removeprefix("dask://")
    assert str(error.value).endswith(
        f"has no host 'z' (there: a, b); start its worker there: ioassay worker tcp://{address} --name z"
    )


def test_studies_of_hosts_need_their_scheduler(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run.hosts is a, b; wanted the scheduler .* --executor dask://HOST:PORT"):
        begin(made.suite(["a", "b"]), tmp_path / "run", Checks())
    with pytest.raises(UsageError, match="--executor dask:local computes, and measures no hosts"):
        begin(made.suite(["a", "b"]), tmp_path / "run", Checks(executor="dask:local"))
    with pytest.raises(StudyError, match="run.hosts: names hosts; wanted none: the driver 'null_pure' computes"):
        begin(made.suite(["a"], driver="null_pure", watch={}), tmp_path / "run", Checks(executor="dask://127.0.0.1:1"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("together", [False, True])
def test_storage_that_hosts_share_by_chance_is_a_warning(together: bool) -> None:
    from ioassay.api.measuring_hosts import MeasuringHosts
    from ioassay.runner.host_session import Examined

    def seen(source: str, kind: str) -> Examined:
        return Examined({"disk": {"mount": {"source": source, "filesystem": kind}}}, [], [], "/")

    examined = {
        "a": seen("server:/data", "nfs4"),
        "b": seen("/dev/sda1", "ext4"),
        "c": seen("server:/data", "nfs4"),
        "d": seen("server:/other", "nfs4"),
        "e": seen("/dev/sda1", "ext4"),
    }
    studies = made.suite(["a", "b"], run={"together": together}).studies
    found = MeasuringHosts(None, examined, studies).warnings()  # type: ignore[arg-type]
    texts = [warning.text for warning in found]
    expected = ["a, c measure side by side on server:/data (nfs4), and their loads meet by chance"]
    assert texts == ([] if together else expected)


def test_a_second_worker_of_one_name_is_refused(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    with pytest.raises(AssertionError, match="has a worker called 'a' already; wanted another --name"):
        made.start(tmp_path, "a", fleet[0].removeprefix("dask://"))


def test_a_host_computes_nothing(tmp_path: Path, fleet: tuple[str, dict[str, Host]]) -> None:
    """Trials of pure drivers would disturb what it measures."""
    import distributed

    from ioassay.cluster import admission

    address = fleet[0].removeprefix("dask://")
    with distributed.Client(f"tcp://{address}", set_as_default=False) as client:
        assert admission.computing(client) == []
        assert len(admission.measuring(client)) == 2


def test_a_stopped_worker_ends_what_it_measures_and_puts_it_back(
    tmp_path: Path, pair: tuple[str, dict[str, Host]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ioassay.cluster.fleet.PATIENCE_S", 1.0)
    executor, hosts = pair
    suite = made.suite(["a"], driver="command", params={"argv": ["sleep", LONG], "expected_time": "1s"})
    ready = begin(suite, tmp_path / "run", Checks(Consent((), True), executor=executor))
    worker = hosts["a"].process

    def stop() -> None:
        until(lambda: LONG in children(worker.pid))
        worker.send_signal(signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    run = ready.run(executor=executor)
    stopper.join()
    assert worker.wait() == 0
    assert {record["status"] for record in records(run)} == {"failed"}
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


def test_an_interrupted_run_frees_its_hosts_at_once(tmp_path: Path, pair: tuple[str, dict[str, Host]]) -> None:
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
        assert f"ioassay run --resume run --executor {executor}" in running.err
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
    from ioassay.runner import host_session
    from ioassay.runner.host_session import Opening, Session
    from ioassay.runner.hosts import Measured
    from ioassay.study import plan

    suite = made.suite(["a"], driver="command", params={"argv": ["sleep", LONG], "expected_time": "1s"})
    session = Session(Opening("t", "a", suite, Consent((), True)), tmp_path)
    session.examine()
    answers: list[Measured] = []
    asker = threading.Thread(target=lambda: answers.append(session.measure(next(plan.trials(suite)))))
    asker.start()
    until(lambda: LONG in children(os.getpid()))
    monkeypatch.setattr(host_session, "LEASE_S", 0.1)
    asker.join()
    (measured,) = answers
    assert json.loads(measured.files["record.json"])["reason"].startswith(
        "ended by the lab: its run has not asked about it"
    )
    until(lambda: session.state().ended != "")
    assert session.is_over
    session.close()
