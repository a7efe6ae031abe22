"""Captures the golden outputs of the installed db_bench: `python tests/golden/db_bench/capture.py FOLDER`.

Standard output (and standard error, `*.err`) of each case, unedited but that the database's folder is written as
/golden/db and the machine's load average of progress lines stays as it is. Needs Debian's rocksdb-tools; the folder is
to be named after RocksDB's version.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

CASES = {
    "plain": ["--benchmarks=fillseq,readrandom,readseq,overwrite,seekrandom,deleteseq,fillsync", "--num=20000"],
    "histogram": [
        *("--benchmarks=fillrandom,readrandom[X2],readseq[W1],readrandomwriterandom", "--num=10000", "--reads=5000"),
        *("--threads=2", "--histogram=1", "--statistics=1", "--compression_type=none"),
    ],
    "mixed": ["--benchmarks=fillrandom,stats,readwhilewriting,updaterandom,readmissing", "--num=10000"],
    "unknown-benchmark": ["--benchmarks=nonsense", "--num=10"],
}


def main(folder: Path, work: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, options in CASES.items():
        database = work / name
        done = subprocess.run(["db_bench", *options, f"--db={database}"], capture_output=True, text=True)
        for suffix, text in (("txt", done.stdout), ("err", done.stderr)):
            (folder / f"{name}.{suffix}").write_text(text.replace(str(database), "/golden/db"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(sys.argv[1]).absolute(), Path(place).resolve())
