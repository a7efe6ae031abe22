"""Does the witness count and judge on other kernels as it does on this one?

    .venv/bin/python benches/kernels.py FOLDER… [--tests tests/verify/test_bpf_layers.py …] [--minutes 60]

Each FOLDER is an unpacked package of a kernel (`apt-get download linux-image-…; dpkg-deb --extract … FOLDER`). It is
booted by software emulation with this host's files and a disk of its own (ext4), and runs the tests there. Prints what
failed, and a table: kernel, file of tests, passed, failed, skipped. A kernel that is too old for the programs skips all
tests that need them, and the reason stands beside it. What `--minutes` left out is in no count.

Needs root, qemu-system-x86_64, busybox-static, e2fsprogs, and what the tests need.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
sys.path.insert(0, str(CHECKOUT / "tests"))

from guest import kernel, machine, shared_root  # noqa: E402

TESTS = [f"tests/verify/test_{name}.py" for name in ("bpf_layers", "bpf_programs", "deceptions")]
MODULES = (*kernel.SHARED_ROOT, *kernel.EXT4, "virtio_blk", "loop", "fuse", "btrfs")
HARDWARE = machine.Hardware(2, "3G")
DISK_BYTES = 3 << 30
OUTCOME = re.compile(r"^(tests/\S+?\.py)::.* (PASSED|FAILED|ERROR|SKIPPED)\b", re.MULTILINE)
WAITING_S = 300
"""For a guest to begin and to end."""


def run(linux: kernel.Kernel, tests: list[str], limit_s: float, folder: Path) -> str:
    """What the console of a guest says that runs these tests."""
    disk = folder / "disk"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
    options = "-v -n0 -rs --timeout=0 --tb=short --color=no -p no:cacheprovider --basetemp=/var/tmp/tests"
    pytest = f"{shlex.quote(sys.executable)} -m pytest {options} {shlex.join(tests)}"
    lines = f"""
mkdir -p /var/tmp
mount /dev/vda /var/tmp
uname -r | sed 's/^/GUEST: Linux /'
timeout --signal=INT {limit_s} {pytest} 2>&1 || true
"""
    environment = [f"PYTHONPATH={CHECKOUT / 'python'}", "PYTHONDONTWRITEBYTECODE=1", "COLUMNS=160"]
    script = shared_root.script(lines, CHECKOUT, environment)
    drive = ("-drive", f"file={disk},if=virtio,format=raw,cache=unsafe")
    arguments = (*shared_root.arguments(folder), *drive)
    size = machine.Hardware(HARDWARE.processors, HARDWARE.memory, limit_s=limit_s + WAITING_S)
    with machine.running(linux, script, MODULES, arguments, folder, hardware=size) as guest:
        return str(guest.wait())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    rows, is_well = [], True
    for place in options.folders:
        if (linux := kernel.find(place)) is None:
            parser.error(f"{place}: there is no kernel in it; unpack a linux-image package there")
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="kernels-") as folder:
            said = run(linux, options.tests, options.minutes * 60, Path(folder)).replace("\r", "")
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, outcome in OUTCOME.findall(said):
            found[name][outcome] += 1
        print(said.partition("= FAILURES =")[2] or said.partition("short test summary")[2] or said)
        rows += [(linux.modules.parent.name, name, counts) for name, counts in found.items()]
        is_well &= bool(found) and not any(counts["FAILED"] + counts["ERROR"] for counts in found.values())
    print("| kernel | tests | passed | failed | skipped |\n|---|---|---|---|---|")
    for release, name, counts in rows:
        failed = counts["FAILED"] + counts["ERROR"]
        print(f"| {release} | {name} | {counts['PASSED']} | {failed} | {counts['SKIPPED']} |")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
