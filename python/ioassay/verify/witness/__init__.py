"""The witness: an independent observer of a command, in the kernel where that is possible.

`watching` gives what watches one command, from before its first instruction to its end; what it saw is an
`observation.Observation`. `counting` gives what counts its system calls by name, with strace where nothing better can.
`watch` runs a command under it. Nothing is judged here: verdicts are made from observations
by `ioassay.analysis.claims.claim_verdicts`.
"""

from ioassay.verify.witness.capability import counter
from ioassay.verify.witness.observed_command import Watching, counting, watching
from ioassay.verify.witness.single_command import Observed, paths_in, watch

__all__ = ["Observed", "Watching", "counter", "counting", "paths_in", "watch", "watching"]
