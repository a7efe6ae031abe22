"""SPDK's engines for fio: where the plugins are, and how a job reaches an NVMe over TCP address through them.

They are no part of fio or Debian: SPDK builds them for one version of fio (`./configure --with-fio=…`, in build/fio).
The folder is given by the environment, `IOASSAY_SPDK_FIO`, or lies where SPDK installs it. `spdk_nvme` takes huge
pages; `spdk_bdev` is run without, so that it needs no privileges. Sources: SPDK's documentation of its fio plugins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from ioassay.packs.fio.driver.section import SPDK

ENGINES = tuple(sorted(SPDK))
VARIABLE = "IOASSAY_SPDK_FIO"
CONFIGURATION = "spdk.json"
_PLACES = ("/usr/local/lib/spdk/fio", "/usr/lib/spdk/fio", "/opt/spdk/build/fio")
_HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
_MEMORY_MIB = "1024"
_BDEV = "Virtual0"
KERNEL_HAS_IT = (
    "SPDK would take a drive from the kernel (vfio-pci or uio), which ioassay does not do: it runs SPDK on a virtual "
    "drive only"
)
"""Why it does not run on a device."""


def plugin(engine: str, given: str = "", environment: Mapping[str, str] = os.environ) -> Path | None:
    """The plugin's file; None where there is none. `given` is the path that a study gives, which counts alone."""
    folders = [environment[VARIABLE]] if environment.get(VARIABLE) else list(_PLACES)
    found = [Path(given).absolute()] if given else [Path(folder).absolute() / engine for folder in folders]
    return next((path for path in found if path.is_file()), None)


def missing(engine: str, given: str = "", environment: Mapping[str, str] = os.environ) -> str:
    """Why the engine cannot run here, with the remedy; '' where it can."""
    if plugin(engine, given, environment) is None:
        place = f"in {environment[VARIABLE]}" if environment.get(VARIABLE) else f"in {', '.join(_PLACES)}"
        return (
            f"SPDK's fio plugin '{engine}' is not {given or place}: build SPDK with ./configure --with-fio=<fio's "
            f"sources, of the installed version>, and set {VARIABLE}=<spdk>/build/fio"
        )
    try:
        huge_pages = int(_HUGE_PAGES.read_text())
    except (OSError, ValueError):
        huge_pages = 0
    if engine == "spdk_nvme" and not huge_pages:
        return "spdk_nvme needs huge pages and there are none: sysctl vm.nr_hugepages=512, or ioengine = 'spdk_bdev'"
    return ""


def job_lines(engine: str, address: str, nqn: str, folder: Path, given: str = "") -> dict[str, str]:
    """What a job is told so that it reaches the subsystem `nqn` at `address` (`127.0.0.1:4420`)."""
    found = plugin(engine, given)
    lines = {"ioengine": str(found) if found else engine, "thread": "1"}
    if engine == "spdk_nvme":
        return {**lines, "filename": file_name(address, nqn)}
    return {
        **lines,
        "spdk_json_conf": str(folder / CONFIGURATION),
        "spdk_mem": _MEMORY_MIB,
        "env_context": "--no-huge --no-shconf --iova-mode=va",
        "filename": f"{_BDEV}n1",
    }


def file_name(address: str, nqn: str) -> str:
    """fio splits file names at colons, so these are escaped."""
    host, _, port = address.rpartition(":")
    text = f"trtype=TCP adrfam=IPv4 traddr={host} trsvcid={port} subnqn={nqn} ns=1"
    return text.replace(":", "\\:")


def configuration(address: str, nqn: str) -> str:
    """What SPDK's block layer is to connect to, and that it is not to look for partitions on it.

    It would read them first, and the drive would count these reads as the load's (`bdev_examine`).
    """
    host, _, port = address.rpartition(":")
    attach = {
        "method": "bdev_nvme_attach_controller",
        "params": {"name": _BDEV, "trtype": "TCP", "adrfam": "IPv4", "traddr": host, "trsvcid": port, "subnqn": nqn},
    }
    alone = {"method": "bdev_set_options", "params": {"bdev_auto_examine": False}}
    return json.dumps({"subsystems": [{"subsystem": "bdev", "config": [alone, attach]}]}, indent=1)
