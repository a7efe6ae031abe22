"""Threats to validity: what speaks against the results of a study, each with its evidence."""
