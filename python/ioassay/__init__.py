"""ioassay: how fast is this storage, or this kernel subsystem, really, and why?

    import ioassay as ia

    run = ia.Study.read("quick").run()
    run.findings, run.trials, run.report()

docs/python.md is the first page about it. The package root stays light: a name is imported when it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ioassay._core import __version__ as __version__
    from ioassay.api.command_recording import Recording as Recording
    from ioassay.api.command_recording import record as record
    from ioassay.api.comparison import Comparison as Comparison
    from ioassay.api.comparison import compare as compare
    from ioassay.api.diagnosis import Diagnosis as Diagnosis
    from ioassay.api.diagnosis import doctor as doctor
    from ioassay.api.diagnosis import restore_settings as restore_settings
    from ioassay.api.live_page import LivePage as LivePage
    from ioassay.api.parameter_search import Search as Search
    from ioassay.api.parameter_search import tune as tune
    from ioassay.api.progress import Progress as Progress
    from ioassay.api.publication import Bundle as Bundle
    from ioassay.api.quick_study import quick as quick
    from ioassay.api.run_results import Run as Run
    from ioassay.api.run_results import import_results as import_results
    from ioassay.api.run_results import open as open
    from ioassay.api.served_drive import ServedDrive as ServedDrive
    from ioassay.api.served_drive import serve as serve
    from ioassay.api.served_drive import serve_group as serve_group
    from ioassay.api.study import Study as Study
    from ioassay.api.study_plan import Plan as Plan
    from ioassay.api.witness_judgement import Judgement as Judgement
    from ioassay.api.witness_judgement import witness as witness
    from ioassay.errors import BrokenPlugin as BrokenPlugin
    from ioassay.errors import ConditionError as ConditionError
    from ioassay.errors import Contradicted as Contradicted
    from ioassay.errors import InputError as InputError
    from ioassay.errors import Interrupted as Interrupted
    from ioassay.errors import IoassayError as IoassayError
    from ioassay.errors import RunError as RunError
    from ioassay.errors import SafetyRefusal as SafetyRefusal
    from ioassay.errors import StartError as StartError
    from ioassay.errors import StudyError as StudyError
    from ioassay.errors import ToolError as ToolError
    from ioassay.errors import UsageError as UsageError
    from ioassay.narrative.finding import Finding as Finding
    from ioassay.simulator import simulate as simulate
    from ioassay.simulator import sweep as sweep
    from ioassay.simulator.results import Simulation as Simulation

GC_THRESHOLD = 100_000
"""Objects made before Python looks for cycles among them: its 700 cost a command a tenth of its time."""

_MODULES = {
    "BrokenPlugin": "errors",
    "Bundle": "api.publication",
    "Comparison": "api.comparison",
    "ConditionError": "errors",
    "Contradicted": "errors",
    "Diagnosis": "api.diagnosis",
    "Finding": "narrative.finding",
    "InputError": "errors",
    "Interrupted": "errors",
    "IoassayError": "errors",
    "Judgement": "api.witness_judgement",
    "LivePage": "api.live_page",
    "Plan": "api.study_plan",
    "Progress": "api.progress",
    "Recording": "api.command_recording",
    "Run": "api.run_results",
    "RunError": "errors",
    "SafetyRefusal": "errors",
    "Search": "api.parameter_search",
    "ServedDrive": "api.served_drive",
    "Simulation": "simulator.results",
    "StartError": "errors",
    "Study": "api.study",
    "StudyError": "errors",
    "ToolError": "errors",
    "UsageError": "errors",
    "__version__": "_core",
    "compare": "api.comparison",
    "doctor": "api.diagnosis",
    "import_results": "api.run_results",
    "open": "api.run_results",
    "quick": "api.quick_study",
    "record": "api.command_recording",
    "restore_settings": "api.diagnosis",
    "serve": "api.served_drive",
    "serve_group": "api.served_drive",
    "simulate": "simulator",
    "sweep": "simulator",
    "tune": "api.parameter_search",
    "witness": "api.witness_judgement",
}
"""Name -> the module that has it. The imports above tell type checkers the same (tests/api/test_names.py)."""
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ioassay' has no attribute '{name}'")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"ioassay.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
