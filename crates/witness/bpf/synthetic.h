/* One event of a recording for each call of one kind, to measure how many the recorder takes: no block device that
 * tests can have is as fast as it.
 */
#pragma once
#include "record.h"

volatile const u32 synthetic_call = 0;

SEC("tp_btf/sys_enter")
int synthetic_event(u64 *ctx) {
    if (ctx[1] != synthetic_call || !followed())
        return 0;
    struct event event = {.start_ns = now_ns(), .bytes = 512, .cmd_flags = EVENT_OWN};
    record(&event);
    return 0;
}
