"""Results of `fio --client`, captured from two servers on hosts of their own, in each format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ioassay import formats
from ioassay.formats import fio_clients, fio_json, fio_terse, fio_text
from ioassay.formats.fio_results import Clients, Results, elapsed_s

FIO = Path(__file__).parents[1] / "golden" / "fio"
BOTH = {"127.0.0.2", "127.0.0.3"}


@pytest.fixture(params=["3.33", "3.42"])
def golden(request: pytest.FixtureRequest) -> Path:
    """The captured outputs of each version in turn: one table of global options for all clients, one for each."""
    return FIO / str(request.param) / "clients"


def read(path: Path) -> tuple[Results, Clients]:
    found = fio_json.parse(path.read_text(), path.name)
    assert found.clients is not None
    return found, found.clients


def changed(path: Path, change: Any) -> Results:
    """The results in a document after `change` was made to it."""
    text = path.read_text()
    document = json.loads(text[text.index("{\n") :])
    change(document)
    return fio_json.parse(json.dumps(document), path.name)


def test_each_job_has_its_client_and_the_sum_is_kept_apart(golden: Path) -> None:
    found, clients = read(golden / "same-job.json")
    assert {job.client for job in found.jobs} == BOTH == {disk.client for disk in found.disks}
    assert [job.name for job in found.jobs] == ["mix", "mix"]
    assert clients.total is not None
    assert clients.total.ios == sum(job.ios for job in found.jobs)
    assert not any("port" in disk.counts for disk in found.disks)


def test_fio_itself_has_no_clients() -> None:
    found = fio_json.parse((FIO / "3.33" / "read" / "fio.json").read_text(), "it")
    assert (found.clients, [job.client for job in found.jobs]) == (None, [""])


def test_options_of_one_job_file_are_those_of_all_clients(golden: Path) -> None:
    found, clients = read(golden / "same-job.json")
    assert clients.unattributed == []
    assert all(job.options["bs"] == "16k" and job.options["ioengine"] == "psync" for job in found.jobs)


def test_options_of_several_job_files_are_attributed_only_where_fio_says_whose_they_are() -> None:
    old, of_old = read(FIO / "3.33" / "clients" / "different-jobs.json")
    assert set(of_old.unattributed) == {"bs", "ioengine"}
    assert all(job.options["size"] == "1m" and "bs" not in job.options for job in old.jobs)
    new, of_new = read(FIO / "3.42" / "clients" / "different-jobs.json")
    assert of_new.unattributed == []
    assert {job.name: (job.options["bs"], job.options.get("ioengine")) for job in new.jobs} == {
        "mix": ("16k", "psync"),
        "other": ("64k", None),
    }


def test_the_option_of_one_client_alone_is_not_given_to_the_other() -> None:
    assert fio_clients.shared_options([("size", "1m"), ("direct", "1"), ("size", "1m")], 2) == (
        {"size": "1m"},
        ["direct"],
    )


def test_files_of_one_client_are_its_own_whatever_the_document_repeats(golden: Path) -> None:
    found, clients = read(golden / "stages.json")
    assert {job.options["filename"] for job in found.jobs} == {"data"}
    assert clients.unattributed == []


def test_fios_sum_is_that_of_its_clients(golden: Path) -> None:
    for name in ("same-job", "different-jobs", "without-bins"):
        found, clients = read(golden / f"{name}.json")
        assert clients.total is not None
        assert fio_clients.differences(found) == []


def test_stages_make_fios_rate_too_high(golden: Path) -> None:
    """It divides the bytes of all stages by the time of the longest one."""
    found, _ = read(golden / "stages.json")
    (difference,) = fio_clients.differences(found)
    assert difference.metric == "read.bw" and difference.stated > difference.merged
    each_s = {name: elapsed_s([job for job in found.jobs if job.client == name], ("read",)) for name in BOTH}
    assert elapsed_s(found.jobs, ("read",)) == max(each_s.values())
    longest_s = max(job.directions["read"].runtime_s for job in found.jobs)
    assert max(each_s.values()) > longest_s


@pytest.mark.parametrize(
    ("where", "metric"),
    [
        (("total_ios",), "read.ios"),
        (("io_bytes",), "read.bytes"),
        (("bw_bytes",), "read.bw"),
        (("lat_ns", "mean"), "read.lat.mean"),
        (("lat_ns", "stddev"), "read.lat.stddev"),
        (("lat_ns", "min"), "read.lat.min"),
        (("clat_ns", "max"), "read.clat.max"),
        (("clat_ns", "percentile", "99.900000"), "read.clat.p99.9"),
    ],
)
def test_a_sum_that_is_another_is_found(where: tuple[str, ...], metric: str) -> None:
    def change(document: Any) -> None:
        table = document["client_stats"][-1]["read"]
        for key in where[:-1]:
            table = table[key]
        table[where[-1]] = int(table[where[-1]] * 1.01) + 2

    found = changed(FIO / "3.42" / "clients" / "same-job.json", change)
    assert [one.metric for one in fio_clients.differences(found)] == [metric]


def test_a_job_that_is_called_all_clients_is_no_sum() -> None:
    def change(document: Any) -> None:
        document["client_stats"][0]["jobname"] = "All clients"

    found = changed(FIO / "3.42" / "clients" / "same-job.json", change)
    assert [job.name for job in found.jobs] == ["All clients", "mix"]


def test_a_client_that_ended_or_was_never_there_is_named(golden: Path) -> None:
    lost, of_lost = read(golden / "lost.json")
    assert list(of_lost.absent) == ["127.0.0.3"] and "lost" in of_lost.absent["127.0.0.3"]
    unreached, of_unreached = read(golden / "unreached.json")
    assert list(of_unreached.absent) == ["127.0.0.3"] and "connect" in of_unreached.absent["127.0.0.3"]
    assert [job.client for job in (*lost.jobs, *unreached.jobs)] == ["127.0.0.2", "127.0.0.2"]
    assert of_lost.total is None


def test_of_two_servers_on_one_host_the_lost_one_is_not_the_other() -> None:
    found = fio_clients.absent("client: host=10.0.0.1 disconnected\n", ["10.0.0.1"])
    assert list(found) == ["10.0.0.1:?"]


def test_a_socket_is_called_by_its_path(golden: Path) -> None:
    found, _ = read(golden / "one-socket.json")
    assert [job.client for job in found.jobs] == ["/golden/fio.sock"]


def test_the_other_formats_do_not_count_the_sum_again(golden: Path) -> None:
    terse = fio_terse.parse((golden / "terse.txt").read_text(), "it")
    assert [job.name for job in terse.jobs] == ["mix", "mix"]
    printed, _ = fio_text.parse((golden / "normal.txt").read_text(), "it")
    assert [job.name for job in printed.jobs] == ["mix", "mix"]


@pytest.mark.parametrize("name", ["same-job.json", "terse.txt", "normal.txt"])
def test_claims_are_those_of_the_servers_in_each_format(golden: Path, name: str) -> None:
    """JSON names them; of the other formats the command line does. Each operation is claimed once."""
    claims = formats.read(["fio", "--client=hosts.list", "mix.fio"], (golden / name).read_text())
    found, _ = read(golden / "same-job.json")
    assert [claim.kind for claim in claims] == ["read", "write"]
    servers = BOTH if name.endswith("json") else {"hosts.list"}
    assert all(set(claim.servers) == servers and not claim.paths for claim in claims)
    reads = sum(job.directions["read"].ios for job in found.jobs)
    assert name == "terse.txt" or claims[0].operations == reads


@pytest.mark.parametrize(
    ("host", "port", "name"),
    [
        ("", 80, ""),
        ("a", 8765, "a"),
        ("a", 80, "a:80"),
        ("::1", 80, "[::1]:80"),
        ("::1", 8765, "::1"),
        ("/a.sock", 8765, "/a.sock"),
    ],
)
def test_names_of_clients(host: str, port: int, name: str) -> None:
    assert fio_clients.client_name(host, port) == name


@pytest.mark.parametrize(
    ("words", "servers"),
    [
        (["fio", "--client=a", "x.fio", "--client=b", "y.fio"], ("a", "b")),
        (["sudo", "fio", "--client", "ip:10.0.0.1,9000", "x.fio"], ("10.0.0.1:9000",)),
        (["fio", "--client=ip6:::1,4444", "x.fio"], ("[::1]:4444",)),
        (["fio", "--client=sock:/run/fio.sock", "x.fio"], ("/run/fio.sock",)),
        (["sh", "-c", "fio --client=hosts.list x.fio"], ("hosts.list",)),
        (["fio", "x.fio", "--clientuid=3"], ()),
        (["dd", "--client=a"], ()),
    ],
)
def test_servers_of_a_command_line(words: list[str], servers: tuple[str, ...]) -> None:
    assert fio_clients.named_servers(words) == servers


@pytest.mark.parametrize(
    ("server", "here"),
    [
        *(("/run/fio.sock", True), ("localhost", True), ("localhost:80", True), ("127.0.0.3", True)),
        *(("127.0.0.3:80", True), ("[::1]:4444", True), ("::1", True), ("10.0.0.1", False), ("host-a:80", False)),
        *(("fe80::1", False), ("hosts.list", False)),
    ],
)
def test_loopback_and_sockets_are_of_this_host(server: str, here: bool) -> None:
    assert fio_clients.is_of_this_host(server) is here
