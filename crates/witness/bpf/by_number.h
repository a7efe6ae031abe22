/* How often each system call was made and how often it failed, by its number, whatever it does.
 *
 * A call counts when it is entered, so one that a signal interrupted and the kernel enters again counts twice. Numbers
 * beyond the table (a program may ask for any) share a small hash; what finds no room there is counted together. Calls
 * by the numbers of 32-bit programs are counted apart, all together, because their numbers mean other calls.
 */
#pragma once
#include "tree.h"

#define MAX_ERRNO 4095 /* include/linux/err.h */
/* What a return from a signal's handler leaves in the place of its number, with the result of what was interrupted. */
#define NO_CALL 0xffffffffU

struct {
    MAP_FIELD_NUMBER(type, MAP_PERCPU_ARRAY);
    MAP_FIELD_NUMBER(max_entries, CALLED);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct called);
} called SEC(".maps");

struct {
    MAP_FIELD_NUMBER(type, MAP_HASH);
    MAP_FIELD_NUMBER(max_entries, MAX_ODD_CALLS);
    MAP_FIELD_TYPE(key, u32);
    MAP_FIELD_TYPE(value, struct called);
} odd_calls SEC(".maps");

/* Shared by all processors, and hardly ever used. What failed was made, so it has its place. */
__attribute__((noinline)) int odd_call(u32 number, u32 failed) {
    struct called *odd = map_lookup(&odd_calls, &number);
    if (!odd && !failed) {
        struct called none = {};
        map_update(&odd_calls, &number, &none, UPDATE_NEW); /* another processor may have been first */
        odd = map_lookup(&odd_calls, &number);
    }
    u32 beyond = CALLED_BEYOND;
    if (!odd)
        odd = map_lookup(&called, &beyond);
    if (odd)
        __sync_fetch_and_add(failed ? &odd->errors : &odd->calls, 1);
    return 0;
}

INLINE void call_counted(u32 place, u32 failed) {
    struct called *counts = map_lookup(&called, &place);
    if (!counts)
        return;
    if (failed)
        counts->errors++;
    else
        counts->calls++;
}

INLINE void call_made(u64 number) {
    if (number < SYSCALLS)
        call_counted(number, 0);
    else
        odd_call(number, 0);
}

INLINE void call_failed(u64 number) {
    if (IS_COMPAT(current_task()))
        call_counted(CALLED_COMPAT, 1);
    else if (number < SYSCALLS)
        call_counted(number, 1);
    else if ((u32)number != NO_CALL)
        odd_call(number, 1);
}
