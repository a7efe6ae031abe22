"""Checks of the machine as a whole: processors, other users of it, its limits."""

from __future__ import annotations

import re

from ioassay import units
from ioassay.hints import document
from ioassay.host import process_capabilities
from ioassay.host.doctor.fact_lookup import Facts, Said, fact
from ioassay.host.settings import AS_ROOT, NO_GOVERNOR, RESTORE_COMMAND

OLDEST_KERNEL = (5, 10)
"""Flush counters in /proc/diskstats came with 5.5, a mature io_uring with 5.10 (which Debian 11 has)."""

_LOAD_PER_CPU = 0.25
_BUSY_CORES = 0.25
_STEAL_SHARE = 0.01
_SWAP_BYTES = 16 << 20
_FREE_MEMORY_SHARE = 0.05
_SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "xen", "refined-jiffies")
"""Clock sources that cannot be read without a system call or a slow device: each time stamp costs microseconds."""

_STOPS = {
    "fstrim": "fstrim.service",
    "updatedb": "updatedb.service mlocate.service plocate-updatedb.service",
    "mandb": "man-db.service",
    "apt": "apt-daily.service apt-daily-upgrade.service",
    "apt-get": "apt-daily.service apt-daily-upgrade.service",
    "apt.systemd.dai": "apt-daily.service apt-daily-upgrade.service",
    "unattended-upgr": "unattended-upgrades.service apt-daily-upgrade.service",
    "e2scrub": "e2scrub_all.service",
    "xfs_scrub": "xfs_scrub_all.service",
    "checkarray": "mdcheck_start.service",
}
"""Program -> units of systemd that start it."""


def high_load(facts: Facts) -> Said:
    """Load average against the number of processors (proc_loadavg(5)); it also counts tasks that wait for disks."""
    load, cpus = fact(facts, "activity", "load"), fact(facts, "cpu", "cpus")
    if not load or not cpus or load[0] <= max(1.0, _LOAD_PER_CPU * cpus):
        return None
    return (
        f"the load was {load[0]:.2f} over the last minute, on {cpus} processors; expected less than "
        f"{max(1.0, _LOAD_PER_CPU * cpus):.2g}",
        "ps -eo pid,user,pcpu,stat,args --sort=-pcpu | head",
    )


def busy_processes(facts: Facts) -> Said:
    """Who uses the processors right now."""
    busy = fact(facts, "activity", "busy") or ()
    if sum(process["share"] for process in busy) < _BUSY_CORES:
        return None
    seen = ", ".join(f"{process['name']} ({process['pid']}, {process['share']:.0%} of a core)" for process in busy)
    pids = ",".join(str(process["pid"]) for process in busy)
    return f"other processes are busy: {seen}", f"ps -o pid,user,pcpu,args --pid {pids} shows them: stop them or wait"


def background(facts: Facts) -> Said:
    """Programs that use disks by themselves."""
    found = fact(facts, "activity", "background") or ()
    if not found:
        return None
    units_of_them = (_STOPS.get(name) or _STOPS.get(name.partition(".")[0]) for name in found)
    services = " ".join(dict.fromkeys(filter(None, units_of_them)))
    remedy = f"sudo systemctl stop {services}, or wait" if services else "wait until they have ended"
    return f"programs that use disks are running: {', '.join(found)}", remedy


def virtual_machine(facts: Facts) -> Said:
    """The disk and the processors of a virtual machine are shared with others."""
    vm = fact(facts, "virtualisation", "vm")
    if not vm:
        return None
    product = fact(facts, "virtualisation", "product")
    return (
        f"this is a virtual machine ({vm}{f', {product}' if product else ''}): others may share its processors and its "
        "disk, whose cache on the host answers before the drive does",
        "repeat the run at another time and compare: ioassay compare RUN RUN",
    )


def steal_time(facts: Facts) -> Said:
    """Processor time that the hypervisor gave to others."""
    share = fact(facts, "activity", "steal_share")
    if share is None or share < _STEAL_SHARE:
        return None
    return (
        f"the hypervisor withheld {share:.1%} of the processor time that this machine wanted since it started",
        "use a machine with dedicated processors, or repeat at another time",
    )


def swap_in_use(facts: Facts) -> Said:
    """Pages in swap come back during the run."""
    total, free = fact(facts, "memory", "swap_total_bytes"), fact(facts, "memory", "swap_free_bytes")
    if not total or free is None or total - free < _SWAP_BYTES:
        return None
    used = units.format_size(total - free)
    return f"{used} of swap are in use and may be read back meanwhile", "sudo swapoff --all && sudo swapon --all"


