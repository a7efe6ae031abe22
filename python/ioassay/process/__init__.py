"""Processes: how they are started, supervised, confined and ended, and which there are."""
