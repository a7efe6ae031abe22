"""dd for ioassay: how long a block takes, what of that is the same for every block, and the interrupts meanwhile."""
