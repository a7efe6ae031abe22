/* All programs, as one object: they share their maps. The loader loads those of the layers that are asked for. */
#include "adopt.h"
#include "bios.h"
#include "explain.h"
#include "page_cache.h"
#include "synthetic.h"
#include "syscalls.h"
#include "uring.h"

/* What the kernel wants to hear before it lets a program read its memory and keep storage for tasks. */
const char terms[] SEC("license") = "Dual MIT/GPL";
