"""The witness: an independent observer of a command, in the kernel where that is possible.

`observed_command` observes one command, from before its first instruction to its end, and returns an
`observation.Observation`, or counts its system calls by name, with strace where BPF cannot run.
`single_command` runs a command under the witness. Nothing is judged here; see `ioassay.analysis.claim_verdicts`.
"""

from ioassay.verify.witness.observed_command import Watching, counter, counting, watching
from ioassay.verify.witness.single_command import Observed, Watch, watch, words

__all__ = ["Observed", "Watch", "Watching", "counter", "counting", "watch", "watching", "words"]
