/* Events of the recording: one a block request, through a ring that wakes nobody (the loader looks every few
 * milliseconds; a wake-up costs four times as much as the event).
 */
#pragma once
#include "tree.h"

volatile const u32 recording = 0;

struct {
    MAP_FIELD_NUMBER(type, MAP_RINGBUF);
    MAP_FIELD_NUMBER(max_entries, 16777216);
} ring SEC(".maps");

INLINE void record(struct event *event) {
    if (ring_output(&ring, event, sizeof(*event), RING_NO_WAKEUP))
        count(DROPPED);
}
