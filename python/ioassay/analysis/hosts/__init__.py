"""Hosts that measured: which of them differs, and what all of them do together."""
