"""Claims compared with the kernel's counts: the verdict on each, its explanation, its numbers. Pure.

`judge.judge` is the entry point. `verdict` defines verdicts and their rank; `tolerances` has every number that decides.
The other files are steps in this order: `claim_groups` (whose claim), `evidence` (what was observed of it),
`operation_counts`, `device_traffic`, `session_times` and `latency_bounds`, `observer_effect` (did observing change the
result), `explanations` (why they differ). They return codes and numbers (`statement`), and the narrative has the words.
Nothing is read, started or stored here; docs/verdicts.md has the rules for readers.
"""
