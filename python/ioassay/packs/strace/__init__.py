"""The witness by strace: a backend that needs no privileges, for those who cannot load BPF programs."""

from ioassay.pack import Pack

PACK = Pack("The witness by strace", observers={"strace": ".observer"})
