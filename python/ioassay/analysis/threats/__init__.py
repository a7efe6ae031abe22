"""Threats to validity of a study's results, each with its evidence."""
