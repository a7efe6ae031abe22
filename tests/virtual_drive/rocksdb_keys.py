"""Writes keys to a RocksDB and says each that was acknowledged, or checks which of them are there; run by tests.

    rocksdb_keys.py write FOLDER FIRST sync|no-sync     a line a key, once it is acknowledged
    rocksdb_keys.py missing FOLDER COUNT                a line for each key below COUNT that is not there as written

db_bench cannot say which keys it wrote. This is RocksDB's C interface, of the library that Debian's
rocksdb-tools needs.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import os
import sys

_MEMTABLE_BYTES = 128 << 10
"""Small, so that tables are flushed and compacted while keys are written."""


def library() -> ctypes.CDLL:
    """The functions that are used here, with the types of rocksdb/c.h."""
    found = ctypes.CDLL(ctypes.util.find_library("rocksdb"))
    for name in ("options_create", "writeoptions_create", "readoptions_create", "open", "get"):
        getattr(found, f"rocksdb_{name}").restype = ctypes.c_void_p
    return found


class Keys:
    """An open database."""

    def __init__(self, folder: str, *, sync: bool) -> None:
        self._of = library()
        options = ctypes.c_void_p(self._of.rocksdb_options_create())
        self._of.rocksdb_options_set_create_if_missing(options, ctypes.c_ubyte(1))
        self._of.rocksdb_options_set_write_buffer_size(options, ctypes.c_size_t(_MEMTABLE_BYTES))
        self._writing = ctypes.c_void_p(self._of.rocksdb_writeoptions_create())
        self._of.rocksdb_writeoptions_set_sync(self._writing, ctypes.c_ubyte(sync))
        self._reading = ctypes.c_void_p(self._of.rocksdb_readoptions_create())
        self._database = ctypes.c_void_p(self._said(self._of.rocksdb_open, options, folder.encode()))

    def write(self, number: int) -> None:
        """Returns when it is acknowledged."""
        key, value = _entry(number)
        lengths = ctypes.c_size_t(len(key)), ctypes.c_size_t(len(value))
        self._said(self._of.rocksdb_put, self._database, self._writing, key, lengths[0], value, lengths[1])

    def has(self, number: int) -> bool:
        """Whether it is there, with its value."""
        key, value = _entry(number)
        length = ctypes.c_size_t()
        place = ctypes.byref(length)
        found = self._said(self._of.rocksdb_get, self._database, self._reading, key, ctypes.c_size_t(len(key)), place)
        if not found:
            return False
        read = ctypes.string_at(found, length.value)
        self._of.rocksdb_free(ctypes.c_void_p(found))
        return read == value

    def close(self) -> None:
        """As it has to be, so that the next one finds it closed."""
        self._of.rocksdb_close(self._database)

    def _said(self, function: ctypes._FuncPointer, *words: object) -> int:
        error = ctypes.c_char_p()
        answer: int = function(*words, ctypes.byref(error))
        if error.value is not None:
            sys.exit(error.value.decode(errors="replace"))
        return answer


def _entry(number: int) -> tuple[bytes, bytes]:
    return b"%016d" % number, b"%016d" % (number * 7919) * 30


def main() -> None:
    """See above."""
    what, folder, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "write":
        keys = Keys(folder, sync=sys.argv[4] == "sync")
        for key in itertools.count(number):
            keys.write(key)
            os.write(1, b"%d\n" % key)
    keys = Keys(folder, sync=True)
    print(*(key for key in range(number) if not keys.has(key)), sep="\n")
    keys.close()


if __name__ == "__main__":
    main()
