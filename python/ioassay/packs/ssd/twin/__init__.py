"""A twin of a drive: measured from outside, described by the options of the simulated drive, and tested against it."""
