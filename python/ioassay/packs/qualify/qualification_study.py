"""The study of a qualification, for one device or file: `ioassay qualify`.

The shipped study is the specification. Here it gets its target, what that drive can be purged by, and only requests
that the drive takes. Nothing runs here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from ioassay import units
from ioassay.api.execution import RunKeys, RunOptions
from ioassay.api.run_results import Run
from ioassay.api.study import FULL, Study
from ioassay.errors import UsageError
from ioassay.factors import level_number
from ioassay.host import block_devices
from ioassay.packs.qualify.questions.qualification import CAPACITIES, NAME
from ioassay.records.record import Warning_
from ioassay.runner.progress import Progress
from ioassay.study import catalog
from ioassay.targets import purge as purges

AUTO = "auto"


class Qualification(Study):
    """The tests of SNIA's Performance Test Specification for one drive."""

    @classmethod
    def of(
        cls, target: str | Path, *, purge: str = AUTO, size: str | int | None = None, scale: str = FULL
    ) -> Qualification:
        """The study for a block device, or for a file that is made with `size`.

        `purge` is a way of `targets.purge.METHODS`, "none", or "auto" for the best that the drive has; `scale` "quick"
        makes it small. UsageError where there is nothing to qualify, or nothing to purge it by.
        """
        path = Path(target).expanduser()
        scales = {FULL, "quick"}
        if scale not in scales:
            raise UsageError(f"--scale {scale}: expected one of {', '.join(sorted(scales))}")
        warnings: list[Warning_] = []
        if path.is_block_device():
            table, bytes_, least = _device(path, purge, size)
        else:
            table, bytes_, least = _file(path, purge, size, scale)
        if table["purge"] == purges.NONE:
            text = f"{path} is not purged: the tests begin in the state that it has, which the report names"
            warnings.append(Warning_("not-purged", text, "--purge auto"))

        def change(study: Mapping[str, Any]) -> dict[str, Any]:
            made = catalog.scaled(study, scale)
            made["target"] = {**table, "prepare": study["target"]["prepare"]}
            if "written" in made["until"]:
                made["until"] = {**made["until"], "written": CAPACITIES * bytes_}
            if "bs" in (factors := made.get("factors", {})):
                taken = [level for level in factors["bs"] if (level_number("bs", level) or 0) >= least]
                if lost := [str(level) for level in factors["bs"] if level not in taken]:
                    text = f"{made['name']}: without {', '.join(lost)}, since the drive has blocks of {least} bytes"
                    warnings.append(Warning_("size-left-out", text))
                made["factors"] = {**factors, "bs": taken}
            return made

        study = cls.of_suite(catalog.load(NAME, change), left_out=warnings)
        study.source = study.arguments = NAME
        return study


def qualify(
    target: str | Path,
    *,
    purge: str = AUTO,
    size: str | int | None = None,
    scale: str = FULL,
    output: str | Path | None = None,
    progress: Progress | None = None,
    **options: Unpack[RunKeys],
) -> Run:
    """Qualify a drive as SNIA's Performance Test Specification does; all data on it is lost.

    A device with data needs `destroy_data`. Other arguments and errors as of `Qualification.of` and `Study.run`.
    """
    RunOptions(**options)  # refuses what is wrong before the device is looked at
    return Qualification.of(target, purge=purge, size=size, scale=scale).run(output, progress=progress, **options)


def _device(path: Path, purge: str, size: str | int | None) -> tuple[dict[str, Any], int, int]:
    """The target's table, its size in bytes, and the bytes of its smallest request."""
    number = block_devices.number_of(path)
    device = block_devices.device(number) if number is not None else None
    if device is None:
        raise UsageError(f"{path}: the kernel knows no such device; expected a disk such as /dev/nvme0n1")
    ways = purges.offered(device)
    if purge == AUTO:
        if not ways:
            raise UsageError(
                f"{path}: can be purged by none of {', '.join(purges.METHODS)} (or the program for it is missing); "
                "with --purge none it is qualified as it is, and the report says so"
            )
        purge = ways[0]
    elif purge not in (known := [*purges.METHODS, purges.NONE]):
        raise UsageError(f"--purge {purge}: expected one of {', '.join([AUTO, *known])}")
    table: dict[str, Any] = {"kind": "device", "path": str(path), "purge": purge}
    bytes_ = device.size_bytes if size is None else _bytes(size)
    least = block_devices.text_of(block_devices.disk_of(device).folder / "queue/logical_block_size")
    return {**table, **({"size": bytes_} if size is not None else {})}, bytes_, int(least or 512)


def _file(path: Path, purge: str, size: str | int | None, scale: str) -> tuple[dict[str, Any], int, int]:
    if path.is_relative_to("/dev") and not path.exists():
        raise UsageError(f"{path}: there is no such device; expected one that 'lsblk' lists, such as /dev/nvme0n1")
    if path.is_dir():
        raise UsageError(f"{path}: a folder; expected a device such as /dev/nvme0n1, or a file in it: {path / 'test'}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}; expected a device such as /dev/nvme0n1, or a file")
    if purge not in (AUTO, "discard", purges.NONE):
        raise UsageError(f"--purge {purge}: a file has no such purge; expected auto, discard or none")
    if size is None and scale == FULL:
        raise UsageError(f"{path}: a file, whose size is not known; expected --size, such as --size 64GiB")
    bytes_ = _bytes(size if size is not None else "64MiB")
    wanted = "discard" if purge == AUTO else purge
    return {"kind": "file", "path": str(path), "size": bytes_, "purge": wanted, "keep": False}, bytes_, 512


def _bytes(size: str | int) -> int:
    try:
        return units.parse_size(size)
    except ValueError as error:
        raise UsageError(f"--size {size}: {error}") from None
