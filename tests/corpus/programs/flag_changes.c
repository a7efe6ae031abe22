/* Reads 16 MiB of `data`: with O_DIRECT but for call N and those after it (flag_changes N), or for every second call. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int in_turns(int file, void *memory) {
    for (long offset = 0, call = 0; offset < 16 << 20; call++) {
        fcntl(file, F_SETFL, call % 2 ? 0 : O_DIRECT);
        long moved = pread(file, memory, call % 2 ? 61440 : 65536, offset);
        if (moved <= 0) return 2;
        offset += moved;
    }
    return 0;
}
int main(int count, char **words) {
    void *memory;
    int file = open("data", O_RDONLY);
    if (count < 2 || posix_memalign(&memory, 4096, 65536)) return 1;
    if (!strcmp(words[1], "in-turns")) return in_turns(file, memory);
    for (int call = 0, through = atoi(words[1]); call < 256; call++) {
        if (!call || call == through) fcntl(file, F_SETFL, call == through ? 0 : O_DIRECT);
        if (pread(file, memory, 65536, call * 65536L) != 65536) return 2;
    }
    return 0;
}
