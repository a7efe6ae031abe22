"""ioassay: how fast is this storage, or this kernel subsystem, really, and why?

The package root stays light: heavy libraries are imported where they are used.
"""

__version__ = "0.1.0"
