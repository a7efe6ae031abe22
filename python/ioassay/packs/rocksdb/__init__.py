"""RocksDB by db_bench: the driver, its claims, the question `database`, and the studies of a database."""

from ioassay.pack import Pack

PACK = Pack(
    "RocksDB, loaded by db_bench",
    drivers={"db_bench": "ioassay.packs.rocksdb.driver:DbBench"},
    claims={"db_bench": "ioassay.packs.rocksdb.claims:CLAIMS"},
    programs={"db_bench": "(rocksdb_|leveldb_)?db_bench|db_bench_sqlite3"},
    analyses={"database": "ioassay.packs.rocksdb.questions.database"},
    before={"database": "describe"},
)
