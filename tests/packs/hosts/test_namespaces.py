"""Two hosts that share nothing: network namespaces and root folders of their own, over plaintext and over TLS."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import polars
import pytest

import ioassay as ia

from ...cli.command_server import CommandServer
from ...patience import PATIENCE_S, until

pytestmark = [pytest.mark.root, pytest.mark.fio, pytest.mark.timeout(900)]  # six minutes at load 24

REPOSITORY = Path(__file__).resolve().parents[2]
PLACE = f"/tmp/host-{os.getpid()}"  # of each worker, below its root
HUB, PORT = "10.213.7.1", 8786
STUDY = """
title = "Two roots"
driver = "fio"
repetitions = 2
[target]
kind = "file"
path = "data"
size = "4MiB"
[params]
rw = "randrw"
bs = "4k"
size = "4MiB"
ioengine = "psync"
[run]
hosts = ["a", "b"]
together = true
"""
Commands = Callable[..., tuple[int, str, str]]
"""Exit status, output and errors of a command line."""

ROOT = """
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
for place in dev sys; do mount --rbind "/$place" "$1/root/$place"; done
mount -t proc proc "$1/root/proc"
mount -t tmpfs tmpfs "$1/root/tmp"
for place in "$2" "$3" "$4"; do
    mkdir -p "$1/root/$place"
    mount --rbind "$place" "$1/root/$place"
done
mkdir "$1/root$5" "$1/root/before"
cd "$1/root"
shift 5
pivot_root . before
umount --lazy /before
exec chroot . "$@"
"""
"""A root folder of its own at $1, with the folders $2 to $4 of this one; then the command.

