"""Claims set against what the kernel saw: which verdict each gets, in which words, on which numbers. Pure.

`judge.judge` is the whole; `outcome` says what a verdict is, `tolerance` holds every number that decides. The other
files are its questions in the order in which they are asked: `matching` (whose claim), `evidence` (what was seen of
it), `counts`, `device`, `accounting` and `latency`, `effect` (did watching change it), `reasons` (why they differ).
Nothing is read, started or stored here; docs/verdicts.md has the rules for readers.
"""
