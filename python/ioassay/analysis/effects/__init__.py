"""What the factors of a study do to its responses: analyses of variance, contrasts, regressions, shapes."""