def low_memory(facts: Facts) -> Said:
    """A machine short of memory pages and drops caches meanwhile."""
    total, available = fact(facts, "memory", "total_bytes"), fact(facts, "memory", "available_bytes")
    if not total or available is None or available >= _FREE_MEMORY_SHARE * total:
        return None
    seen = f"{units.format_size(available)} of {units.format_size(total)}"
    return f"only {seen} of memory are available", "ps -eo pid,user,rss,args --sort=-rss | head"


def huge_pages(facts: Facts) -> Said:
    """Transparent huge pages everywhere: the kernel compacts memory at its own times (admin-guide/mm/transhuge.rst)."""
    if fact(facts, "memory", "huge_pages") != "always":
        return None
    return (
        "transparent huge pages are 'always': the kernel moves memory about while a benchmark runs; expected madvise",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )


def cpu_limit(facts: Facts) -> Said:
    """A control group's quota stops all its processes for the rest of each period."""
    limit, cpus = fact(facts, "limits", "cpus"), fact(facts, "cpu", "cpus")
    if limit is None or (cpus is not None and limit >= cpus):
        return None
    of = f" of {cpus}" if cpus is not None else ""
    return (
        f"this control group may use {limit:g}{of} processors, and is stopped for a while when it used them up",
        "run outside of it, or raise its limit (docker update --cpus, systemctl set-property … CPUQuota=)",
    )


def cpu_affinity(facts: Facts) -> Said:
    """This process, and what it starts, may use some of the processors only."""
    allowed, cpus = fact(facts, "limits", "affinity"), fact(facts, "cpu", "cpus")
    if not allowed or not cpus or _count(allowed) >= cpus:
        return None
    return f"this process may use processors {allowed} only, of {cpus}", f"taskset --cpu-list 0-{cpus - 1} ioassay …"


def _count(listed: str) -> int:
    """`0-3,8` -> 5."""
    spans = [part.split("-") for part in listed.split(",") if re.fullmatch(r"\d+(-\d+)?", part)]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def memory_limit(facts: Facts) -> Said:
    """The page cache counts against a control group's memory."""
    limit, total = fact(facts, "limits", "memory_bytes"), fact(facts, "memory", "total_bytes")
    if limit is None or (total is not None and limit >= total):
        return None
    return (
        f"this control group may use {units.format_size(limit)} of memory, page cache included",
        "run outside of it, or raise its limit (docker update --memory, systemctl set-property … MemoryMax=)",
    )


def io_limit(facts: Facts) -> Said:
    """With a limit on I/O, the limit is what is measured."""
    limits = fact(facts, "limits", "io") or ()
    if not limits:
        return None
    return (
        f"a control group limits I/O: {'; '.join(limits)}: the limit would be measured, not the disk",
        "run outside of the container or the slice, or lift its limit (io.max)",
    )


def slow_clock(facts: Facts) -> Said:
    """Every request is timed: an expensive clock adds to each."""
    source = fact(facts, "clock", "source")
    if source not in _SLOW_CLOCKS:
        return None
    better = [name for name in fact(facts, "clock", "available") or () if name not in _SLOW_CLOCKS]
    folder = "/sys/devices/system/clocksource/clocksource0"
    return (
        f"the clock source is {source}: each reading of the time costs about a microsecond, in every latency",
        f"echo {better[0]} | sudo tee {folder}/current_clocksource" if better else "boot with tsc=reliable where it is",
    )


def old_kernel(facts: Facts) -> Said:
    """Kernels before OLDEST_KERNEL are not tested with."""
    release = str(fact(facts, "kernel", "release") or "")
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST_KERNEL:
        return None
    wanted = ".".join(map(str, OLDEST_KERNEL))
    return f"the kernel is {release}; expected {wanted} or newer (io_uring, flush counters)", "boot a newer kernel"


def not_root(facts: Facts) -> Said:
    """What an ordinary user cannot have."""
    if fact(facts, "user", "root") is not False:
        return None
    return (
        "this user is not root: the governor cannot be set, caches cannot be dropped, and drives do not tell their "
        "health",
        f"{AS_ROOT} …",
    )


