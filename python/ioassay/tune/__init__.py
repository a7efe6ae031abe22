"""Finding the best parameters of a study in a fraction of the trials that measuring all of them takes.

    space.py      the study's factors turned into axes to search along: axis.py, scale.py; ranges.py reads --range
    goal.py       what is to be made large or small, and what must hold meanwhile
    search.py     which point next: asks and is told, runs nothing and stores nothing
        grid.py       the points as coordinates; a design that covers them
        told.py       what was told, in the form in which a model takes it
        surrogate.py  what measured points say about all points: a Gaussian process with noise
        propose.py    what measuring a point once more is worth
        density.py    where good points lie dense: every second point of long searches
    request.py    what a search was asked
    script.py     the trials of a search, step by step, given the records of those before; pruning.py, confirm.py
    campaign.py   them, one after another, as records of a run

Options and words for people are in `ioassay.cli`, what a search came to in `ioassay.analysis.optimum.tuning`.
"""
