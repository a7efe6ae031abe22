"""Finding the best parameters of a study in a fraction of the trials that measuring all of them takes.

    space.py      the study's factors turned into axes to search along
    goal.py       what is to be made large or small, and what must hold meanwhile
    search.py     which point next: asks and is told, runs nothing and stores nothing
    campaign.py   the trials of a search, one after another, as records of a run; the confirmation at its end
"""
