"""A run of a host full of secrets, as a bundle: nothing is left, and it is still the same run."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import polars as pl
import pytest

from ioassay import host as hosts
from ioassay.errors import RunError, UsageError
from ioassay.host.privacy import Secret
from ioassay.records.observation import File, Observation
from ioassay.records.record import OK, Claim, Record, Samples, Warning_
from ioassay.store import bundle, frames
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study

from .conftest import CMDLINE, HOME, HOSTNAME, SECRETS, SERIAL

FIO = """fio: a warning before the JSON
{{
  "hostname" : "{host}",
  "serial" : 12345678,
  "jobs" : [ {{ "jobname" : "a", "job options" : {{ "filename" : "{home}/sub dir/test file" }},
    "read" : {{ "iops" : 12345678.500000, "ios" : 12345678 }} }} ]
}}
"""
YAML = "system-info:\n      hostname: {host}\n      nodename: {host}\n      machine: x86_64\n"


@pytest.fixture
def run(tmp_path: Path, host: Path) -> RunStore:
    """Two trials, whose files name the host in every way that tools and we know."""
    title, path = f"Disks of {HOSTNAME}", f"{HOME}/sub dir/test file"
    target = {"kind": "file", "path": path, "size": "1MiB"}
    params, factors = {"ioengine": "psync", "rw": "read"}, {"bs": ["4k", "8k"]}
    table = {"name": "s", "title": title, "driver": "fio", "target": target, "params": params, "factors": factors}
    study = make_study({**table, "watch": {"monitors": []}}, "s.toml")
    facts = {**hosts.facts(None, host, observe_s=0.0), "working_directory": HOME}
    root = tmp_path / f"runs of {HOSTNAME}" / "quick"
    store = RunStore.create(root, Suite(name="s", title=title, studies=[study]), facts)
    old = {**json.loads((root / "host.json").read_text()), "kernel": {"cmdline": CMDLINE, "hostname": HOSTNAME}}
    del old["identity"]  # as runs were stored before
    (root / "host.json").write_text(json.dumps(old))
    for number, trial in enumerate(store.trials()):
        raw = store.begin(trial.id)
        (raw / "fio.json").write_text(FIO.format(host=HOSTNAME, home=HOME))
        (raw / "good.json").write_text(FIO.format(host=HOSTNAME, home=HOME).partition("\n")[2])
        (raw / "stress-ng.yaml").write_text(YAML.format(host=HOSTNAME))
        (raw / f"{HOSTNAME}.log").write_text("\n".join([*SECRETS, "12345678 ios"]))
        (raw / "stdout").write_bytes(f"von jürgen: {SERIAL}".encode("latin-1"))
        (raw / "trace.bin").write_bytes(b"\0\1" + HOSTNAME.encode())
        (raw / "link").symlink_to("/etc/passwd")
        keys = ("id", "study", "driver", "point", "repetition", "seed", "order")
        names = sorted(file.name for file in raw.iterdir())
        record = Record(
            trial={**{key: getattr(trial, key) for key in keys}, "twin": False},
            status=OK,
            reason=f"/home/jürgen/my bench/x: refused on {HOSTNAME}",
            metrics={"read.bw": 12345678.0 + number},
            claims=[Claim("fio", "read", paths=[path])],
            warnings=(Warning_("w", f"disk {SERIAL} of {HOSTNAME}", "--destroy-data=ata-Disk_krypton-7_QX99"),),
            command=["fio", f"--output={raw}/fio.json", f"--filename={path}"],
            raw=names,
        )
        file = File(1, "8:0", 12, path, "regular")
        seen = Observation("bpf", "block", ["counters"], files=[file], disks={"sda": {"reads": 12345678}})
        store.write(record, samples=[Samples("disk", [0.0], [f"{HOSTNAME} reads"], [12345678.0])], seen=seen)
    return store


def exported(store: RunStore, known: list[Secret], folder: Path) -> RunStore:
    redaction = bundle.redaction_of(store, known)
    manifest = bundle.copy(store, folder, redaction)
    bundle.seal(folder, manifest, redaction)
    return RunStore.open(folder)


def everything(folder: Path) -> str:
    """All names and all content, tables as text."""
    texts = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        texts.append(str(path.relative_to(folder)))
        if path.suffix == ".parquet":
            texts.append(str(pl.read_parquet(path).to_dicts()))
        else:
            texts.append(path.read_text(errors="surrogateescape"))
    return "\n".join(texts)


def test_nothing_of_the_host_is_left_and_it_is_still_the_same_run(
    run: RunStore, known: list[Secret], tmp_path: Path
) -> None:
    clean = exported(run, known, tmp_path / "out")
    text = everything(clean.root).lower()
    assert [secret for secret in SECRETS if secret.lower() in text] == []
    assert [word for word in ("j\udcfcrgen", "sub dir", str(tmp_path).lower()) if word in text] == []
    before, after = frames.load(run), frames.load(clean)
    assert after.trials["read.bw"].to_list() == before.trials["read.bw"].to_list()
    assert after.trials.columns == before.trials.columns
    assert after.samples["value"].to_list() == before.samples["value"].to_list()
    (trial, *_) = clean.trials()
    path = trial.target["path"]
    assert path.endswith("/test file")
    assert clean.suite().studies[0].target.path == path
    assert list(clean.record(trial.id).claims[0].paths) == [path]
    assert clean.observation(trial.id).files[0].path == path
    assert clean.observation(trial.id).disks == {"sda": {"reads": 12345678}}
    # Layout, keys and numbers of raw output stay.
    raw = clean.folder(trial.id) / "raw"
    good = (raw / "good.json").read_text()
    assert '"iops" : 12345678.500000, "ios" : 12345678' in good
    assert json.loads(good)["serial"] != 12345678
    assert json.loads(good)["hostname"] == "redacted-host-1"
    assert "12345678 ios" in (raw / "redacted-host-1.log").read_text()
    assert "nodename: redacted-host-1" in (raw / "stress-ng.yaml").read_text()
    assert set(clean.record(trial.id).raw) == {path.name for path in raw.iterdir()}
    # The manifest counts, and tells no value.
    manifest = json.loads((clean.root / bundle.MANIFEST).read_text())
    assert manifest["redacted"] is True
    assert manifest["replaced"]["host names"] > 4
    assert manifest["only_in_fields"]["serial numbers and world-wide names"] == 1
    assert manifest["left_out"] == {"binary files, which cannot be searched": 2, "symbolic links": 2}
    assert manifest["files"] == sum(path.is_file() for path in clean.root.rglob("*"))
    with pytest.raises(UsageError, match="placeholders"):
        bundle.require_resumable(clean.root)
    bundle.require_resumable(run.root)


@pytest.mark.parametrize("name", ["data", "a", "read", "s", "fio", "bs"])
def test_a_host_called_like_a_word_destroys_nothing(run: RunStore, tmp_path: Path, name: str) -> None:
    clean = exported(run, [Secret("host", name)], tmp_path / "out")
    assert clean.suite().studies[0].name == "s"
    assert frames.load(clean).trials["read.bw"].to_list() == frames.load(run).trials["read.bw"].to_list()
    manifest = json.loads((clean.root / bundle.MANIFEST).read_text())
    assert manifest["only_in_fields"]["host names"] == 1


def test_a_secret_that_is_left_ends_the_export(run: RunStore, known: list[Secret], tmp_path: Path) -> None:
    redaction = bundle.redaction_of(run, known)
    manifest = bundle.copy(run, tmp_path / "out", redaction)
    late = {"late.txt": HOSTNAME.upper(), "late.html": f"<p>{SERIAL}</p>", "late.json": '"J\\u00fcrgen"'}
    for name, text in late.items():
        (tmp_path / "out" / name).write_text(text)
        with pytest.raises(RunError, match=name) as error:
            bundle.seal(tmp_path / "out", manifest, redaction)
        assert HOSTNAME not in str(error.value)
        (tmp_path / "out" / name).unlink()
    pl.DataFrame({"name": [HOSTNAME]}).write_parquet(tmp_path / "out" / "late.parquet")
    with pytest.raises(RunError, match=r"late\.parquet"):
        bundle.seal(tmp_path / "out", manifest, redaction)


def test_the_same_run_gives_the_same_bytes(run: RunStore, known: list[Secret], tmp_path: Path) -> None:
    digests = set()
    for number in range(2):
        folder = tmp_path / str(number) / "quick"
        exported(run, known, folder)
        bundle.pack(folder, tmp_path / f"{number}.tar.gz", bundle.time_of(run))
        digests.add(hashlib.sha256((tmp_path / f"{number}.tar.gz").read_bytes()).hexdigest())
    assert len(digests) == 1
    with tarfile.open(tmp_path / "0.tar.gz") as archive:
        names = archive.getnames()
        assert names == sorted(names)
        assert {(entry.uid, entry.uname, entry.mode) for entry in archive} == {(0, "", 0o644)}


def test_without_redaction_all_is_there(run: RunStore, tmp_path: Path) -> None:
    (run.root / "report").mkdir()
    (run.root / "report" / "index.html").write_text(HOSTNAME)
    bundle.seal(tmp_path / "out", bundle.copy(run, tmp_path / "out", None), None)
    kept = RunStore.open(tmp_path / "out")
    assert kept.raw_host() == run.raw_host()
    assert (kept.root / "report" / "index.html").read_text() == HOSTNAME
    assert next(kept.root.rglob("trace.bin")).read_bytes().startswith(b"\0")
    assert json.loads((kept.root / bundle.MANIFEST).read_text())["redacted"] is False


@pytest.mark.parametrize("name", ["x.zip", "there.tar.gz", "no/x.tar.gz", "run/x.tar.gz"])
def test_a_name_that_cannot_be_used_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "there.tar.gz").touch()
    (tmp_path / "run").mkdir()
    with pytest.raises(UsageError, match="expected|make it"):
        bundle.require_new(tmp_path / name, tmp_path / "run", bundle.SUFFIXES)
