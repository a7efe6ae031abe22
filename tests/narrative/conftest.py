"""The builder of datasets that the tests of the analyses use, and the golden check."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # importmode=importlib leaves a test's own folder out
sys.path.insert(1, str(Path(__file__).parent.parent))

from analysis.conftest import lab

__all__ = ["lab"]
