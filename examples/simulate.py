"""Which write buffer helps a simulated SSD under load? Prints response time, throughput and hits of each policy.

    .venv/bin/python examples/simulate.py [REQUESTS]

It generates a trace of skewed writes at 48,000 a second and replays it on the reference drive of 48 flash elements with
each policy. docs/simulator.md describes the drive, docs/policies.md the policies.
"""

import sys

import ioassay as ia
from ioassay import traces

POLICIES = ("none", "fifo", "lru", "bplru", "epo", "idle-cold")


def main() -> None:
    """Print the table."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    trace = traces.recipe(requests=requests, arrivals="poisson:48000", addresses="zipf:0.9", seed=1)
    print(f"{'policy':<10} {'mean ms':>9} {'99.9 % ms':>9} {'MB/s':>7} {'hits':>7}")
    for policy in POLICIES:
        done = ia.simulate(trace, policy=policy, buffer="8MiB", window=None)
        found = done.summary
        mean = "saturated" if found["saturated"] else f"{found['mean_response_ms']:9.4f}"
        rest = f"{found['p999_ms']:9.4f} {found['throughput_mb_s']:7.1f} {found['hit_ratio']:7.1%}"
        print(f"{policy:<10} {mean} {rest}")


if __name__ == "__main__":
    main()
