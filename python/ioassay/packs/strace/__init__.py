"""The witness by strace: a backend that needs no privileges, for those who cannot load BPF programs.

What strace writes becomes an observation in three steps:

    observer.py       starts commands under strace, and makes observations of what it writes
    call_lines.py     its lines as calls
    process_tree.py   what these calls did to files

BPF and the counters are core (`verify/witness`).
"""

from ioassay.pack import Pack

PACK = Pack("The witness by strace", observers={"strace": "ioassay.packs.strace.observer"})
