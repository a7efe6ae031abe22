"""The driver against the fio that is installed: what it emits is taken, what it foretells happens.

Job files are read as fio reads them: single ones of a table, and random ones.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import SafetyRefusal, StudyError
from ioassay.packs.fio import fio_options
from ioassay.packs.fio.claims import fio_json
from ioassay.packs.fio.driver import Fio, fio_outcome
from ioassay.packs.fio.fio_options import fio_bytes
from ioassay.process import process_table, supervisor
from ioassay.roles import WRITE, Load, Parsed

from ...corpora import THOROUGH, cases
from ...drivers.trials import NOWHERE, asked, lay_out, run, trial
from ...patience import PATIENCE_S, until
from . import fio_jobs

pytestmark = pytest.mark.fio
SIZE = 8 * 2**20


@pytest.fixture(scope="session")
def fio() -> Fio:
    """A driver that has asked the installed fio for its lists."""
    made: Fio = asked("fio")
    return made


@pytest.fixture
def testfile(tmp_path: Path) -> Path:
    path = tmp_path / "testfile"
    path.write_bytes(os.urandom(SIZE))
    return path


def load(path: Path, read_only: bool = False) -> Load:
    return Load("file", path, SIZE, read_only)


def run_job(fio: Fio, text: str, folder: Path) -> Parsed:
    """Run a job file that lies in `folder`."""
    return run(fio, {"job": text, "job_path": str(folder / "my.fio")}, NOWHERE, folder / "raw")[0]


@pytest.mark.parametrize("engine", ["psync", "sync", "libaio", "io_uring", "mmap", "null"])
def test_each_engine_measures_reads_and_writes(fio: Fio, engine: str, testfile: Path, tmp_path: Path) -> None:
    limit = {"runtime": "300ms"} if engine in ("mmap", "null") else {}  # in which a slow disk might do no write
    params = {"ioengine": engine, "rw": "randrw", "bs": "16KiB", "direct": int(engine != "mmap"), **limit}
    fio.validate(params, {"kind": "file", "path": str(testfile), "size": SIZE})
    found, _ = run(fio, params, NOWHERE if engine == "null" else load(testfile), tmp_path / "raw")
    if engine == "io_uring" and "io_uring_disabled" in found.reason:
        pytest.skip(found.reason)
    assert (found.status, found.reason) == ("ok", "")
    assert {"read.bw", "write.bw", "read.lat.p99", "write.clat.mean", "cpu.sys"} <= found.metrics.keys()
    assert found.metrics["total.runtime"] >= 0.29 or not limit  # a busy machine takes longer


def test_a_read_only_load_leaves_the_file_as_it_is(fio: Fio, testfile: Path, tmp_path: Path) -> None:
    before = testfile.read_bytes()
    found, _ = run(fio, {"rw": "read", "bs": "64k"}, load(testfile, read_only=True), tmp_path / "raw")
    assert found.metrics["read.bytes"] == SIZE
    assert testfile.read_bytes() == before


def test_a_split_and_sizes_by_direction_are_taken(fio: Fio, testfile: Path, tmp_path: Path) -> None:
    mixed = {"rw": "randread", "bssplit": "4KiB/50:64KiB/50", "number_ios": 100}
    found, _ = run(fio, mixed, load(testfile), tmp_path / "mixed")
    assert 100 * 4096 < found.metrics["read.bytes"] < 100 * 65536
    found, _ = run(fio, {"rw": "rw", "bs": "4k,16k", "number_ios": 200}, load(testfile), tmp_path / "directions")
    assert found.metrics["write.bytes"] == found.metrics["write.ios"] * 16384
    assert found.metrics["read.bytes"] == found.metrics["read.ios"] * 4096


def offsets(fio: Fio, testfile: Path, folder: Path, seed: int) -> list[str]:
    """The requests of a trial with this seed."""
    wanted = trial("fio", {"rw": "randread", "io_size": "256k"}, seed=seed)
    text = fio.command(wanted, load(testfile), folder).files["job.fio"] + f"write_iolog={folder}/requests\n"
    lay_out(folder, {"job.fio": text})
    subprocess.run(["fio", "--output=/dev/null", folder / "job.fio"], check=True, cwd=folder)
    return [line.split(maxsplit=1)[1] for line in (folder / "requests").read_text().splitlines() if " read " in line]


def test_the_same_seed_gives_the_same_requests_and_another_seed_others(
    fio: Fio, testfile: Path, tmp_path: Path
) -> None:
    first = offsets(fio, testfile, tmp_path / "a", 5)
    assert len(first) == 64
    assert offsets(fio, testfile, tmp_path / "b", 5) == first
    assert offsets(fio, testfile, tmp_path / "c", 6) != first


def test_logs_become_series_of_each_job(fio: Fio, tmp_path: Path) -> None:
    params = {"rw": "randrw", "runtime": "500ms", "numjobs": 2, "logs": ["bw", "lat"], "log_interval": "50ms"}
    found, _ = run(fio, {**params, "ioengine": "null"}, NOWHERE, tmp_path / "raw")
    assert not found.warnings
    assert {(s.metric, s.job) for s in found.series} == {
        (metric, job) for metric in ("read.bw", "write.bw", "read.lat.mean", "write.lat.mean") for job in (-1, 0, 1)
    }


def test_a_run_that_hangs_is_a_failed_trial(fio: Fio, testfile: Path, tmp_path: Path) -> None:
    found, outcome = run(fio, {"rw": "read", "runtime": "1000s"}, load(testfile), tmp_path / "raw", timeout_s=0.5)
    assert outcome.timed_out
    assert found.status == "failed"
    assert "raise run.timeout" in found.reason


def test_a_server_that_never_answers_costs_no_more_than_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine nbd waits for ever for a server that does not answer, and fio 3.33 ignores SIGTERM then."""
    monkeypatch.setattr(supervisor, "GRACE_S", 0.5)
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        server.listen(4)  # accepted by the kernel, greeted by nobody
        job = ["--name=j", "--ioengine=nbd", "--uri=nbd+unix:///?socket=s", "--rw=read", "--size=1M"]
        outcome = supervisor.run(
            ["fio", *job], stdout=tmp_path / "out", stderr=tmp_path / "err", timeout_s=1.0, cwd=tmp_path
        )
    assert outcome.timed_out and outcome.exit_code != 0  # it may be still about to connect, and end by itself
    # On a busy machine fio's own child can outlive it; what matters is that none is left in the end.
    until(lambda: all(process_table.group_of(pid) is None for pid in outcome.leftovers))


