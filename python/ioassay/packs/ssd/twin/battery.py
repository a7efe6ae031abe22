"""Which loads tell the parameters of a drive, in stages: each batch follows from the readings before it."""

from __future__ import annotations

from ioassay.packs.ssd.twin.loads import Load, Reading, Target

_LOADS = 30


def learn(target: Target, *, writes: bool, budget_s: float) -> list[Reading]:
    """Run the stages one after the other; what they ask for depends on the readings alone."""
    each_s = max(budget_s / _LOADS - 1, 0.1)
    found: list[Reading] = []
    if writes:
        found += target.run([Load("layout", "layout", "write", 2**17, 8, "sequential")])
    sizes = [512 * 2**step for step in range(0, 9, 2)]
    found += target.run([Load(f"size-{size}", "sizes", "read", size, seconds=each_s) for size in sizes])
    found += target.run([Load(f"depth-{depth}", "depths", "read", 4096, depth, seconds=each_s) for depth in (4, 64)])
    if writes:
        burst = Load("burst", "writes", "write", 4096, requests=2000, rest_s=0.5, in_order=True)
        mixed = Load("mixed", "writes", "mixed", 4096, 8, read_share=0.7, seconds=each_s)
        found += target.run([burst, mixed, Load("flush", "writes", "flush", 4096, requests=100)])
    return found
