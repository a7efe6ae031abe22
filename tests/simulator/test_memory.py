"""Memory does not grow with the length of a trace: read, from the cache, made, in a sweep, as a curve of a sample."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ioassay import traces

SHORT, LONG = 200_000, 1_400_000
ALLOWED_BYTES = 12 << 20
"""Far less than the requests between the two: 40 bytes each, 48 MB."""
CODE = """
import resource, sys, ioassay
from ioassay import simulator, traces
how, requests, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
recipe = traces.recipe(requests=requests, reads=0.2, arrivals="poisson:5000", range="32MiB")
options = {"elements": 8, "blocks": 64, "endurance": 0, "policy": "lru", "buffer": "1MiB", "window": None}
if how == "made":
    ioassay.simulate(recipe, **options)
elif how == "sweep":
    simulator.sweep(path, [options, {**options, "buffer": "2MiB"}])
elif how == "sample":
    traces.mrc(path, sample_pages=512)
else:
    ioassay.simulate(path, **options)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak_bytes(how: str, requests: int, path: Path) -> int:
    """The largest resident set of a process that does it."""
    words = [sys.executable, "-c", CODE, how, str(requests), str(path)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_the_resident_set_does_not_grow_with_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    paths = {}
    for requests in (SHORT, LONG):
        paths[requests] = tmp_path / f"{requests}.vscsi.zst"
        made = {"requests": requests, "reads": 0.2, "arrivals": "poisson:5000", "range": "32MiB"}
        traces.make(paths[requests], to="vscsi", **made)
    for how in ("made", "file", "cache", "sweep", "sample"):
        short, long = (peak_bytes(how, requests, paths[requests]) for requests in (SHORT, LONG))
        assert long - short < ALLOWED_BYTES, how
