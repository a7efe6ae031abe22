"""Writes to a database and prints each write that was acknowledged, or checks which of them are there; run by tests.

    databases.py write KIND PLACE FIRST HOW...   a line for each write, once it is acknowledged
    databases.py check KIND PLACE COUNT          a line for each thing that is wrong, of a database that acknowledged
                                                 COUNT writes

KIND is `rocksdb`, HOW `sync`, `direct` or `no-sync`, and a write a batch of keys, which may not be there in part.
db_bench cannot say which keys it wrote. This is RocksDB's C interface, of the library of Debian's rocksdb-tools.

Or KIND is `sqlite`, HOW a journal mode and a word for `synchronous`. A transaction inserts several rows, changes
some of an earlier one, and counts itself in a row that all of them change, and one that is there in part is noticed.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import os
import sqlite3
import sys
from contextlib import closing

_MEMTABLE_BYTES = 128 << 10
"""Small, so that tables are flushed and compacted while keys are written."""
_BATCH = 3
_BEYOND = 10
"""Batches that may have been written and not acknowledged: one, and some to be safe."""
_ROWS = 4
_CHECKPOINT_PAGES = 25
"""Small, so that the log is copied into the database all the time (WAL)."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS pieces (number INTEGER, piece INTEGER, content BLOB, PRIMARY KEY (number, piece))",
    "CREATE TABLE IF NOT EXISTS last (number INTEGER)",
)


class RocksDb:
    """An open database, with the functions and types of rocksdb/c.h."""

    def __init__(self, folder: str, way: str = "sync") -> None:
        self._of = ctypes.CDLL(ctypes.util.find_library("rocksdb"))
        for name in ("options_create", "writeoptions_create", "readoptions_create", "writebatch_create", "open", "get"):
            getattr(self._of, f"rocksdb_{name}").restype = ctypes.c_void_p
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

    def _get(self, key: bytes) -> bytes | None:
        length = ctypes.c_size_t()
        place = ctypes.byref(length)
        found = self._said(self._of.rocksdb_get, self._database, self._reading, key, ctypes.c_size_t(len(key)), place)
        if not found:
            return None
        read = ctypes.string_at(found, length.value)
        self._of.rocksdb_free(ctypes.c_void_p(found))
        return read

    def _said(self, function: ctypes._FuncPointer, *words: object) -> int:
        error = ctypes.c_char_p()
        answer: int = function(*words, ctypes.byref(error))
        if error.value is not None:
            sys.exit(error.value.decode(errors="replace"))
        return answer

    @classmethod
    def wrong(cls, folder: str, count: int) -> list[str]:
        """Each batch that is not there as written though it was acknowledged, or is there in part."""
        keys, wrong = cls(folder), []
        for number in range(count + _BEYOND):
            found = sum(keys._get(key) == value for key, value in _batch(number))
            if found not in (0, _BATCH) or (number < count and not found):
                wrong.append(f"{number}: {found} of {_BATCH} keys")
        keys._of.rocksdb_close(keys._database)  # so that the next one finds it closed
        return wrong


def _batch(number: int) -> list[tuple[bytes, bytes]]:
    return [(b"%016d.%d" % (number, part), b"%016d" % (number * 7919 + part) * 10) for part in range(_BATCH)]


class Sqlite:
    """An open database, with transactions that begin where it is said."""

    def __init__(self, file: str, journal: str, synchronous: str) -> None:
        self._database = sqlite3.connect(file, isolation_level=None)
        for pragma in (f"journal_mode={journal}", f"synchronous={synchronous}"):
            self._database.execute(f"PRAGMA {pragma}").fetchall()
        self._database.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}").fetchall()
        for table in _TABLES:
            self._database.execute(table)

    def write(self, number: int) -> None:
        """One transaction."""
        rows = [(number, piece, _piece_of(number, piece)) for piece in range(_ROWS)]
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)", rows)
        self._database.execute("DELETE FROM pieces WHERE number = ? AND piece = 0", (number - 1,))
        self._database.execute("DELETE FROM last")
        self._database.execute("INSERT INTO last VALUES (?)", (number,))
        self._database.execute("COMMIT")

    @staticmethod
    def wrong(file: str, count: int) -> list[str]:
        """What does not hold, each in a line."""
        if not count and not os.path.exists(file):  # noqa: PTH110 # as sqlite3 takes it
            return []
        with closing(sqlite3.connect(file, isolation_level=None)) as database:
            try:
                found = [text for (text,) in database.execute("PRAGMA integrity_check") if text != "ok"]
                (last,) = database.execute("SELECT max(number) FROM last").fetchone() or (None,)
                pieces = database.execute("SELECT number, piece, content FROM pieces ORDER BY number, piece").fetchall()
            except sqlite3.Error as error:
                return [str(error)] if count else []
        last = -1 if last is None else last
        if not count - 1 <= last <= count:
            found.append(f"the last transaction is {last}, and {count} were acknowledged")
        wanted = [(number, piece) for number in range(last + 1) for piece in range(_ROWS) if piece or number == last]
        if [(number, piece) for number, piece, _ in pieces] != wanted:
            found.append(f"there are {len(pieces)} rows of {len(wanted)}")
        differ = [
            f"{number}.{piece} differs" for number, piece, content in pieces if content != _piece_of(number, piece)
        ]
        return found + differ


def _piece_of(number: int, piece: int) -> bytes:
    """Content that says whose it is, of up to two pages."""
    return b"%d.%d " % (number, piece) * (1 + number * 37 % 900)


def main() -> None:
    """See above."""
    what, kind, place, number = *sys.argv[1:4], int(sys.argv[4])
    if what == "check":
        print(*{"rocksdb": RocksDb, "sqlite": Sqlite}[kind].wrong(place, number), sep="\n", end="")
        return
    database = RocksDb(place, *sys.argv[5:]) if kind == "rocksdb" else Sqlite(place, *sys.argv[5:])
    for written in itertools.count(number):
        database.write(written)
        os.write(1, b"%d\n" % written)


if __name__ == "__main__":
    main()
