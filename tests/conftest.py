"""What every test may ask for: what this machine can do, loop devices, fake /proc and /sys trees, seeds.

A test says with a marker what it needs (`root`, `fio`, `strace`, `stress`, `landlock`, `bpf`, `guest`, `browser`;
`slow` says that it takes its time).
Where the need is not met the test is skipped and the reason is printed. `IOASSAY_REQUIRE`, a comma-separated
list of markers, turns a skip of a test that bears one of them into a failure, so that continuous integration
cannot go green by running nothing; `all` does so for every skip. A test with the marker `foreign` needs what no set-up
installs, and may be skipped unless `foreign` is named. A test that uses `loop_device` bears `loop` by itself.

It deliberately holds no fixture about one subject: those belong beside their tests.
"""

from __future__ import annotations

import fcntl
import gc
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

REQUIRED = frozenset(name.strip() for name in os.environ.get("IOASSAY_REQUIRE", "").split(",") if name.strip())
# What the tests with these markers count is done by the kernel for everybody: another program's reclaim, write-back
# or scan can be in it, and a loop device that one test detaches another may be given. They run one after another.
WHOLE_MACHINE = frozenset({"bpf", "loop"})
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# The same examples every time, so that ./check says the same of the same tree; IOASSAY_EXPLORE=1 looks for new ones.
# A slow machine is not a wrong answer (no deadline), and a failure must say how to run it again (print_blob).
EXPLORE = bool(os.environ.get("IOASSAY_EXPLORE"))
THOROUGH = bool(os.environ.get("IOASSAY_THOROUGH"))
EXAMPLES = 400 if THOROUGH else 50
hypothesis.settings.register_profile(
    "ioassay", deadline=None, print_blob=True, derandomize=not EXPLORE, max_examples=EXAMPLES
)
hypothesis.settings.load_profile("ioassay")


# A shell ignores Ctrl-C for what it runs in the background, and so would all that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same of the end of a terminal under nohup. What is started gets the default instead of a handler; this process
# still outlives the terminal.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def is_memory(folder: str) -> bool:
    """Is a memory file system mounted there?"""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return [kind for _, place, kind, *_ in mounts if place == folder][-1:] == ["tmpfs"]


# Tests watch what reaches a disk, so `tmp_path` has to be on one, and since Debian 13 /tmp is memory.
if "TMPDIR" not in os.environ and is_memory(tempfile.gettempdir()):
    tempfile.tempdir = os.environ["TMPDIR"] = "/var/tmp"


