"""fio's engines on a virtual drive as a study varies them, and what is said of those that cannot run here."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

from ...cli.conftest import Answer, ask

pytestmark = [pytest.mark.fio, pytest.mark.root]
HEAD = """
title = "Engines"
driver = "fio"
repetitions = 1
seed = 3
[target]
kind = "virtual"
size = "32MiB"
model = "none"
calibrate = false
[params]
rw = "randrw"
bssplit = "512/10:4k/50:16k/30:64k/10"
direct = 1
iodepth = 4
io_size = "2MiB"
[watch]
monitors = []
witness = "off"
"""
CASES = {
    "psync": ("psync", "iodepth = 1"),
    "libaio": ("libaio", ""),
    "io_uring": ("io_uring", ""),
    "nbd": ("nbd", ""),
    "loop device": ("libaio", '"target.form" = "device"'),
    "file system": ("io_uring", '"target.form" = "folder"'),
    "trimmed over nbd": ("nbd", 'rw = "randtrim"'),
    "trimmed as a device": ("psync", 'iodepth = 1\nrw = "randtrim"\n"target.form" = "device"'),
    "spdk_bdev": ("spdk_bdev", ""),
    "spdk_nvme": ("spdk_nvme", ""),
}
"""The engine of each case, and what else differs."""
ENGINES = "".join(f'[[case]]\nname = "{name}"\nioengine = "{one}"\n{more}\n' for name, (one, more) in CASES.items())


def typed(folder: Path, text: str, *words: str) -> Answer:
    (folder / "engines.toml").write_text(HEAD + text)
    env = {"IOASSAY_SPDK_FIO": str(folder)}
    answer = ask(words[0], "engines.toml", *words[1:], cwd=folder, env=env, within_s=240)
    assert answer.code == 0, answer.out + answer.err
    return answer


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (folder / "run/trials").glob("*/record.json")]


def test_every_engine_reaches_the_drive_and_those_that_are_missing_are_skipped_with_the_remedy(tmp_path: Path) -> None:
    done = typed(
        tmp_path, ENGINES, "run", "--output", "run", "--set", "params.verify=crc32c", "--set", "params.do_verify=1"
    )
    found = {record["trial"]["point"]["case"]: record for record in records(tmp_path)}
    assert found.keys() == CASES.keys()
    for name, record in found.items():
        if name.startswith("spdk"):
            assert record["status"] == "skipped"
            remedy = f"'{name}' is not in {tmp_path}: build SPDK with ./configure --with-fio=<fio's sources, of the "
            assert remedy + "installed version>, and set IOASSAY_SPDK_FIO=<spdk>/build/fio" in record["reason"]
            for said in (done.err, html.unescape((tmp_path / "run/report/index.html").read_text())):
                assert remedy in said
            continue
        assert (record["status"], record["reason"]) == ("ok", ""), name
        metrics = record["metrics"]
        assert metrics["drive.errors"] == 0
        for kind in ("trim",) if name.startswith("trimmed") else ("read", "write"):
            assert metrics[f"{kind}.bytes"] > 0
            assert metrics[f"drive.{kind}.bytes"] >= metrics[f"{kind}.bytes"]


@pytest.mark.bpf
def test_what_a_buffered_job_moves_on_the_drives_file_is_not_taken_for_the_page_caches(tmp_path: Path) -> None:
    words = ("run", "--output", "run", "--json", "--set", "watch.witness=block", "--set", "params.direct=0")
    told = json.loads(typed(tmp_path, "[factors]\nrw = ['randread', 'randwrite']\n", *words).out)
    [counted] = [
        finding["statistics"]["categories"] for finding in told["findings"] if "categories" in finding["statistics"]
    ]
    assert sum(counted.values()) == 2 and set(counted) <= {"CONFIRMED", "INCOMPLETE"}  # the rate of a short run
