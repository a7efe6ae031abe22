"""Traces for simulations: the Poisson writes of the reference points, and a few lines of one's own."""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

Poisson = Callable[..., Path]
Lines = Callable[..., Path]


def poisson_writes(requests: int, rate_per_s: float, pages: int, seed: int) -> Iterator[str]:
    """Lines of DiskSim's format: 4 KiB writes with exponential gaps, each to a page drawn uniformly.

    Python's own generator is drawn from once for the gap and once for the page, and times are added up in floating
    point: so the same arguments give the same trace, number by number, as those that the reference simulator was fed.
    """
    chance = random.Random(seed)
    time_ms = 0.0
    for _ in range(requests):
        time_ms += chance.expovariate(rate_per_s) * 1000.0
        yield f"{time_ms:.6f} 0 {chance.randrange(pages) * 8} 8 0\n"


def mixed_requests(
    requests: int, rate_per_s: float, sizes: Sequence[int], read_share: float, seed: int
) -> Iterator[str]:
    """The same of reads and writes of `sizes` pages, within 1 GiB; a last read, a second later, lets all others end."""
    chance = random.Random(seed)
    time_ms = 0.0
    for _ in range(requests):
        time_ms += chance.expovariate(rate_per_s) * 1000.0
        pages = chance.choice(sizes)
        sector = chance.randrange(262_144 - pages) * 8
        yield f"{time_ms:.6f} 0 {sector} {pages * 8} {int(chance.random() < read_share)}\n"
    yield f"{time_ms + 1000:.6f} 0 0 8 1\n"


@pytest.fixture(scope="session")
def poisson(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poisson]:
    """A function that writes such a trace, each once; all are removed at the end, for they are large."""
    folder = tmp_path_factory.mktemp("poisson")

    def make(requests: int, rate_per_s: float, pages: int = 262_144, seed: int = 1) -> Path:
        path = folder / f"{requests}-{rate_per_s:g}-{pages}-{seed}.disksim"
        if not path.exists():
            with path.open("w") as file:
                file.writelines(poisson_writes(requests, rate_per_s, pages, seed))
        return path

    yield make
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture
def mixed(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a trace of `mixed_requests`."""

    def make(*arguments: Any) -> Path:
        path = tmp_path / "mixed.disksim"
        path.write_text("".join(mixed_requests(*arguments)))
        return path

    return make


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """A function that writes a trace in DiskSim's format: (ms, first sector, sectors) each, 1 after it for a read."""

    def make(*requests: tuple[float, ...], name: str = "t.disksim") -> Path:
        path = tmp_path / name
        rows = [(*request, 0)[:4] for request in requests]
        path.write_text("".join(f"{time} 0 {sector} {sectors} {read}\n" for time, sector, sectors, read in rows))
        return path

    return make