def no_witness(facts: Facts) -> Said:
    """Claims can be set against totals only."""
    reason = fact(facts, "witness", "unusable")
    if not reason:
        return None
    withheld = re.findall(r"CAP_(\w+)", reason) if fact(facts, "user", "root") else []  # by a container
    if withheld:
        reason = reason.partition(": ")[0]  # what follows is the remedy of a user
    return (
        f"what tools claim can only be set against the kernel's totals, since BPF programs cannot watch: {reason}",
        process_capabilities.of_container(*withheld) if withheld else f"{AS_ROOT} …, or see {document('backends')}",
    )


def no_confinement(facts: Facts) -> Said:
    """Only the checks before a run stand between a tool and other files."""
    reason = fact(facts, "confinement", "unusable")
    if not reason:
        return None
    text = "the kernel cannot hold a trial's processes to what they may write, so only the checks before a run do"
    return f"{text}: {reason}", f"see {document('safety')}"


def leftover_restore_file(facts: Facts) -> Said:
    """A run was killed and left host settings changed, or control groups."""
    files = fact(facts, "leftovers") or ()
    if not files:
        return None
    by_root = any(file.startswith(("/run/", "/sys/")) for file in files) and fact(facts, "user", "root") is False
    remedy = RESTORE_COMMAND.replace("ioassay", AS_ROOT, 1) if by_root else RESTORE_COMMAND
    groups = [file for file in files if file.startswith("/sys/fs/cgroup/")]
    settings = [file for file in files if file not in groups]
    parts = [f"host settings changed: {', '.join(settings)}"] if settings else []
    parts += [f"control groups behind, which the next run removes: {', '.join(groups)}"] if groups else []
    return f"a run that was killed left {', and '.join(parts)}", remedy


_CPU = "/sys/devices/system/cpu"
_DEEP_US = 50
"""Waking up from a state this deep takes as long as a read from a fast drive."""


def governor(facts: Facts) -> Said:
    """Another clock governor than performance changes the clock with the load."""
    governors = fact(facts, "cpu", "governors") or {}
    others = {name: count for name, count in governors.items() if name != "performance"}
    if not others:
        return None
    seen = ", ".join(f"{name} on {count} of {sum(governors.values())} processors" for name, count in others.items())
    return (
        f"the clock governor is {seen}; expected performance (a run sets it itself where it may, and puts it back)",
        f"echo performance | sudo tee {_CPU}/cpu*/cpufreq/scaling_governor",
    )


def no_governor(facts: Facts) -> Said:
    """Without cpufreq nobody here controls the clock."""
    if fact(facts, "cpu", "cpus") is None or fact(facts, "cpu", "governors") is not None:
        return None
    return NO_GOVERNOR.text, NO_GOVERNOR.remedy


def turbo(facts: Facts) -> Said:
    """Turbo depends on heat and on what the other cores do."""
    if not fact(facts, "cpu", "turbo"):
        return None
    intel = str(fact(facts, "cpu", "frequency_driver") or "").startswith("intel_")
    remedy = f"echo 1 | sudo tee {_CPU}/intel_pstate/no_turbo" if intel else f"echo 0 | sudo tee {_CPU}/cpufreq/boost"
    return "turbo is on: the clock depends on heat and on the load of other cores, which adds noise", remedy


def deep_idle(facts: Facts) -> Said:
    """A core that slept deeply answers late, which a drive at low queue depth seems to have done."""
    states = [state for state in fact(facts, "cpu", "idle", "states") or () if not state.get("disabled")]
    deep = [state for state in states if state.get("latency_us", 0) >= _DEEP_US]
    if not deep:
        return None
    seen = ", ".join(f"{state.get('name')} ({state['latency_us']} µs)" for state in deep)
    return (
        f"idle processors may fall into deep sleep: {seen} to wake up, which adds to latencies at low queue depth",
        f"sudo cpupower idle-set --disable-by-latency {_DEEP_US} (apt-get install linux-cpupower)",
    )


def throttled(facts: Facts) -> Said:
    """Heat slowed the processors down since the machine started."""
    times = fact(facts, "cpu", "throttled")
    if not times:
        return None
    now = fact(facts, "cpu", "temperature_c")
    seen = f", now {now:.0f} °C" if now is not None else ""
    return f"processors were slowed down for heat {times} times since the machine started{seen}", "improve the cooling"


def on_battery(facts: Facts) -> Said:
    """Machines save power, and speed, on battery."""
    return ("the machine runs on battery", "connect the power supply") if fact(facts, "power", "on_battery") else None
