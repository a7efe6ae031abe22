"""The statistics: pure functions of arrays that return frozen dataclasses. They know nothing of studies and records.

What cannot be computed is not an error and not NaN: it is an `Undefined` that says why (`result.py`).
Definitions and sources are gathered in docs/METHOD.md.
"""
