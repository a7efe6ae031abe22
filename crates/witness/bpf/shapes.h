/* What the programs and the loader agree on: every struct is whole 64-bit words, read by position in src/shape.rs. */
#pragma once
#include "kernel.h"

#define OPS 64
#define SYSCALLS 512
#define MAX_ODD_CALLS 256
#define BUCKETS 1280
#define MAX_SESSIONS 32768
#define MAX_FILES 32768
#define MAX_PATTERNS 32768
#define MAX_GRANULE_WORDS 2097152
#define SEGMENTS 28
#define MAX_DEVICES 32
#define MAX_INFLIGHT 65536
#define MAX_BIOS 65536
#define PATH_BYTES 256
#define WORDS_BYTES 2048
#define CLASSES (MAX_DEVICES * 2 * KINDS)
#define NONE 0xffffffffU

enum { READ, WRITE, SYNC, DISCARD, FLUSH, OTHER, KINDS };

/* Counts of one class of calls. First and minimum are kept as complements: then zeroed memory is right to begin with,
 * and all four extremes are raised, never lowered. */
struct calls {
    u64 calls, completed, errors, fewer, requested_bytes, bytes;
    u64 not_first_ns, last_ns, sum_ns, not_min_ns, max_ns;
};

struct operation {
    struct calls calls;
    u64 buckets[BUCKETS];
};

/* Outer intervals of calls on files that wait: from the return of the task's watched call before to the entry of its
 * next call, whatever that is but one that reads a clock. What a tool measures of the call lies within. */
struct outer {
    u64 number;
    u64 buckets[BUCKETS];
};

/* Index into `health`: what went wrong, and how far the tables are filled. */
enum {
    LOST,
    MISSED,
    UNMATCHED,
    DROPPED,
    UNTRACKED_FILES,
    UNTRACKED_SESSIONS,
    PROCESSES,
    NEXT_SESSION,
    NEXT_FILE,
    NEXT_DEVICE,
    ATTACHED_NS, /* when the loader had attached everything */
    THREADS,     /* of PROCESSES, those that are threads of a process that was there */
    ALIVE,
    MOST_ALIVE,
    BEFORE,      /* reads, writes and syncs that ended and had begun before their task was followed */
    UNLISTED,    /* calls that found no room in the listing */
    NEXT_PATTERN,
    NEXT_GRANULE_WORD,
    NEXT_ACCOUNT,
    NEXT_EXPLAINED,
    NEXT_MOMENTS,
    NEXT_RING,
    UNEXPLAINED, /* tasks and requests that found no room among those that are explained */
    UNNAMED,     /* programs that were begun or ended and found no room in `programs` */
    HEALTH
};

/* System calls of one number. */
struct called {
    u64 calls, errors;
};
/* Behind the numbers of the table: calls of 32-bit programs, and those of numbers that found no room. */
enum { CALLED_COMPAT = SYSCALLS, CALLED_BEYOND, CALLED };

struct session {
    u64 file, inode;
    u32 file_id, flags;
    u64 opened_ns, closed_ns, second_ns, ended_ns;
    u64 nth, cached_bytes; /* what had been added to its file's page cache when its first read or write began */
    u32 read_pattern, write_pattern; /* place and 1; 0 before the first call, NONE where there are no offsets */
    struct calls read, write, sync, first;
    /* Entry of the last synchronisation; those before which something was written; writes that were one themselves. */
    u64 synced_ns, dirty_syncs, synced_writes;
};

/* Where calls of one direction went. The lowest offset is kept as a complement, as in `calls`. */
struct pattern {
    u64 calls, sequential, rewinds, reused, unaligned, unsure, switches;
    u64 unique_bytes, not_lowest, highest;
    u64 fresh, continued; /* on nothing touched before; of these, where what lies before was */
    u64 last_start, last_end;
    u64 stride, stride_calls, stride_lead;
    u32 granule_log, task;
    u32 segments[SEGMENTS]; /* place of the first word and 1, NONE where there was no room */
};

struct file_seen {
    u64 inode;
    u32 dev, generation;
    u32 mode, rdev;
    u64 page_cache_bytes;
    char path[PATH_BYTES];
    char other_path[PATH_BYTES]; /* the last one that is another, as through a symbolic link */
};

struct block_class {
    struct calls calls;
    u64 merges;
};

struct inflight {
    u64 start_ns, dispatched_ns, sector;
    u32 bytes, cmd_flags;
    u32 class, dev;
    u64 busy;
    u64 row;                 /* of the request of libaio or io_uring that it is for */
    u32 account, is_journal; /* of the layer that explains */
};

/* A request as it is written to the recording; 40 bytes. */
struct event {
    u64 start_ns, sector, d2c_ns;
    u32 q2d_ns, bytes, cmd_flags, dev;
};
#define EVENT_OWN (1U << 31)

/* What the time of an operation is made of. */
enum { PROCESSOR, SUBMISSION, FILE_SYSTEM, LOCK, JOURNAL, QUEUE, DEVICE, COMPLETION, PARTS };
/* Behind them the whole; behind this, in no sum, what the program at the exit of the call takes after the end. */
#define OBSERVER (PARTS + 1)

#define MAX_EXPLAINED 24
#define COARSE_SUB_BITS 4
#define COARSE_BUCKETS 656

/* One of them, or the whole, of all operations of a class: those in which it took any time. */
struct part {
    u64 number, sum_ns;
    u64 buckets[COARSE_BUCKETS];
};
/* A process that begins a program, or ends: then nothing but its number and the time is told. */
struct program_event {
    u64 at_ns;
    u32 process, words_bytes;
    u64 out_inode, error_inode;
    u32 out_dev, error_dev;
    char words[WORDS_BYTES]; /* the arguments, each ended by a zero */
};
#define PROGRAM_EVENT_BYTES 40
