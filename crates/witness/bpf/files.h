/* Files by device and inode (and generation, since inode numbers are used again), with the path they were opened by. */
#pragma once
#include "tree.h"

struct file_key {
    u64 inode;
    u32 dev, generation;
};

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_FILES);
    MAP_FIELD_TYPE(key, struct file_key);
    MAP_FIELD_TYPE(value, u32);
} file_ids SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_ARRAY);
    MAP_FIELD_NUMBER(max_entries, MAX_FILES);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct file_seen);
} files SEC(".maps");

INLINE struct file_key key_of(struct inode *inode) {
    struct super_block *sb = FIELD(inode, i_sb);
    struct file_key key = {FIELD(inode, i_ino), FIELD(sb, s_dev), FIELD(inode, i_generation)};
    return key;
}

struct path_words {
    u64 word[PATH_BYTES / 8];
};

struct {
    MAP_FIELD_NUMBER(type, MAP_PERCPU_ARRAY);
    MAP_FIELD_NUMBER(max_entries, 1);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct path_words);
} read_path SEC(".maps");

/* A global function, verified once: a known file is opened by this path, which may be another one. True, and nothing is
 * kept, where it was `made` by another path: then it is another file. */
__attribute__((noinline)) int file_opened_by(u32 id, u64 path, u32 made) {
    u32 first = 0;
    struct file_seen *seen = map_lookup(&files, &id);
    struct path_words *read = map_lookup(&read_path, &first);
    if (!seen || !read || !seen->path[0])
        return 0;
    struct path_words *known = (struct path_words *)seen->path, *other = (struct path_words *)seen->other_path;
    u64 differs = 0;
    for (u32 i = 0; i < PATH_BYTES / 8; i++)
        read->word[i] = 0;
    if (read_user_text(read, sizeof(*read), (const void *)path) <= 0)
        return 0;
    for (u32 i = 0; i < PATH_BYTES / 8; i++)
        differs |= read->word[i] ^ known->word[i];
    if (differs && made)
        return 1;
    for (u32 i = 0; differs && i < PATH_BYTES / 8; i++)
        other->word[i] = read->word[i];
    return 0;
}

#define S_IFMT 0170000 /* include/uapi/linux/stat.h */
#define S_IFREG 0100000
#define S_IFBLK 0060000

/* Whether calls on a file of this mode have offsets: regular files and block devices. */
INLINE int has_offsets(u32 mode) {
    return (mode & S_IFMT) == S_IFREG || (mode & S_IFMT) == S_IFBLK;
}

/* The same of an open file. */
INLINE int is_on_disk(u64 address) {
    struct file *file = (struct file *)address;
    struct inode *inode = file ? FIELD(file, f_inode) : 0;
    return inode && has_offsets(FIELD(inode, i_mode));
}

/* Id of the file behind `inode`, NONE where there is no room for another one. `path` is the caller's pointer or 0, `made`
 * whether this open made the file: without generations (overlay, FUSE) nothing else tells it from a deleted one. */
INLINE u32 file_id(struct inode *inode, const void *path, u32 made) {
    struct file_key key = key_of(inode);
    u32 *known = map_lookup(&file_ids, &key);
    if (known && path && file_opened_by(*known, (u64)path, made && !key.generation)) {
        map_delete(&file_ids, &key);
        known = 0;
    }
    u32 id = known ? *known : count(NEXT_FILE);
    struct file_seen *seen = map_lookup(&files, &id);
    if (!known && seen && map_update(&file_ids, &key, &id, UPDATE_NEW)) {
        known = map_lookup(&file_ids, &key); /* another CPU was first, and one file must not be two */
        id = known ? *known : NONE;
        seen = map_lookup(&files, &id);
    }
    if (!seen) {
        count(UNTRACKED_FILES);
        return NONE;
    }
    if (!known) {
        seen->inode = key.inode;
        seen->dev = key.dev;
        seen->generation = key.generation;
        seen->rdev = FIELD(inode, i_rdev);
        seen->mode = FIELD(inode, i_mode);
    }
    if (seen && path && !seen->path[0])
        read_user_text(seen->path, PATH_BYTES, path);
    return id;
}
