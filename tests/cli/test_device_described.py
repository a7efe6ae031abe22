"""Described drives that are served: what fio sees of them is what the simulation says, and never less time."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay import traces
from ioassay.virtual_drive import control

from .drives import PATIENCE_S, served, typed

REQUESTS = 200
DRIVES = ("samsung-980-pro", "nvme-a")


def fio(folder: Path, uri: str, pattern: str) -> dict[str, Any]:
    """One job of single requests of 4 KiB, each alone."""
    argv = ["fio", "--name=job", "--ioengine=nbd", f"--uri={uri}", f"--rw={pattern}", "--bs=4k", "--iodepth=1"]
    argv += ["--size=32m", f"--number_ios={REQUESTS}", "--eta=never", "--thread", "--output-format=json"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    found: dict[str, Any] = job
    return found


def least_ns(drive: str, reads: float) -> float:
    """The shortest response of such requests in the simulation."""
    recipe = traces.recipe(requests=2000, reads=reads, range="32MiB", arrivals="fixed:100", seed=1)
    done = ioassay.simulate(recipe, drive=drive, feed="closed:1", window=None)
    return float(done.response().quantile(0.0))


@pytest.mark.fio
@pytest.mark.parametrize("name", DRIVES)
def test_no_answer_comes_before_the_simulation_has_it(name: str, tmp_path: Path) -> None:
    words = ("--size", "64MiB", "--transport", "nbd:unix:a", "--drive", name, "--no-calibrate")
    with served(tmp_path, *words) as drive:
        for pattern, kind, reads in (("randread", "read", 1.0), ("randwrite", "write", 0.0)):
            before = drive.ask("stats")[f"{kind}s"]["commands"]
            job = fio(tmp_path, drive.told["nbd"], pattern)
            assert (job["error"], job[kind]["total_ios"]) == (0, REQUESTS)
            assert drive.ask("stats")[f"{kind}s"]["commands"] - before == REQUESTS
            seen_ns = job[kind]["lat_ns"]["min"]
            assert seen_ns >= 0.999 * least_ns(name, reads), f"{kind}s in {seen_ns} ns"
        assert drive.end() == (0, "")


@pytest.mark.fio
def test_a_mapping_cache_is_counted(tmp_path: Path) -> None:
    words = ("--size", "64MiB", "--transport", "nbd:unix:a", "--no-calibrate", "--drive")
    with served(tmp_path, *words, "nvme-a") as without:
        assert without.ask("stats")["mapping"] is None
    with served(tmp_path, *words, "mqsim-default", "--set", "mapping_cache=16KiB") as drive:
        job = fio(tmp_path, drive.told["nbd"], "randread")
        assert job["error"] == 0
        found = drive.ask("stats")
        mapping, pages = found["mapping"], found["flash"]["read_pages"]
        assert mapping["hits"] + mapping["misses"] == pages > 0
        assert 0 < mapping["translation_reads"] <= mapping["misses"] and mapping["translation_writes"] == 0
        said = typed(tmp_path, "stats", drive.told["stats"])
        share = f"mapping   {mapping['hits'] / pages:.1%} of read pages found in the cache; "
        assert f"{share}{mapping['translation_reads']} translation pages read, 0 written" in said.stdout
        assert control.metrics(found)["drive.mapping_hit_ratio"] == mapping["hits"] / pages