def test_a_full_disk_is_a_failed_trial_with_its_remedy(fio: Fio, tmp_path: Path) -> None:
    found, _ = run(fio, {"rw": "write", "bs": "64k"}, load(Path("/dev/full")), tmp_path / "raw")
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
        found, outcome = run(fio, {"rw": "write", "runtime": "200ms"}, whole, tmp_path / "raw")
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)  # somebody may just look at it
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
    jobs = fio_json.parse((tmp_path / "raw" / "fio.json").read_text(), "fio.json").jobs
    seen = [job.directions["write"].bytes for job in jobs]
    assert seen == [fio_bytes(size, kb_base) for size in SPELLINGS]


LOG = """fio version 2 iolog
there-1 add
new add
there-1 open
new open
there-1 write 3145728 4096
new write 8192 4096
there-1 close
new close
"""


@cases("drivers", "fio_layouts")
def test_fio_leaves_the_files_that_were_foretold_and_no_larger_ones(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_DISK", "-environment")
    for name in ("d", "e"):
        (tmp_path / name).mkdir()
    files = {
        **dict.fromkeys(("there-1", "there-2", "there-3"), 2 << 20),
        "log": LOG,
        "more.inc": "filename=included\n",
        "my.fio": case["job"],
    }
    lay_out(tmp_path, files)
    params = {"job": case["job"], "job_path": str(tmp_path / "my.fio"), "job_folder": str(tmp_path)}
    foretold = {touch.path: touch.size_bytes for touch in Fio().touches(params) if touch.access == WRITE}
    done = subprocess.run(["fio", "my.fio", "--thread"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    made = {path: size for path, size in left.items() if path in foretold}
    assert {path for path in left if path not in foretold} <= {tmp_path / name for name in files}
    if case.get("shares_directories"):
        assert sum(made.values()) == sum(size or 0 for size in foretold.values())
    elif case.get("inexact"):
        assert made.keys() == foretold.keys() - {tmp_path / name for name in case.get("removes", ())}
        assert all(size <= (foretold[path] or 0) for path, size in made.items())
    else:
        assert made == foretold


def test_a_job_file_keeps_its_folder_clean_of_logs_and_state(fio: Fio, tmp_path: Path) -> None:
    text = "[a]\nrw=write\nsize=16k\nverify=crc32c\nwrite_bw_log=mine\nwrite_lat_log\nwrite_iolog=requests\n"
    found = run_job(fio, text, tmp_path)
    assert found.status == "ok"
    assert {path.name for path in tmp_path.iterdir()} == {"a.0.0", "raw"}
    kept = {path.name for path in (tmp_path / "raw").iterdir()}
    assert {"mine_bw.1.log", "a_lat.1.log", "requests", "local-a-0-verify.state"} <= kept


def test_a_factor_changes_what_a_job_file_does_and_all_latencies_have_distributions(fio: Fio, tmp_path: Path) -> None:
    text = "[a]\nioengine=libaio\nrw=randwrite\nsize=256k\nbs=4k\n"
    params = {"job": text, "job_path": str(tmp_path / "my.fio"), "bs": "16KiB"}
    found, _ = run(fio, params, NOWHERE, tmp_path / "raw")
    assert found.metrics["write.ios"] == 16
    assert {buckets.kind for buckets in found.buckets} == {"slat", "clat", "lat"}  # though it asks for none


def test_every_alias_is_the_one_that_fio_has() -> None:
    for alias, name in fio_options.ALIASES.items():
        if "-" in name:
            continue  # spellings of ours
        shown = supervisor.capture(["fio", f"--cmdhelp={alias}"], timeout_s=PATIENCE_S).stdout
        assert "closest match" not in shown, alias
        assert shown.split(":")[0].strip() == name


def test_options_are_those_of_the_installed_fio(fio: Fio) -> None:
    engines = {"window_size": "net", "cpuchunks": "cpuio", "grace_time": "exec", "cmdprio_bssplit": "libaio"}
    for name in fio_options._WRITERS:  # written otherwise than given
        fio._names.check([name], {engines.get(name, "psync")})
    target = {"kind": "file", "path": "testfile", "size": SIZE}
    with pytest.raises(StudyError, match="did you mean 'iodepth'"):
        fio.validate({"rw": "read", "iodeph": 4}, target)
    with pytest.raises(StudyError, match="this fio has no ioengine 'libaoi'; did you mean 'libaio'"):
        fio.validate({"rw": "read", "ioengine": "libaoi"}, target)


def test_what_the_real_fio_prints_is_close_to_its_results(tmp_path: Path) -> None:
    """A rate limit makes one second like the others, as far as a busy machine lets it; at the end it is cut short."""
    argv = ["fio", "--name=j", "--ioengine=null", "--rw=randrw", "--bs=4k", "--size=1G", "--time_based", "--runtime=5"]
    argv += ["--rate_iops=1000", "--eta=always", "--output-format=json", f"--output={tmp_path / 'fio.json'}"]
    output = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    stated = [rates for line in output.split("Jobs:")[:-1] if (rates := fio_outcome.rates(line))]
    job = json.loads((tmp_path / "fio.json").read_text())["jobs"][0]
    iops = pytest.approx(job["read"]["iops"] + job["write"]["iops"], rel=0.75)
    close = [rates for rates in stated if rates.iops == iops]
    assert close and all(rates.bytes_per_s == pytest.approx(4096 * rates.iops, rel=0.01) for rates in close), stated


# Job files as fio reads them

JOBS = int(os.environ.get("IOASSAY_FIO_JOBS") or (10_000 if THOROUGH else 40))
"""Job files that are held against the real fio; with 10000 this takes some minutes."""
RUNS = max(JOBS // 10, 20)
SEED = int(os.environ.get("IOASSAY_SEED") or 1)
"""The same jobs in every run, so that ./check says the same of the same tree."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where random jobs run, with what they open, and with the environment that they use."""
    place = tmp_path / "jobs"
    place.mkdir()
    for name, value in {**fio_jobs.PIECES["environment"], "BASE": str(place)}.items():
        monkeypatch.setenv(name, value)
    for name in ("UNSET", "UNCLOSED"):
        monkeypatch.delenv(name, raising=False)
    return made(place)


def made(folder: Path) -> Path:
    """Folders, files and links that random jobs name."""
    for place in folder.iterdir():
        shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    for name in (*fio_jobs.PIECES["folders"], "empty"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lay_out(folder, {"tree/f1": 16384, "tree/deep/f2": 16384, "x": 16384, "tree/link": {"link": folder / "x"}})
    return folder


def rehearsed(text: str, folder: Path) -> str:
    """'' where fio and the lab read the same, else what one of them says."""
    fio, params = Fio(), {"job": text, "job_path": str(folder / "my.fio"), "job_folder": str(folder)}
    notes = folder.parent / "notes"
    notes.mkdir(exist_ok=True)
    try:
        fio.touches(params)
        rehearsal = fio.rehearsal(params, notes)
        assert rehearsal is not None
        for name, content in rehearsal.command.files.items():
            (notes / name).write_bytes(content.encode())
        done = subprocess.run(rehearsal.command.argv, cwd=folder, capture_output=True, timeout=PATIENCE_S)
        rehearsal.confirm(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    except (StudyError, SafetyRefusal) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """File -> size and time of its last change, which a write of the same bytes moves too."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def written_by(text: str, folder: Path) -> set[str]:
    """The files that fio makes or changes when it runs the job for real."""
    (folder.parent / "run.fio").write_bytes(text.encode())
    before = contents(folder)
    log = folder.parent / "logs"
    log.mkdir(exist_ok=True)
    command = ["fio", f"--aux-path={log}", "--fsync=1", "--size=4k", str(folder.parent / "run.fio")]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=PATIENCE_S)
    return {name for name, state in contents(folder).items() if before.get(name) != state}


def test_random_job_files_are_read_as_fio_reads_them_and_what_they_write_was_found_before(folder: Path) -> None:
    """No job file that both read may differ in an option or a path, and most are read by both.

    Those that fio runs for real change no file that was not named.
    """
    draw, outcomes, written = random.Random(SEED), Counter[str](), 0
    for number in range(JOBS):
        made(folder)
        text = fio_jobs.job_file(draw, folder)
        why = rehearsed(text, folder)
        assert not why.startswith("SafetyRefusal"), f"job file {number}:\n{text!r}\n{why}"
        outcomes["refused" if why else "same"] += 1
        if why or number >= RUNS:
            continue
        params = {"job": text, "job_path": str(folder / "my.fio"), "job_folder": str(folder)}
        named = {os.path.realpath(touch.path) for touch in Fio().touches(params) if touch.access == WRITE}
        changed = written_by(text, folder)
        strange = {
            name for name in changed if os.path.realpath(folder / name) not in named and not name.endswith(".log")
        }
        assert not strange, f"job file {number}:\n{text!r}\nwrote {strange}, named {named}"
        written += len(changed)
    assert outcomes["same"] > JOBS // 4, outcomes
    assert written > RUNS // 4


def test_options_of_engines_are_compared_although_defaults_stand_before_them(folder: Path) -> None:
    text = "[a]\nioengine=io_uring\nhipri=0\nfixedbufs=0\nsize=4k\nfilename=x\n"
    assert rehearsed(text, folder) == ""
    assert rehearsed("[global]\nioengine=libaio\nuserspace_reap=0\n[a]\nsize=4k\n", folder) == ""


@pytest.mark.parametrize("end", ["", "\n", "\n \t", "\n;", "\nbs=4k", "\ninclude blank.inc"])
def test_a_last_line_without_a_line_feed_is_read(end: str, folder: Path) -> None:
    (folder / "blank.inc").write_text("bs=4k\n \t ")
    assert rehearsed(f"[global]\nfilename=x\nsize=4k\n[a]{end}", folder) == ""
