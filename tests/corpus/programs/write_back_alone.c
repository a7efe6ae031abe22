#include <fcntl.h>
int fsync(int fd) { return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); }
int fdatasync(int fd) { return fsync(fd); }
