"""Checks of the processors: what makes their speed vary. Each is one small function from facts to what it says."""

from __future__ import annotations

from ioassay.host.doctor.fact_lookup import Facts, Said, fact
from ioassay.host.settings import NO_GOVERNOR

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
        f"the clock governor is {seen}; wanted performance (a run sets it itself where it may, and puts it back)",
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