No mount of another test is kept by a copy of it here.
"""


@contextmanager
def namespaces(*names: str) -> Iterator[Mapping[str, str]]:
    """Network namespaces, by name; the first has a bridge with HUB that the others are at. Nothing reaches the host."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    tag = f"ioa{os.getpid()}"
    spaces = {name: f"{tag}-{name}" for name in names}
    hub, *others = names
    with ExitStack() as stack:
        for space in spaces.values():
            ip("netns", "add", space)
            stack.callback(ip, "netns", "del", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", spaces[hub], "link", "add", "bridge", "type", "bridge")
        ip("-n", spaces[hub], "addr", "add", f"{HUB}/24", "dev", "bridge")
        ip("-n", spaces[hub], "link", "set", "bridge", "up")
        for number, name in enumerate(others, start=2):
            pair = ("link", "add", "uplink", "type", "veth", "peer", "name", f"to-{name}", "netns", spaces[hub])
            ip("-n", spaces[name], *pair)
            ip("-n", spaces[hub], "link", "set", f"to-{name}", "master", "bridge", "up")
            ip("-n", spaces[name], "addr", "add", f"10.213.7.{number}/24", "dev", "uplink")
            ip("-n", spaces[name], "link", "set", "uplink", "up")
        yield spaces


class Inside:
    """Starts programs in namespaces, and ends them."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = folder, {**os.environ, "HOME": str(folder), **environment}
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, space: str, log: str, *words: str) -> Path:
        path = self.folder / log
        with path.open("wb") as file:
            command = ["nsenter", f"--net=/run/netns/{space}", *words]
            self.running.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=self.environment))
        return path

    def worker(self, space: str, name: str, address: str) -> Path:
        """A worker in a root folder of its own."""
        root = self.folder / f"{name}.root"
        root.mkdir()
        shared = [str(REPOSITORY), sys.prefix, str(self.folder / "keys"), PLACE]
        inner = [sys.executable, "-m", "ioassay", "worker", address, "--name", name, "--dir", PLACE]
        return self.start(
            space, f"{name}.log", "unshare", "--mount", "sh", "-euc", ROOT, "sh", str(root), *shared, *inner
        )

    def stop(self) -> None:
        for process in reversed(self.running):
            process.terminate()
            process.wait(timeout=PATIENCE_S)


@contextmanager
def running(folder: Path, scheme: str, environment: Mapping[str, str], suffix: str) -> Iterator[Commands]:
    """A scheduler and two hosts; what answers commands in the namespace of the scheduler."""
    (folder / "keys").mkdir(exist_ok=True)
    inside = Inside(folder, environment)
    with namespaces("hub", "a", "b") as spaces:
        try:
            log = inside.start(
                spaces["hub"],
                "scheduler.log",
                *(sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", f"{scheme}://{HUB}"),
                *("--port", str(PORT), "--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
            )
            until(lambda: "Scheduler at" in log.read_text())
            for name in ("a", "b"):
                said = inside.worker(spaces[name], name, f"{scheme}://{HUB}:{PORT}{suffix}")
                until(lambda said=said: "measures for runs" in said.read_text())
            server = CommandServer(ahead=("nsenter", f"--net=/run/netns/{spaces['hub']}"))
            try:
                yield lambda *words, **other: server.run(words, folder, {**inside.environment, **other}, 600)
            finally:
                server.close()
        finally:
            inside.stop()


def test_hosts_with_roots_of_their_own_measure_together(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(STUDY)
    with running(tmp_path, "tcp", {}, ",encryption=none") as ioassay:
        code, _, err = ioassay("run", "two.toml", "--executor", f"dask://{HUB}:{PORT}")
        assert code == 2
        assert "nothing would be encrypted" in err
        executor = f"dask://{HUB}:{PORT},encryption=none"
        code, two, err = ioassay("run", "two.toml", "--executor", executor, "--output", "run", "--json")
        assert code == 0, err
        words = ["--scale", "quick", "--repetitions", "2", "--set", "runtime=200ms", "--set", "target.size=16MiB"]
        code, fleet, err = ioassay("run", "fleet", *words, "--executor", executor, "--output", "fleet", "--json")
        denied = ia.open(tmp_path / "fleet").claims.filter(polars.col("verdict") == "CONTRADICTED")
        assert code == 0, (err, denied.rows(named=True))
    # The built-in study of a fleet measured every host there was, and asks which is slow.
    found, answer = json.loads(fleet), json.loads(two)
    assert found["trials"]["ok"] == 6 * 2 * 2
    assert "hosts" in {finding["question"] for finding in found["findings"]}
    assert "fleet_hosts" in {figure["name"] for figure in found["figures"] if not figure["problem"]}
    assert answer["trials"]["ok"] == 4
    assert {file["path"] for file in answer["kept_files"]} == {f"a:{PLACE}/data", f"b:{PLACE}/data"}
    assert not Path(PLACE).exists()
    require_confirmed(tmp_path / "run")


def test_tls_admits_those_with_a_certificate(tmp_path: Path) -> None:
    from distributed.security import Security

    (tmp_path / "two.toml").write_text(STUDY)
    made = Security.temporary()
    (tmp_path / "keys").mkdir()
    prefix, environment = "DASK_DISTRIBUTED__COMM__TLS__", {}
    files = {"ca": made.tls_ca_file, "cert": made.tls_client_cert, "key": made.tls_client_key}
    for name, content in files.items():
        (tmp_path / "keys" / name).write_text(content)
        variables = (
            ["CA_FILE"] if name == "ca" else [f"{role}__{name.upper()}" for role in ("SCHEDULER", "WORKER", "CLIENT")]
        )
        environment |= {prefix + variable: str(tmp_path / "keys" / name) for variable in variables}
    with running(tmp_path, "tls", environment, "") as ioassay:
        executor = f"dask://{HUB}:{PORT}"
        code, two, err = ioassay("run", "two.toml", "--executor", executor, "--output", "run", "--json")
        assert code == 0, err
        stranger = dict.fromkeys(environment, "")
        code, _, err = ioassay("run", "two.toml", "--executor", f"{executor},encryption=none", **stranger)
        assert code == 1
        assert "no Dask scheduler answers" in err
        code, _, err = ioassay("worker", f"tls://{HUB}:{PORT}", **stranger)
        assert code == 2
        assert "has no certificates" in err
    assert json.loads(two)["trials"]["ok"] == 4
    require_confirmed(tmp_path / "run")


def require_confirmed(run: Path) -> None:
    """Both hosts measured the same instants, and a witness saw it there."""
    records = [json.loads(path.read_text()) for path in run.glob("trials/*/record.json")]
    for repetition in (0, 1):
        group = [record for record in records if record["trial"]["repetition"] == repetition]
        assert {record["trial"]["point"]["host"] for record in group} == {"a", "b"}
        first, second = (record["started_unix_s"] - record["metrics"]["start.late"] / 1e9 for record in group)
        assert abs(first - second) <= sum(record["metrics"]["start.uncertainty"] for record in group) / 1e9
    assert len(list(run.glob("trials/*/witness.json"))) == 4
