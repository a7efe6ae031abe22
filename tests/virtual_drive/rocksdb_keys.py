"""Writes to a RocksDB and prints each write that was acknowledged, or checks which of them are there; run by tests.

    rocksdb_keys.py write FOLDER FIRST sync|direct|no-sync   a line for each batch of keys, once it is acknowledged
    rocksdb_keys.py check FOLDER COUNT                       a line for each batch below COUNT that is not there as
                                                             written, and for each that is there in part

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
_BATCH = 3
_BEYOND = 10
"""Batches that may have been written and not acknowledged: one, and some to be safe."""


def library() -> ctypes.CDLL:
    """The functions that are used here, with the types of rocksdb/c.h."""
    found = ctypes.CDLL(ctypes.util.find_library("rocksdb"))
    for name in ("options_create", "writeoptions_create", "readoptions_create", "writebatch_create", "open", "get"):
        getattr(found, f"rocksdb_{name}").restype = ctypes.c_void_p
    return found


class Keys:
    """An open database."""

    def __init__(self, folder: str, *, way: str) -> None:
        self._of = library()
        options = ctypes.c_void_p(self._of.rocksdb_options_create())
        self._of.rocksdb_options_set_create_if_missing(options, ctypes.c_ubyte(1))
        self._of.rocksdb_options_set_write_buffer_size(options, ctypes.c_size_t(_MEMTABLE_BYTES))
        if way == "direct":
            self._of.rocksdb_options_set_use_direct_reads(options, ctypes.c_ubyte(1))
            self._of.rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, ctypes.c_ubyte(1))
        self._writing = ctypes.c_void_p(self._of.rocksdb_writeoptions_create())
        self._of.rocksdb_writeoptions_set_sync(self._writing, ctypes.c_ubyte(way != "no-sync"))
        self._reading = ctypes.c_void_p(self._of.rocksdb_readoptions_create())
        self._database = ctypes.c_void_p(self._said(self._of.rocksdb_open, options, folder.encode()))

    def write(self, number: int) -> None:
        """One batch. Returns when it is acknowledged."""
        batch = ctypes.c_void_p(self._of.rocksdb_writebatch_create())
        for key, value in _batch(number):
            lengths = ctypes.c_size_t(len(key)), ctypes.c_size_t(len(value))
            self._of.rocksdb_writebatch_put(batch, key, lengths[0], value, lengths[1])
        self._said(self._of.rocksdb_write, self._database, self._writing, batch)
        self._of.rocksdb_writebatch_destroy(batch)

    def count(self, number: int) -> int:
        """How many keys of a batch are there, with their values."""
        return sum(self._get(key) == value for key, value in _batch(number))

    def _get(self, key: bytes) -> bytes | None:
        length = ctypes.c_size_t()
        place = ctypes.byref(length)
        found = self._said(self._of.rocksdb_get, self._database, self._reading, key, ctypes.c_size_t(len(key)), place)
        if not found:
            return None
        read = ctypes.string_at(found, length.value)
        self._of.rocksdb_free(ctypes.c_void_p(found))
        return read

    def close(self) -> None:
        """As it has to be, so that the next one finds it closed."""
        self._of.rocksdb_close(self._database)

    def _said(self, function: ctypes._FuncPointer, *words: object) -> int:
        error = ctypes.c_char_p()
        answer: int = function(*words, ctypes.byref(error))
        if error.value is not None:
            sys.exit(error.value.decode(errors="replace"))
        return answer


def _batch(number: int) -> list[tuple[bytes, bytes]]:
    return [(b"%016d.%d" % (number, part), b"%016d" % (number * 7919 + part) * 10) for part in range(_BATCH)]


def main() -> None:
    """See above."""
    what, folder, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "write":
        keys = Keys(folder, way=sys.argv[4])
        for key in itertools.count(number):
            keys.write(key)
            os.write(1, b"%d\n" % key)
    keys = Keys(folder, way="sync")
    for key in range(number + _BEYOND):
        count = keys.count(key)
        if count not in (0, _BATCH) or (key < number and not count):
            print(f"{key}: {count} of {_BATCH} keys")
    keys.close()


if __name__ == "__main__":
    main()
