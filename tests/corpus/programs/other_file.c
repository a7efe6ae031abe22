#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
static int other(void) { return syscall(SYS_fsync, syscall(SYS_openat, AT_FDCWD, "data2", O_RDONLY)); }
int fsync(int fd) { return other(); }
int fdatasync(int fd) { return other(); }
