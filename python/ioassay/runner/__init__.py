"""From a study to its records: what is checked first, conditions, trials, workers, in which order."""
