"""The kernel's command line as it may be published: parameters that matter for performance, by name.

The values of all others are replaced by keyed hashes, so that two runs can be compared and nothing can be read. What
stands behind `--` is meant for init, and only counted. Names and meanings: kernel documentation,
admin-guide/kernel-parameters.txt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

SHOWN = {
    "BOOT_IMAGE": "the kernel that was started",
    "mitigations": "what is done about flaws of the processor",
    "spectre_*": "the same, of one flaw",
    "spec_*": "the same",
    "nospectre_*": "the same",
    "nospec_store_bypass_disable": "the same",
    "l1tf": "the same",
    "mds": "the same",
    "tsx": "the same",
    "tsx_async_abort": "the same",
    "mmio_stale_data": "the same",
    "retbleed": "the same",
    "srbds": "the same",
    "gather_data_sampling": "the same",
    "reg_file_data_sampling": "the same",
    "kvm*.nx_huge_pages": "the same",
    "pti": "page tables apart for the kernel: system calls cost more",
    "nopti": "the same",
    "isolcpus": "processors without other tasks",
    "nohz": "ticks of idle processors",
    "nohz_full": "processors without ticks",
    "rcu_nocbs": "where RCU callbacks run",
    "rcu_nocb_poll": "the same",
    "rcutree.*": "RCU's timing",
    "rcupdate.*": "the same",
    "irqaffinity": "processors that take interrupts",
    "threadirqs": "interrupts in threads",
    "nosmt": "simultaneous multithreading",
    "maxcpus": "number of processors",
    "nr_cpus": "the same",
    "preempt": "preemption of the kernel",
    "sched_*": "the scheduler",
    "skew_tick": "ticks at the same time or not",
    "noautogroup": "scheduling by session",
    "hugepages": "reserved huge pages",
    "hugepagesz": "their size",
    "default_hugepagesz": "the same",
    "hugetlb_*": "huge pages",
    "transparent_hugepage": "huge pages without asking",
    "transparent_hugepage_*": "the same",
    "thp_*": "the same",
    "mem": "memory that is used",
    "memmap": "memory that is reserved",
    "crashkernel": "the same",
    "movablecore": "memory's zones",
    "kernelcore": "the same",
    "cma": "contiguous memory",
    "swiotlb": "bounce buffers",
    "init_on_alloc": "pages are cleared",
    "init_on_free": "the same",
    "page_alloc.shuffle": "order of free pages",
    "page_poison": "pages are filled",
    "slab_*": "the allocator",
    "slub_*": "the same",
    "numa": "nodes",
    "numa_balancing": "pages follow their tasks",
    "cgroup_disable": "controllers of control groups",
    "cgroup_enable": "the same",
    "cgroup_no_v1": "the same",
    "cgroup.memory": "the same",
    "systemd.unified_cgroup_hierarchy": "version of control groups",
    "psi": "pressure is counted",
    "intel_pstate": "who sets the frequency",
    "intel_pstate.*": "the same",
    "amd_pstate": "the same",
    "amd_pstate.*": "the same",
    "cpufreq.*": "the same",
    "processor.max_cstate": "idle states",
    "intel_idle.max_cstate": "the same",
    "cpuidle.*": "the same",
    "cpuidle_haltpoll.*": "the same",
    "haltpoll.*": "the same",
    "idle": "the same",
    "nohlt": "the same",
    "acpi_pad.disable": "the same",
    "clocksource": "the clock",
    "tsc": "the same",
    "hpet": "the same",
    "notsc": "the same",
    "no-kvmclock": "the same",
    "elevator": "I/O scheduler",
    "nvme.*": "queues, polling and timeouts of NVMe",
    "nvme_core.*": "power states and multipath of NVMe",
    "scsi_mod.*": "queues of SCSI",
    "ahci.*": "the same, of SATA",
    "libata.*": "the same",
    "dm_mod.*": "the device mapper",
    "raid*": "software RAID",
    "virtio_blk.*": "queues of virtual disks",
    "rootfstype": "file system of /",
    "fsck.mode": "a check in the background",
    "pcie_aspm": "power states of the link",
    "pcie_aspm.policy": "the same",
    "pcie_bus_*": "size of transfers",
    "pci": "transfers and interrupts of devices",
    "iommu": "translation of addresses",
    "iommu.*": "the same",
    "intel_iommu": "the same",
    "amd_iommu": "the same",
    "audit": "system calls are logged",
    "audit_backlog_limit": "the same",
    "apparmor": "checks of a security module",
    "selinux": "the same",
    "lsm": "the same",
    "security": "the same",
    "lockdown": "what the kernel allows",
    "ftrace*": "tracing",
    "trace_*": "the same",
    "debug*": "debugging costs time",
    "kasan*": "the same",
    "kfence.*": "the same",
    "lockdep*": "the same",
    "nmi_watchdog": "watchdogs",
    "nowatchdog": "the same",
    "nosoftlockup": "the same",
    "watchdog*": "the same",
    "console": "a slow console delays who prints",
    "loglevel": "the same",
    "quiet": "the same",
    "splash": "start only; often there, and no secret",
    "ro": "the same",
    "rw": "the same",
    "nomodule": "the same",
    "nomodeset": "the same",
    "nokaslr": "addresses are fixed",
    "kaslr": "the same",
    "random.trust_cpu": "start of the random generator",
    "panic": "no secret, and nearly everywhere",
    "reboot": "the same",
}  # fmt: skip
"""Name, or pattern of names (`_` and `-` are the same to the kernel), to why its value is shown."""

_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_HARMLESS = re.compile(r"[\w.,:+@/%*!$#^~-]{0,256}", re.ASCII)
"""Characters of lists of processors, sizes and words: no spaces, no quotes."""
_IDENTIFYING = re.compile(
    r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-|(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|\d+\.\d+\.\d+\.\d+|/(?:home|root|dev/disk)\b|uuid"
)
HASH_DIGITS = 8

_HIDDEN = re.compile(rf"(?:[a-z][a-z0-9_.-]*=)?#[0-9a-f]{{{HASH_DIGITS}}}|init-arguments=\d+")


def words(cmdline: str) -> tuple[list[str], list[str]]:
    """The kernel's parameters, and the arguments of init; quotes keep spaces together (next_arg() of lib/cmdline.c)."""
    every = _WORD.findall(cmdline)
    here = every.index("--") if "--" in every else len(every)
    return every[:here], every[here + 1 :]


