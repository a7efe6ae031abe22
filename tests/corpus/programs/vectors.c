#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>
int main(void) {
    static char buffer[4096];
    struct iovec vectors[1000];
    for (int i = 0; i < 1000; i++) vectors[i] = (struct iovec){buffer, 100 + i};
    int fd = open("data", O_RDONLY), out = open("out", O_WRONLY | O_CREAT | O_DSYNC | O_APPEND, 0600);
    if (preadv(fd, vectors, 1000, 0) != 599500 || writev(out, vectors, 3) != 303) return 1;
    if (pread(fd, buffer, 4096, 1 << 30) != 0) return 2;
    if (read(out, buffer, 10) != -1) return 3;
    return fdatasync(out);
}
