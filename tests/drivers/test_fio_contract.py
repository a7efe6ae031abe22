"""The driver against the fio that is installed: what it emits is taken, what it foretells happens."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.fio import Fio, fio_options
from ioassay.drivers.fio.section import fio_bytes
from ioassay.errors import StudyError
from ioassay.formats import fio_json
from ioassay.process import supervisor
from ioassay.roles import WRITE, Load, Outcome, Parsed, Trial

pytestmark = pytest.mark.fio
SIZE = 8 * 2**20


@pytest.fixture(scope="session")
def fio() -> Fio:
    """A driver that has asked the installed fio for its lists."""
    made = Fio()
    tool = made.tool()
    answers = {name: supervisor.capture(argv).stdout for name, argv in tool.probes.items()}
    made.configure(supervisor.capture(tool.version_argv).stdout, answers)
    return made


@pytest.fixture
def testfile(tmp_path: Path) -> Path:
    path = tmp_path / "testfile"
    path.write_bytes(os.urandom(SIZE))
    return path


def run(
    fio: Fio, params: dict[str, Any], load: Load, folder: Path, seed: int = 1, **how: Any
) -> tuple[Parsed, Outcome]:
    """Run one trial as `ioassay.runner.run` would, in folder/raw-<seed>."""
    raw = folder / f"raw-{seed}"
    raw.mkdir()
    trial = Trial("0123", "study", "fio", {}, params, {}, {}, 0, seed, 0)
    command = replace(fio.command(trial, load, raw), **how)
    for name, text in command.files.items():
        (raw / name).write_text(text)
    outcome = supervisor.run(
        command.argv, stdout=raw / "stdout", stderr=raw / "stderr", timeout_s=command.timeout_s, cwd=command.cwd
    )
    return fio.parse(trial, outcome, raw), outcome


def load(path: Path, read_only: bool = False) -> Load:
    return Load("file", path, SIZE, read_only)


def run_job(fio: Fio, text: str, folder: Path) -> Parsed:
    """Run a job file that lies in `folder`."""
    params = {"job": text, "job_path": str(folder / "my.fio")}
    found, _ = run(fio, params, Load("null", None, 0, False), folder)
    return found


@pytest.mark.parametrize("engine", ["psync", "sync", "libaio", "io_uring", "mmap"])
def test_each_engine_measures_reads_and_writes(fio: Fio, engine: str, testfile: Path, tmp_path: Path) -> None:
    params = {"ioengine": engine, "rw": "randrw", "bs": "4KiB", "runtime": "300ms", "direct": int(engine != "mmap")}
    fio.validate(params, {"kind": "file", "path": str(testfile), "size": SIZE})
    found, _ = run(fio, params, load(testfile), tmp_path)
    if engine == "io_uring" and "io_uring_disabled" in found.reason:
        pytest.skip(found.reason)
    assert (found.status, found.reason) == ("ok", "")
    assert {"read.bw", "write.bw", "read.lat.p99", "write.clat.mean", "cpu.sys"} <= found.metrics.keys()
    assert found.metrics["total.runtime"] >= 0.29  # asked: 0.3 s; a busy machine takes longer


def test_the_null_engine_needs_no_target(fio: Fio, tmp_path: Path) -> None:
    found, _ = run(
        fio, {"ioengine": "null", "rw": "randread", "runtime": "200ms"}, Load("null", None, 0, True), tmp_path
    )
    assert found.status == "ok"
    assert found.metrics["read.iops"] > 1000


def test_a_read_only_load_leaves_the_file_as_it_is(fio: Fio, testfile: Path, tmp_path: Path) -> None:
    before = testfile.read_bytes()
    found, _ = run(fio, {"rw": "read", "bs": "64k"}, load(testfile, read_only=True), tmp_path)
    assert found.metrics["read.bytes"] == SIZE
    assert testfile.read_bytes() == before


def test_a_split_and_sizes_by_direction_are_taken(fio: Fio, testfile: Path, tmp_path: Path) -> None:
    mixed = {"rw": "randread", "bssplit": "4KiB/50:64KiB/50", "number_ios": 100}
    found, _ = run(fio, mixed, load(testfile), tmp_path, seed=1)
    assert 100 * 4096 < found.metrics["read.bytes"] < 100 * 65536
    found, _ = run(fio, {"rw": "rw", "bs": "4k,16k", "number_ios": 200}, load(testfile), tmp_path, seed=2)
    assert found.metrics["write.bytes"] == found.metrics["write.ios"] * 16384
    assert found.metrics["read.bytes"] == found.metrics["read.ios"] * 4096


def offsets(fio: Fio, testfile: Path, folder: Path, seed: int) -> list[str]:
    """The requests of a trial with this seed."""
    folder.mkdir()
    trial = Trial("0123", "s", "fio", {}, {"rw": "randread", "io_size": "256k"}, {}, {}, 0, seed, 0)
    text = fio.command(trial, load(testfile), folder).files["job.fio"] + f"write_iolog={folder}/requests\n"
    (folder / "job.fio").write_text(text)
    subprocess.run(["fio", "--output=/dev/null", folder / "job.fio"], check=True, cwd=folder)
    return [line.split(maxsplit=1)[1] for line in (folder / "requests").read_text().splitlines() if " read " in line]


def test_the_same_seed_gives_the_same_requests_and_another_seed_others(
    fio: Fio, testfile: Path, tmp_path: Path
) -> None:
    first = offsets(fio, testfile, tmp_path / "a", 5)
    assert len(first) == 64
    assert offsets(fio, testfile, tmp_path / "b", 5) == first
    assert offsets(fio, testfile, tmp_path / "c", 6) != first


def test_logs_become_series_of_each_job(fio: Fio, testfile: Path, tmp_path: Path) -> None:
    params = {"rw": "randrw", "runtime": "500ms", "numjobs": 2, "logs": ["bw", "lat"], "log_interval": "50ms"}
    found, _ = run(fio, params, load(testfile), tmp_path)
    assert not found.warnings
    assert {(s.metric, s.job) for s in found.series} == {
        (metric, job) for metric in ("read.bw", "write.bw", "read.lat.mean", "write.lat.mean") for job in (-1, 0, 1)
    }


def test_a_run_that_hangs_is_a_failed_trial(fio: Fio, testfile: Path, tmp_path: Path) -> None:
    found, outcome = run(fio, {"rw": "read", "runtime": "20s"}, load(testfile), tmp_path, timeout_s=0.5)
    assert outcome.timed_out
    assert found.status == "failed"
    assert "raise run.timeout" in found.reason


def test_a_full_disk_is_a_failed_trial_with_its_remedy(fio: Fio, tmp_path: Path) -> None:
    found, _ = run(fio, {"rw": "write", "bs": "64k"}, Load("file", Path("/dev/full"), SIZE, False), tmp_path)
    assert found.status == "failed"
    assert "No space left" in found.reason
    assert "free some space" in found.reason


@pytest.mark.root
def test_a_mounted_disk_is_a_failed_trial_though_fio_exits_with_0(
    fio: Fio, loop_device: Callable[..., Path], tmp_path: Path
) -> None:
    device, at = loop_device(SIZE), tmp_path / "mounted"
    at.mkdir()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    subprocess.run(["mount", device, at], check=True)
    try:
        whole = Load("device", device, SIZE, False)
        found, outcome = run(fio, {"rw": "write", "runtime": "200ms"}, whole, tmp_path)
    finally:
        subprocess.run(["umount", at], check=True)
    assert outcome.exit_code == 0
    assert found.status == "failed"
    assert "mounted" in found.reason


SPELLINGS = ["4k", "4K", "4KiB", "4kib", "4ki", "4kb", "4KB", "4096", "4096b", "0x1000", "1m", "1MiB", "1mb", "2Mi"]


@pytest.mark.parametrize("kb_base", [1024, 1000])
def test_sizes_are_read_as_fio_reads_them(fio: Fio, kb_base: int, tmp_path: Path) -> None:
    """One write of each size by the null engine tells what fio made of it."""
    shared = f"[global]\nioengine=null\nrw=write\nsize=64m\nnumber_ios=1\nkb_base={kb_base}\n"
    text = shared + "".join(f"[job {place}]\nbs={size}\n" for place, size in enumerate(SPELLINGS))
    run_job(fio, text, tmp_path)
    jobs = fio_json.parse((tmp_path / "raw-1" / "fio.json").read_text(), "fio.json").jobs
    seen = [job.directions["write"].bytes for job in jobs]
    assert seen == [fio_bytes(size, kb_base) for size in SPELLINGS]


JOB_FILES = [
    "[a]\n",
    "[a]\nnumjobs=2\nnrfiles=2\n",
    "[global]\nfilename=shared\n[a]\n[b]\nfilename=own\n",
    "[a]\nfilename=x:y\\:z:w # comment\n",
    "[a]\nfilename= lead\n[b c]\n",
    "[a]\ndirectory=d\nfilename=/x\n",
    "[a]\ndirectory=d:e\nnumjobs=2\n",
    "[a]\nname=other\ndirectory=d\nfilename_format=$jobname-$jobnum-$filenum.dat\nnumjobs=2\n",
    "[globals]\nnrfiles=3\n[a]\n",
    "[a]\nfilename=from${MY_DISK}\n",
    "[a]\ninclude more.inc\n",
    "[a]\nrw=read\nfilename=laid-out\n",
]


@pytest.mark.parametrize("text", JOB_FILES)
def test_fio_makes_the_files_that_were_foretold(
    fio: Fio, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_DISK", "-environment")
    for folder in ("d", "e"):
        (tmp_path / folder).mkdir()
    (tmp_path / "more.inc").write_text("filename=included\n")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    text = f"[global]\nsize=16k\nbs=4k\nrw=write\n{text}"
    foretold = fio.touches({"job": text, "job_path": str(tmp_path / "my.fio")})
    assert run_job(fio, text, tmp_path).status == "ok"
    made = {path for path in tmp_path.rglob("*") if path.is_file() and "raw-1" not in path.parts} - before
    assert made
    assert made <= {touch.path for touch in foretold if touch.access == WRITE}
    # fio shares the directories out among the clones; each might have got any
    if "d:e" not in text:
        assert made == {touch.path for touch in foretold}


def test_a_job_file_keeps_its_folder_clean_of_logs_and_state(fio: Fio, tmp_path: Path) -> None:
    text = "[a]\nrw=write\nsize=16k\nverify=crc32c\nwrite_bw_log=mine\nwrite_lat_log\nwrite_iolog=requests\n"
    found = run_job(fio, text, tmp_path)
    assert found.status == "ok"
    assert {path.name for path in tmp_path.iterdir()} == {"a.0.0", "raw-1"}
    kept = {path.name for path in (tmp_path / "raw-1").iterdir()}
    assert {"mine_bw.1.log", "a_lat.1.log", "requests", "local-a-0-verify.state"} <= kept


def test_a_job_file_has_distributions_of_all_latencies_though_it_asks_for_none(fio: Fio, tmp_path: Path) -> None:
    text = "[a]\nioengine=libaio\nrw=randwrite\nsize=256k\n"
    assert {buckets.kind for buckets in run_job(fio, text, tmp_path).buckets} == {"slat", "clat", "lat"}


def test_a_factor_in_a_job_file_changes_what_runs(fio: Fio, tmp_path: Path) -> None:
    params = {"job": "[a]\nrw=write\nsize=64k\nbs=4k\n", "job_path": str(tmp_path / "my.fio"), "bs": "16KiB"}
    found, _ = run(fio, params, Load("null", None, 0, False), tmp_path)
    assert found.metrics["write.ios"] == 4


def test_every_alias_is_the_one_that_fio_has(fio: Fio) -> None:
    for alias, name in fio_options.ALIASES.items():
        if "-" in name:
            continue  # spellings of ours
        shown = supervisor.capture(["fio", f"--cmdhelp={alias}"]).stdout
        assert "closest match" not in shown, alias
        assert shown.split(":")[0].strip() == name


def test_the_options_that_are_written_otherwise_than_given_are_known_to_fio(fio: Fio) -> None:
    engines = {"window_size": "net", "cpuchunks": "cpuio", "grace_time": "exec", "cmdprio_bssplit": "libaio"}
    for name in fio_options._WRITERS:
        fio._names.check([name], {engines.get(name, "psync")})


def test_what_the_installed_fio_does_not_know_is_refused_before_anything_runs(fio: Fio) -> None:
    target = {"kind": "file", "path": "testfile", "size": SIZE}
    with pytest.raises(StudyError, match="did you mean 'iodepth'"):
        fio.validate({"rw": "read", "iodeph": 4}, target)
    with pytest.raises(StudyError, match="this fio has no ioengine 'libaoi'; did you mean 'libaio'"):
        fio.validate({"rw": "read", "ioengine": "libaoi"}, target)
