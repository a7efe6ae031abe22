"""Writes transactions to an SQLite database and prints each that was acknowledged, or checks them; run by tests.

    sqlite_rows.py write FILE FIRST JOURNAL SYNCHRONOUS   a line for each transaction, once it is acknowledged
    sqlite_rows.py check FILE COUNT                       a line for each thing that is wrong, of a database that
                                                          acknowledged COUNT transactions

A transaction inserts several rows, changes some of an earlier one, and counts itself in a row that all of them change,
so that one that is there in part does not go unnoticed.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import sys
from contextlib import closing

_ROWS = 4
_CHECKPOINT_PAGES = 25
"""Small, so that the log is copied into the database all the time (WAL)."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS pieces (number INTEGER, piece INTEGER, content BLOB, PRIMARY KEY (number, piece))",
    "CREATE TABLE IF NOT EXISTS last (number INTEGER)",
)


def piece_of(number: int, piece: int) -> bytes:
    """Content that says whose it is, of up to two pages."""
    return b"%d.%d " % (number, piece) * (1 + number * 37 % 900)


def opened(file: str) -> sqlite3.Connection:
    """With transactions that begin where it is said."""
    return sqlite3.connect(file, isolation_level=None)


def write(file: str, first: int, journal: str, synchronous: str) -> None:
    """Until it is killed."""
    with closing(opened(file)) as database:
        for pragma in (f"journal_mode={journal}", f"synchronous={synchronous}"):
            database.execute(f"PRAGMA {pragma}").fetchall()
        database.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}").fetchall()
        for table in _TABLES:
            database.execute(table)
        for number in itertools.count(first):
            transact(database, number)
            os.write(1, b"%d\n" % number)


def transact(database: sqlite3.Connection, number: int) -> None:
    """One transaction."""
    database.execute("BEGIN IMMEDIATE")
    for piece in range(_ROWS):
        database.execute("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)", (number, piece, piece_of(number, piece)))
    database.execute("DELETE FROM pieces WHERE number = ? AND piece = 0", (number - 1,))
    database.execute("DELETE FROM last")
    database.execute("INSERT INTO last VALUES (?)", (number,))
    database.execute("COMMIT")


def wrong(file: str, count: int) -> list[str]:
    """What does not hold, each in a line."""
    if not count and not os.path.exists(file):  # noqa: PTH110 # as sqlite3 takes it
        return []
    with closing(opened(file)) as database:
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
    return found + [
        f"{number}.{piece} differs" for number, piece, content in pieces if content != piece_of(number, piece)
    ]


def main() -> None:
    """See above."""
    what, file, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "write":
        write(file, number, *sys.argv[4:])
    for line in wrong(file, number):
        print(line)


if __name__ == "__main__":
    main()
