"""Findings in sentences: phrases, summaries, the conclusion of a study."""
