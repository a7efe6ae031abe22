"""Public measurements of real drives: how far held-out points are from a description fitted by `drive learn --from`,
and from the one that ships.

    .venv/bin/python benches/twin_public.py [NAME…]

For each set of campaigns of one host, the fit sees every second point (`Measurement.fitted`), as the shipped one did;
the errors are mean absolute ones of the other points, and of campaigns that no fit saw.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ioassay.packs.ssd.simulator import drive_accuracy
from ioassay.packs.ssd.simulator.drive_accuracy import Accuracy, Comparison
from ioassay.packs.ssd.twin import inference
from ioassay.packs.ssd.twin.loads import Load, Reading
from ioassay.simulation import drive_files
from ioassay.simulation.drive_files import Measurement

SETS = {
    "samsung-980-pro 4 KiB": ("samsung-980-pro", ["reads-4k-spdk"]),
    "samsung-980-pro by size": ("samsung-980-pro", ["reads-by-size"]),
    "nvme-a SPDK": ("nvme-a", ["writes-spdk", "random-writes-spdk", "other-sizes-spdk", "other-random-sizes-spdk"]),
    "nvme-a io_uring": ("nvme-a", ["writes-io-uring"]),
    "nvme-b SPDK": ("nvme-b", ["writes-spdk", "other-sizes-spdk"]),
    "nvme-b io_uring": ("nvme-b", ["writes-io-uring"]),
}
SECONDS = 60
"""Of a run of fio, about: the requests of a point."""


def readings(measurements: Sequence[Measurement]) -> Iterator[Reading]:
    for each in measurements:
        for point in each.fitted:
            name = f"{point.operation}-{point.pattern}-{point.size_bytes}-{point.depth}"
            load = Load(name, each.name, point.operation, point.size_bytes, point.depth, point.pattern)  # type: ignore[arg-type]
            requests = int(point.statistics["iops"] * SECONDS)
            yield Reading(load, requests, SECONDS, point.statistics)


def learned_accuracy(options: Mapping[str, Any], measurement: Measurement) -> Accuracy:
    model = drive_accuracy.small(options, measurement.points)
    return Accuracy(
        measurement,
        tuple(
            Comparison(point, drive_accuracy.simulated(model, point), point in measurement.fitted)
            for point in measurement.points
        ),
    )


def main() -> None:
    for title, (name, campaigns) in SETS.items():
        if sys.argv[1:] and not any(each in title for each in sys.argv[1:]):
            continue
        drive = drive_files.load(name)
        measurements = [each for each in drive.measurements if each.name in campaigns]
        begin = time.process_time()
        fit = inference.fit(list(readings(measurements)), capacity_bytes=None, laid_out=False)
        print(f"{title}: {time.process_time() - begin:.0f} s{', misfit: ' + fit.misfit if fit.misfit else ''}")
        for each in measurements:
            shipped = drive_accuracy.accuracy(drive, each)
            learned = learned_accuracy(fit.options, each)
            for statistic in each.limits or ("mean_us",):
                of_both = [one.mean_error(statistic, fitted=False) for one in (shipped, learned)]
                held = len(learned.errors(statistic, fitted=False))
                print(f"  {each.name} {statistic}: shipped {of_both[0]:.1%}, learned {of_both[1]:.1%}, {held} held out")


if __name__ == "__main__":
    main()
