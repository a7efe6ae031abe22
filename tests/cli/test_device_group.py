"""Several drives of one process, and several namespaces of one drive, with real programs as clients."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ioassay.simulator import drive_files
from ioassay.virtual_drive import control

from .drives import COMMAND, PATIENCE_S, Drive, served, typed

MIB = 2**20
DRIVES = """
[[drive]]
transport = "nbd:unix:a.sock"
namespaces = "16MiB,8MiB"
model = "none"
stats = "a.stats"

[[drive]]
transport = "nbd:unix:b.sock"
size = "32MiB"
drive = "qlc-client"
calibrate = false
"""


@contextmanager
def group(folder: Path, text: str) -> Iterator[list[Drive]]:
    """The drives of a file, of one process."""
    (folder / "drives.toml").write_text(text)
    argv = [*COMMAND, "serve", "--json", "--config", "drives.toml"]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            drives = []
            for number in range(text.count("[[drive]]")):
                line = process.stdout.readline()
                assert line, process.stderr.read()
                drives.append(Drive(process, json.loads(line)))
                assert drives[-1].told["drive"] == number
            yield drives
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            process.kill()


def fio(uri: str, *options: str) -> list[str]:
    argv = ["fio", "--name=j", "--ioengine=nbd", f"--uri={uri}", "--thread", "--output-format=json", "--bs=4k"]
    return [*argv, "--eta=never", "--verify_state_save=0", *options]


def run(argv: list[str]) -> dict[str, Any]:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    assert found["error"] == 0
    return found


def stats(drive: Drive) -> dict[str, Any]:
    found: dict[str, Any] = control.ask(Path(drive.told["stats"]), "stats")["stats"]
    return found


# Several drives


@pytest.mark.fio
def test_two_drives_are_loaded_at_once_one_stops_and_the_process_ends_with_the_other(tmp_path: Path) -> None:
    verify = ("--rw=randwrite", "--size=8m", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1")
    endless = ("--rw=randread", "--size=8m", "--iodepth=8", "--time_based", "--runtime=600")
    with group(tmp_path, DRIVES) as (first, second):
        assert second.told["profile"] == "qlc-client"
        with subprocess.Popen(fio(first.told["nbd"], *endless), stdout=subprocess.DEVNULL) as victim:
            try:
                run(fio(second.told["nbd"], *verify))
                while not stats(first)["reads"]["commands"]:
                    assert victim.poll() is None
            finally:
                victim.kill()
        run(fio(first.told["nbd"], *verify))
        assert first.ask("stop") == {"stopped": str(tmp_path / "a.stats")}
        assert not (tmp_path / "a.sock").exists()
        assert not (tmp_path / "a.stats").exists()
        run(fio(second.told["nbd"], *verify))
        assert stats(second)["writes"]["errors"] == 0
        second.ask("stop")
        assert second.process.wait(PATIENCE_S) == 0
    assert not (tmp_path / "b.sock").exists()
    assert not Path(second.told["stats"]).parent.exists()


@pytest.mark.root
def test_a_signal_ends_all_drives_and_nothing_stays_mounted(tmp_path: Path) -> None:
    drive = '[[drive]]\nsize = "8MiB"\ncalibrate = false\ntransport = '
    with group(tmp_path, f'{drive}"fuse:a,nbd:unix:a.sock"\n{drive}"fuse:b"\n') as drives:
        for name, value in (("a", b"a"), ("b", b"b")):
            with (tmp_path / name).open("r+b", buffering=0) as file:
                file.write(value * 4096)
        for name, value in (("a", b"a"), ("b", b"b")):
            assert (tmp_path / name).open("rb").read(4096) == value * 4096
        assert drives[0].end(signal.SIGINT) == (0, "")
    assert os.listdir(tmp_path) == ["drives.toml"]


@pytest.mark.root
def test_a_drive_that_is_refused_leaves_nothing_of_the_others(tmp_path: Path) -> None:
    drive = '[[drive]]\nsize = "8MiB"\nmodel = "none"\ntransport = '
    for second, said in (
        ('"fuse:a"', "drive[1]: path is "),
        ('"nbd:unix:b"\nfile = "a"', "drive[1]: path is "),
        ('"nbd:unix:b"\npin = 9999', "drive[1]: pin is 9999"),
        ('"fuse:b,namespace=2"', "drive[1]: namespace is 2, wanted at most 1"),
        ('"nbd:unix:b"\nsise = 1', "drive[1].sise: unknown key"),
    ):
        (tmp_path / "drives.toml").write_text(f'{drive}"fuse:a"\n{drive}{second}\n')
        done = typed(tmp_path, "serve", "--config", "drives.toml")
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.startswith(f"ioassay: drives.toml: {said}"), done.stderr
        assert os.listdir(tmp_path) == ["drives.toml"]


def test_options_beside_a_file_of_drives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "drives.toml").write_text(DRIVES)
    for words, said in (
        (("--size", "1GiB"), "--size is not used with --config; wanted 'size' in a [[drive]] of drives.toml"),
        (("--file", "x"), "--file is not used with --config"),
        (("--no-calibrate",), "--calibrate is not used with --config"),
        (("--set", "read_us=1"), "--set is not used with --config"),
    ):
        done = typed(tmp_path, "serve", "--config", "drives.toml", *words)
        assert done.returncode == 2
        assert said in done.stderr, done.stderr


# Several namespaces


@pytest.mark.fio
def test_fio_verifies_two_exports_of_one_drive(tmp_path: Path) -> None:
    verify = ("--rw=randwrite", "--size=100%", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1")
    words = ("--namespaces", "8MiB,4MiB", "--transport", "nbd:unix:a", "--model", "none", "--no-calibrate")
    with served(tmp_path, *words) as drive:
        exports = [f"nbd+unix:///{name}?socket={tmp_path}/a" for name in ("drive", "drive-2")]
        both = [subprocess.Popen(fio(uri, *verify), stdout=subprocess.PIPE, text=True) for uri in exports]
        for one in both:
            assert one.wait(PATIENCE_S) == 0, one.stdout and one.stdout.read()
            assert one.stdout is not None
            one.stdout.close()
        counted = stats(drive)["namespaces"]
        assert [one["writes"]["bytes"] for one in counted] == [8 * MIB, 4 * MIB]
        assert [one["reads"]["bytes"] for one in counted] == [8 * MIB, 4 * MIB]
        if shutil.which("nbdinfo"):
            listed = subprocess.run(
                ["nbdinfo", "--list", "--json", drive.told["nbd"]], capture_output=True, text=True, check=True
            )
            found = json.loads(listed.stdout)["exports"]
            sizes = {one["export-name"]: one["export-size"] for one in found}
            assert sizes == {"drive": 8 * MIB, "drive-2": 4 * MIB}


@pytest.mark.root
def test_each_namespace_may_be_a_mounted_file(tmp_path: Path) -> None:
    ways = ("--transport", "fuse:one,nbd:unix:a", "--transport", "fuse:two,namespace=2")
    with served(tmp_path, "--namespaces", "8MiB,4MiB", *ways, "--model", "none", "--no-calibrate") as drive:
        assert [one["size_bytes"] for one in drive.told["namespaces"]] == [8 * MIB, 4 * MIB]
        one, two = tmp_path / "one", tmp_path / "two"
        assert (one.stat().st_size, two.stat().st_size) == (8 * MIB, 4 * MIB)
        one.open("r+b", buffering=0).write(b"1" * MIB)
        with two.open("r+b", buffering=0) as file:
            os.lseek(file.fileno(), 4 * MIB - 4096, os.SEEK_SET)
            assert os.write(file.fileno(), b"2" * 8192) == 4096, "no byte beyond the end"
        assert one.read_bytes() == b"1" * MIB + bytes(7 * MIB)
        assert two.read_bytes() == bytes(4 * MIB - 4096) + b"2" * 4096
        # Through the page cache, after a change over another way: it is dropped in the right file.
        with one.open("rb") as source, (tmp_path / "copy").open("wb") as copy:
            os.sendfile(copy.fileno(), source.fileno(), 0, 4096)
            one.open("r+b", buffering=0).write(b"3" * 4096)
            os.sendfile(copy.fileno(), source.fileno(), 0, 4096)
        assert (tmp_path / "copy").read_bytes() == b"1" * 4096 + b"3" * 4096
        assert drive.end() == (0, "")


# Descriptions of drives


@pytest.mark.fio
@pytest.mark.slow
def test_each_description_is_served_by_its_name_several_at_once(tmp_path: Path) -> None:
    names = list(drive_files.builtin())
    for start in range(0, len(names), 3):
        chosen = names[start : start + 3]
        tables = [
            f'[[drive]]\nsize = "64MiB"\ndrive = "{name}"\ncalibrate = false\ntransport = "nbd:unix:{number}"\n'
            for number, name in enumerate(chosen)
        ]
        with group(tmp_path, "".join(tables)) as drives:
            assert [drive.told["profile"] for drive in drives] == chosen
            for drive in drives:
                read = run(fio(drive.told["nbd"], "--rw=randrw", "--size=1m"))
                assert read["read"]["total_ios"] + read["write"]["total_ios"] == 256
                assert stats(drive)["reads"]["errors"] == 0
                if shutil.which("nbdinfo"):
                    argv = ["nbdinfo", "--json", drive.told["nbd"]]
                    info = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
                    assert info["exports"][0]["description"] == f"ioassay {drive.told['profile']}"
