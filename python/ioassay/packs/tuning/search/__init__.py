"""Finding the best parameters of a study in a fraction of the trials that measuring all of them takes.

    space.py      the study's factors as axes of the search: axis.py, level_scale.py; ranges.py parses --range
    objective.py  the metric to maximize or minimize, and the constraints
    search.py     proposes the next point; runs nothing and stores nothing
        candidate_grid.py    the points as coordinates, and a design that covers them
        history.py           the results so far, in the form that a model takes
        gaussian_process.py  what measured points say about all points: a Gaussian process with noise
        acquisition.py       the expected value of one more measurement of a point; where good points are dense
    request.py    the request of a search, as it is stored
    schedule.py   the trials of a search, step by step, from the records before them; pruning.py, confirmation.py
    campaign.py   runs these trials, one after another, as records of a run

Options and words for people are in `ioassay.cli`, what a search came to in `ioassay.packs.tuning.questions.tuned`.
"""
