"""The trials of a search: which comes next, after what was recorded; the source that `run.execute` takes them from.

A search is a run like any other: its folder holds study, plan and records, so that `report` and `sql` read it, plus

    tune.json     what was asked (tune.request), written before the plan
    plan.jsonl    grows: trials are added before they run, each time whole (temporary file, fsync, rename)
    found.json    what the search came to (why it ended, how many it asked, the winner), before the confirmation

Each trial says in `search` what it is for, which is a column of the frame of trials (`RecordSet.trials["search"]`; the
column is missing in runs that are no search), and what was asked and found is `RecordSet.tuning` (None elsewhere):

    default     the point that everything is compared with: the first that is tried
    explore     a point that has not been tried
    refine      a point near the best ones
    repeat      the next repetition of a point that was tried, to be surer of it
    short       the first part of a candidate's running time; it went on, so that its own trial follows
    pruned      the same, but clearly worse than the best's own first part, so that nothing follows. Trials and records
                say `short`: whether anything followed is seen when frames are made of them
    confirm     a fresh repetition of the winner or of the default, after the search; the only ones that count in
                means, intervals and tests, because the search chose the winner by the luck of its own trials

Nothing is decided by a clock alone, and everything else follows from seed and records: a search that was killed asks
for the same again, finds the records, and goes on where it was. What the clock did decide is in found.json.
Deliberately not here: which point is worth trying (`search`), whether the winner won (`ioassay.analysis.tuned`).
"""
