"""Claims compared with the kernel's counts: the verdict on each, its explanation, its numbers. Pure.

`judge.judge` is the entry point, and says why both differ and whether observing changed the result. `verdict` defines
verdicts, their rank and what they rest on, `properties` what a claim may state and what each can come to; `tolerances`
has every number that decides. The others are steps in this order: `claim_groups` (whose claim), `evidence` (what was
observed of it), `case` (both, and what devices did: every check takes one), and a file for each kind of property
(`operation_counts`, `file_access`, `session_times`, `latency_bounds`, `access_pattern`, `device_traffic`). They return
codes and numbers, and the narrative has the words.
Nothing is read, started or stored here; docs/verdicts.md has the rules for readers.
"""
