int fsync(int fd) { return 0; }
int fdatasync(int fd) { return 0; }
