/* What of the kernel is used: types, helpers by number (include/uapi/linux/bpf.h), and a dozen structs.
 *
 * The structs name only the fields that are read; the loader moves each access to where the running kernel has the
 * field (CO-RE), so no vmlinux.h, no kernel headers and no other system header is needed to build.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline
#define MAP_FIELD_NUMBER(name, value) int(*name)[value]
#define MAP_FIELD_TYPE(name, value) value *name
#define CORE __attribute__((preserve_access_index))
#define BARRIER(value) asm volatile("" : "+r"(value))

enum {
    MAP_HASH = 1,
    MAP_ARRAY = 2,
    MAP_PERCPU_ARRAY = 6,
    MAP_LRU_HASH = 9,
    MAP_RINGBUF = 27,
    MAP_TASK_STORAGE = 29,
    MAP_NO_PREALLOC = 1,
    UPDATE_ANY = 0,
    UPDATE_NEW = 1,
    STORAGE_CREATE = 1,
    RING_NO_WAKEUP = 1,
};

struct task_struct;
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const now_ns)(void) = (void *)5;
static u64 (*const pid_and_tgid)(void) = (void *)14;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static long (*const ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*const ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const ring_submit)(void *data, u64 flags) = (void *)132;
static void *(*const task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*const current_task)(void) = (void *)158;
static long (*const loop)(u32 times, void *each, void *context, u64 flags) = (void *)181;

/* Field `field` of a kernel struct that the verifier knows only as a number. */
#define FIELD(pointer, field)                                                            \
    ({                                                                                   \
        __typeof__((pointer)->field) read_ = 0;                                          \
        read_kernel(&read_, sizeof(read_), __builtin_preserve_access_index(&(pointer)->field)); \
        read_;                                                                           \
    })
#define FIELD_EXISTS(pointer, field) __builtin_preserve_field_info((pointer)->field, 2)

struct super_block {
    u32 s_dev;
} CORE;

struct inode {
    u16 i_mode;
    struct super_block *i_sb;
    unsigned long i_ino;
    u32 i_rdev;
    u32 i_generation;
    s64 i_size;
} CORE;

struct address_space {
    struct inode *host;
} CORE;

struct folio {
    struct address_space *mapping;
    unsigned long _flags_1;
} CORE;
/* Before Linux 6.6 the order had a field of its own. */
struct folio___ordered {
    u8 _folio_order;
} CORE;

/* How the count of references is kept: an atomic_long_t `f_count` that is 1 for one reference, since Linux 6.13 a
 * file_ref_t `f_ref` that is 0 for one. */
typedef struct {
    s64 counter;
} CORE atomic64_t;
typedef struct {
    atomic64_t refcnt;
} CORE file_ref_t;
struct file {
    u32 f_flags, f_mode;
    struct inode *f_inode;
    s64 f_pos;
    file_ref_t f_ref;
} CORE;
typedef struct {
    s64 counter;
} CORE atomic_long_t;
struct file___counted {
    atomic64_t f_count;
} CORE;

struct fdtable {
    u32 max_fds;
    struct file **fd;
} CORE;

struct files_struct {
    struct fdtable *fdt;
} CORE;

struct mm_struct {
    unsigned long arg_start, arg_end;
} CORE;

struct thread_info {
    unsigned long flags;
    u32 status;
} CORE;

struct kernfs_node {
    u64 id;
} CORE;

struct cgroup;
struct cgroup_subsys_state {
    struct cgroup *cgroup;
    struct cgroup_subsys_state *parent;
} CORE;

struct cgroup {
    struct cgroup_subsys_state self;
    struct kernfs_node *kn;
} CORE;

struct css_set {
    struct cgroup *dfl_cgrp;
} CORE;

struct task_struct {
    struct thread_info thread_info;
    s32 pid, tgid;
    struct task_struct *real_parent, *group_leader;
    struct files_struct *files;
    struct mm_struct *mm;
    struct css_set *cgroups;
} CORE;

struct block_device_operations {
    void *submit_bio;
} CORE;

struct gendisk {
    int major;
    int first_minor;
    struct block_device_operations *fops;
} CORE;

struct block_device {
    struct gendisk *bd_disk;
} CORE;

struct bvec_iter {
    u64 bi_sector;
    u32 bi_size;
} CORE;

struct bio {
    struct block_device *bi_bdev;
    u32 bi_opf;
    struct bvec_iter bi_iter;
} CORE;

struct request_queue {
    struct gendisk *disk;
} CORE;

struct request {
    struct request_queue *q;
    u32 cmd_flags;
    u32 __data_len;
    u64 __sector;
    struct bio *bio;
    u64 start_time_ns;
} CORE;

struct io_cqe {
    s32 fd;
} CORE;

/* Registered files, as they are kept since Linux 6.13. */
struct io_rsrc_node {
    unsigned long file_ptr;
} CORE;

struct io_rsrc_data {
    u32 nr;
    struct io_rsrc_node **nodes;
} CORE;

struct io_file_table {
    struct io_rsrc_data data;
} CORE;

struct io_ring_ctx {
    struct io_file_table file_table;
} CORE;

struct io_kiocb {
    struct io_ring_ctx *ctx;
    struct file *file;
    u8 opcode;
    u64 flags;
    struct io_cqe cqe;
} CORE;

struct kiocb {
    s64 ki_pos;
} CORE;

struct io_rw {
    struct kiocb kiocb;
    u64 addr;
    u32 len;
    s32 flags;
} CORE;

struct io_uring_cqe {
    s32 res;
    u32 flags;
} CORE;

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
    unsigned long di, si, dx, r10, r8, r9, orig_ax;
} CORE;
#define ARG0(regs) ((regs)->di)
#define ARG1(regs) ((regs)->si)
#define ARG2(regs) ((regs)->dx)
#define ARG3(regs) ((regs)->r10)
#define ARG4(regs) ((regs)->r8)
#define ARG5(regs) ((regs)->r9)
#define CALL_NUMBER(regs) ((regs)->orig_ax)
/* arch/x86/include/asm/thread_info.h: TS_COMPAT, a call by the numbers of 32-bit programs */
#define IS_COMPAT(task) ((task)->thread_info.status & 2)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
    u64 regs[31];
    u64 orig_x0;
    s32 syscallno;
} CORE;
#define ARG0(regs) ((regs)->orig_x0)
#define ARG1(regs) ((regs)->regs[1])
#define ARG2(regs) ((regs)->regs[2])
#define ARG3(regs) ((regs)->regs[3])
#define ARG4(regs) ((regs)->regs[4])
#define ARG5(regs) ((regs)->regs[5])
#define CALL_NUMBER(regs) ((regs)->syscallno)
/* arch/arm64/include/asm/thread_info.h: TIF_32BIT */
#define IS_COMPAT(task) ((task)->thread_info.flags & (1UL << 22))
#else
#error "the registers of this architecture are not described here"
#endif