def is_shown(word: str) -> bool:
    """Whether a parameter may be published as it stands."""
    name, _, value = word.strip('"').partition("=")
    name = name.replace("-", "_")
    known = any(fnmatchcase(name, pattern.replace("-", "_")) for pattern in SHOWN)
    return known and bool(_HARMLESS.fullmatch(value)) and not _IDENTIFYING.search(value)


def shown(cmdline: str, pseudonym: Callable[[str], str]) -> str:
    """The command line as it is stored: `mitigations=off root=#1f09ac42 init-arguments=3`.

    `pseudonym` gives the hash of a value, `#` included. What is shown already stays the same.
    """
    parameters, of_init = words(cmdline)
    counted = [f"init-arguments={len(of_init)}"] if of_init else []
    return " ".join([*(_shown(word, pseudonym) for word in parameters), *counted])


def hidden_values(cmdline: str) -> Iterator[str]:
    """What `shown` leaves out: values of parameters, words without a name, arguments of init."""
    parameters, of_init = words(cmdline)
    for word in parameters:
        if not is_shown(word) and not _HIDDEN.fullmatch(word):
            name, value = _parts(word)
            yield value if name else word.strip('"')
    for word in of_init:
        yield word.partition("=")[2].strip('"') or word.strip('"')


def _shown(word: str, pseudonym: Callable[[str], str]) -> str:
    if is_shown(word) or _HIDDEN.fullmatch(word):
        return word
    name, value = _parts(word)
    return f"{name}{'=' if name else ''}{pseudonym(value or word)}"


def _parts(word: str) -> tuple[str, str]:
    """Name and value; no name where it may be a secret itself (a bare token, base64 that ends in `=`)."""
    name, equals, value = word.strip('"').partition("=")
    named = equals and value.strip('="') and _NAME.fullmatch(name)
    return (name, value.strip('"')) if named else ("", "")