# The tests stay in memory until the end, so the garbage collector need not look at them.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def find_browser() -> str | None:
    """The path of the first Chromium-like browser on PATH, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def unmet_needs() -> dict[str, str]:
    """Marker name to the reason why tests that bear it cannot run on this machine."""
    unmet = {}
    if os.geteuid() != 0:
        unmet["root"] = "needs root: run as root or with sudo"
    if shutil.which("fio") is None:
        unmet["fio"] = "needs fio on PATH: apt-get install fio"
    if shutil.which("strace") is None:
        unmet["strace"] = "needs strace on PATH: apt-get install strace"
    if shutil.which("stress-ng") is None:
        unmet["stress"] = "needs stress-ng on PATH: apt-get install stress-ng"
    if why := _without_landlock():
        unmet["landlock"] = f"needs Landlock: {why}"
    if why := _without_bpf():
        unmet["bpf"] = f"needs BPF programs: {why}"
    if why := _without_guest():
        unmet["guest"] = why
    if find_browser() is None:
        unmet["browser"] = "needs Chromium on PATH: apt-get install chromium"
    return unmet


def _without_guest() -> str:
    """Why no guest can be booted; empty if one can. Where its kernel is looked for: tests/guest/kernel.py."""
    if shutil.which("qemu-system-x86_64") is None:
        return "needs qemu-system-x86_64 on PATH: apt-get install qemu-system-x86"
    if not Path("/usr/bin/busybox").exists():
        return "needs a static busybox: apt-get install busybox-static"
    if shutil.which("nvme", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") is None:
        return "needs nvme-cli: apt-get install nvme-cli"
    named = os.environ.get("IOASSAY_GUEST_KERNEL")
    folder = Path(named) if named else Path(__file__).parent.parent / ".setup" / "guest-kernel"
    return "" if any(folder.glob("boot/vmlinuz-*")) else "needs a kernel for guests: python3 tests/guest/kernel.py"


def _without_landlock() -> str:
    from ioassay.process import landlock

    return landlock.support().why


def _without_bpf() -> str:
    from ioassay import _core

    return _core.witness_capability()


def needs_of(item: pytest.Item) -> set[str]:
    """The markers a test bears, its own and those of its fixtures."""
    needs = {marker.name for marker in item.iter_markers()}
    if "loop_device" in getattr(item, "fixturenames", ()):
        needs.add("loop")
    return needs


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of the same name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unmet = unmet_needs()
    if not THOROUGH and (left_out := [item for item in items if item.get_closest_marker("thorough")]):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        for need in sorted(needs_of(item) & unmet.keys()):
            item.add_marker(pytest.mark.skip(reason=unmet[need]))
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))
            if config.getoption("loadgroup", False) and hasattr(item, "_id"):
                # xdist 3.8 writes the group into `_nodeid`, which pytest 9.2 no longer reads.
                item._id = type(item._id).parse(f"{item.nodeid}@{group}")
    # Groups are handed out first, and then the others in this order: nobody waits for a long test at the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None or bool(_group(item)))


def _group(item: pytest.Item) -> str:
    """Which tests run one after another in one process: those that meet, and those that share a costly fixture."""
    if needs_of(item) & WHOLE_MACHINE:
        return "whole machine"
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return str(item.path) if any(of[-1].scope == "module" for of in fixtures) else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    missed = needs_of(item) & REQUIRED if "all" not in REQUIRED else {"all"}
    if "foreign" in needs_of(item) and "foreign" not in REQUIRED:
        return report
    if report.skipped and missed and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"IOASSAY_REQUIRE names {', '.join(sorted(missed))}, so this may not be skipped: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole file skipped while it is collected bears no marker: only `all` turns that into a failure."""
    report = yield
    if report.skipped and "all" in REQUIRED:
        report.outcome = "failed"
        report.longrepr = f"IOASSAY_REQUIRE names all, so this may not be skipped: {report.longrepr}"
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the process that answers commands before tests that look at the children of this one."""
    if "children()" in item.path.read_text():
        end_command_server()


def pytest_sessionfinish() -> None:
    end_command_server()


def end_command_server() -> None:
    """Where a test has started it (tests/cli/command_server.py)."""
    if server := sys.modules.get("tests.cli.command_server"):
        server.end()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser. Ask for the marker `browser` as well."""
    return find_browser() or pytest.skip("needs Chromium on PATH: apt-get install chromium")


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """Headless Chromium, one for each file of tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        started = driver.chromium.launch(executable_path=chromium, args=flags, timeout=240_000)
        yield started
        started.close()


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders of the user's state and cache, so that no test makes or uses the user's own (`host.privacy`)."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("state")
        patch.setenv("XDG_STATE_HOME", str(folder))
        base = tmp_path_factory.getbasetemp()
        shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))  # the page's script, assembled once for all workers
        yield folder


@pytest.fixture(scope="session")
def nobody() -> list[str]:
    """The words in front of a command that run it as a user without rights, who can start this checkout's Python.

    Without setpriv, and where other users cannot read the checkout (below root's home, say), the test is skipped.
    """
    setpriv = shutil.which("setpriv") or pytest.skip("needs setpriv on PATH: apt-get install util-linux")
    words = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    tried = [*words, sys.executable, "-I", "-c", "import ioassay._core"]
    if subprocess.run(tried, cwd="/", capture_output=True, check=False).returncode:
        pytest.skip("this checkout cannot be read by others than its owner")
    return words


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A fresh seed, printed where the test fails; IOASSAY_SEED=<n> runs the same case again."""
    value = int(os.environ.get("IOASSAY_SEED") or random.SystemRandom().randrange(2**32))
    request.node.add_report_section("setup", "seed", f"run it again with IOASSAY_SEED={value}")
    return value


@pytest.fixture
def built(tmp_path: Path) -> Callable[..., str]:
    """`built(source, *options)`: path of a C program, or with `-shared` of a library."""
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler: apt-get install gcc libc6-dev")

    def build(source: str, *options: str) -> str:
        program = tmp_path / ("program.so" if "-shared" in options else "program")
        argv = [compiler, "-x", "c", "-", "-O1", "-o", str(program), *options]
        done = subprocess.run(argv, input=source, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return str(program)

    return build


@pytest.fixture
def in_memory() -> Iterator[Callable[[Path], None]]:
    """A function that reads a file into the page cache, where it stays until the test ends.

    What is merely read may be dropped again at any time by a machine that is short of memory; what is locked
    (mmap(2), MAP_LOCKED) may not. Without the right to lock that much the test fails where it asks.
    """
    locked_flag = 0x2000  # MAP_LOCKED of asm-generic/mman.h, which Python's mmap does not name
    held: list[mmap.mmap] = []

    def hold(path: Path) -> None:
        with path.open("rb") as file:
            held.append(mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED | locked_flag, mmap.PROT_READ))

    yield hold
    for area in held:
        area.close()


@pytest.fixture
def fake_root(tmp_path: Path) -> Callable[[Mapping[str, str | bytes | Path | None]], Path]:
    """A function that writes a small fake / and returns it.

    It takes path to content: text or bytes become a file, None an empty folder, a `Path` a symbolic link to
    that path, written verbatim (so that sysfs's relative links can be given as they are). Calls add to one
    tree.
    """
    root = tmp_path / "fake_root"

    def build(tree: Mapping[str, str | bytes | Path | None]) -> Path:
        root.mkdir(exist_ok=True)
        for name, content in tree.items():
            write_entry(root / name.lstrip("/"), content)
        return root

    return build


def write_entry(path: Path, content: str | bytes | Path | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.mkdir(exist_ok=True)
    elif isinstance(content, Path):
        path.symlink_to(content)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A function that makes a loop device over a new file and returns its path, such as /dev/loop0.

    `loop_device(64 << 20)` takes the size in bytes; `partitions=True` lets the kernel look for a partition
    table; `loop_device(backing=PATH)` uses a file that is there. All devices are detached after the test,
    which is marked `root`.
    """
    with ExitStack() as attached:

        def attach(size_bytes: int = 64 << 20, *, backing: Path | None = None, partitions: bool = False) -> Path:
            if backing is None:
                backing = tmp_path / f"backing-{len(made)}.img"
                with backing.open("wb") as file:
                    file.truncate(size_bytes)
            made.append(attached.enter_context(loop_on(backing, *(["--partscan"] if partitions else []))))
            return made[-1]

        made: list[Path] = []
        yield attach


@contextmanager
def tmpfs(folder: Path, size_kib: int, *options: str) -> Iterator[Path]:
    """A new folder that is a file system of that many KiB in memory; needs root."""
    folder.mkdir()
    listed = ",".join((f"size={size_kib}k", *options))
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", listed, "tmpfs", folder], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"needs to mount a tmpfs: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # somebody may just look at it


@contextmanager
def loop_on(backing: Path, *flags: str) -> Iterator[Path]:
    """A loop device on a file, with these flags of losetup(8)."""
    command = ["losetup", "--find", "--show", *flags, str(backing)]
    # One at a time: another one would open the device that this one finds, and then look for the next.
    with Path(tempfile.gettempdir(), "ioassay-tests-loop.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs loop devices: {done.stderr.strip()}")
    device = Path(done.stdout.strip())
    try:
        yield device
    finally:
        detach(device, backing)


def detach(device: Path, backing: Path, patience_s: float = 240.0) -> None:
    """Ends a loop device; one that something still holds after `patience_s` (a mount) is the test's error.

    The kernel takes the order to detach a busy device and does it at the last close, so only sysfs tells. Partitions go
    first: the kernel may keep them for whoever is given the device next.
    """
    shown = Path("/sys/block", device.name, "loop/backing_file")

    def is_ours() -> bool:
        """Whether it has a file of that folder still: a number that is free is given to whoever asks next."""
        try:
            return Path(shown.read_text().rstrip("\n").removesuffix(" (deleted)")).parent == backing.resolve().parent
        except OSError:
            return False

    if not is_ours():
        return
    if any(Path("/sys/block", device.name).glob(f"{device.name}p*")):
        subprocess.run(["partx", "--delete", str(device)], capture_output=True, check=False)
    subprocess.run(["losetup", "--detach", str(device)], capture_output=True, check=False)
    give_up = time.monotonic() + patience_s
    while is_ours():
        if time.monotonic() > give_up:
            raise RuntimeError(f"{device} is still in use {patience_s} s after the test; unmount it there first")
        time.sleep(0.02)
