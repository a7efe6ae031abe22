/* Opens without O_DIRECT, O_SYNC and O_DSYNC. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#define STRIPPED(name, has_folder) \
    int name(FOLDER_##has_folder const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
        int (*real)(FOLDER_##has_folder const char *, int, ...) = dlsym(RTLD_NEXT, #name); \
        return real(NUMBER_##has_folder path, flags & ~(O_DIRECT | O_SYNC | O_DSYNC), mode); \
    }
#define FOLDER_0
#define NUMBER_0
#define FOLDER_1 int folder,
#define NUMBER_1 folder,
STRIPPED(open, 0) STRIPPED(open64, 0) STRIPPED(openat, 1) STRIPPED(openat64, 1)
