"""Traces for simulations: the Poisson writes of the reference points, and a few lines of one's own."""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ...cli.conftest import ioassay as ioassay

Poisson = Callable[..., Path]
Lines = Callable[..., Path]


def requests_at_random(
    requests: int, rate_per_s: float, pages: int, seed: int, sizes: Sequence[int] = (), read_share: float = 0.0
) -> Iterator[str]:
    """Lines of DiskSim's format with exponential gaps: 4 KiB writes, or reads and writes of `sizes` pages.

    Python's own generator is drawn from once for the gap and once for the page, and times are added up in floating
    point: so the same arguments give the same trace, number by number, as those that the reference simulator was fed.
    With sizes, a last read, a second later, lets all others end.
    """
    chance = random.Random(seed)
    time_ms = 0.0
    for _ in range(requests):
        time_ms += chance.expovariate(rate_per_s) * 1000.0
        size = chance.choice(sizes) if sizes else 1
        sector = chance.randrange(pages - (size if sizes else 0)) * 8
        is_read = int(chance.random() < read_share) if sizes else 0
        yield f"{time_ms:.6f} 0 {sector} {size * 8} {is_read}\n"
    if sizes:
        yield f"{time_ms + 1000:.6f} 0 0 8 1\n"


@pytest.fixture(scope="session")
def poisson(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poisson]:
    """A function that writes such a trace, each once; all are removed at the end, for they are large."""
    folder = tmp_path_factory.mktemp("poisson")

    def make(requests: int, rate_per_s: float, pages: int = 262_144, seed: int = 1) -> Path:
        path = folder / f"{requests}-{rate_per_s:g}-{pages}-{seed}.disksim"
        if not path.exists():
            with path.open("w") as file:
                file.writelines(requests_at_random(requests, rate_per_s, pages, seed))
        return path

    yield make
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture
def mixed(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes such reads and writes, within 1 GiB."""

    def make(requests: int, rate_per_s: float, sizes: Sequence[int], read_share: float, seed: int) -> Path:
        path = tmp_path / "mixed.disksim"
        path.write_text("".join(requests_at_random(requests, rate_per_s, 262_144, seed, sizes, read_share)))
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
