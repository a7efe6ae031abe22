"""Names of executors: what they mean, and what a wrong one is told."""

import pytest

from ioassay import cluster
from ioassay.cluster import executor_name
from ioassay.cluster.executor_name import BatchJobs, HostCluster, OwnProcesses, Scheduler
from ioassay.errors import UsageError

from ..corpora import cases


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("local", OwnProcesses()),
        ("dask:local", HostCluster()),
        ("dask:local,workers=3", HostCluster(3)),
        ("dask://node1:8786", Scheduler("node1", 8786)),
        ("dask://[::1]:8786", Scheduler("[::1]", 8786)),
        ("dask://node1:8786,encryption=none", Scheduler("node1", 8786, plaintext=True)),
        ("slurm:partition=long,jobs=32", BatchJobs("slurm", 32, queue="long")),
        (
            "pbs:queue=q,jobs=2,cores=4,memory=8GiB,walltime=01:30:00,account=a1,interface=ib0",
            BatchJobs("pbs", 2, "q", "a1", 4, 8 * 2**30, "01:30:00", "ib0"),
        ),
        ("lsf:jobs=1", BatchJobs("lsf", 1)),
    ],
)
def test_a_name_means_workers(text: str, meaning: object) -> None:
    assert executor_name.read(text) == meaning


@cases("cluster", "executor_names")
def test_a_wrong_name_is_told_what_is_wanted(case: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="^--executor") as raised:
        executor_name.read(case["text"])
    assert case["says"] in str(raised.value)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("localhost", True), ("127.0.0.8", True), ("[::1]", True), ("10.0.0.1", False), ("node1", False)],
)
def test_only_addresses_of_this_host_are_loopback(host: str, is_loopback: bool) -> None:
    assert Scheduler(host, 1).is_loopback is is_loopback


def test_a_network_that_was_not_called_trusted_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing would be encrypted.*: dask://node1:8786,encryption=none$"):
        cluster.places("dask://node1:8786")
    assert cluster.places("dask://node1:8786,encryption=none") is None
    assert cluster.places("slurm:jobs=3,cores=4") == 12


def test_a_missing_extra_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"^--executor dask:local needs distributed; install it: pip install 'ioass"):
        cluster.places("dask:local")
    with pytest.raises(UsageError, match="needs dask_jobqueue; install it"):
        cluster.places("slurm:jobs=1")
    assert cluster.places("local")
