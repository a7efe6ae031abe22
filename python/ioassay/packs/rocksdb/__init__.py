"""RocksDB by db_bench: the driver, its claims, the question `database`, and the studies of a database."""

from ioassay.pack import Pack

PACK = Pack(
    "RocksDB, loaded by db_bench",
    drivers={"db_bench": ".driver:DbBench"},
    claims={"db_bench": ".claims:CLAIMS"},
    programs={"db_bench": "(rocksdb_|leveldb_)?db_bench|db_bench_sqlite3"},
    analyses={"database": ".questions.database"},
    before={"database": "describe"},
)
