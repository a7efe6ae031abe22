#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static int fd;
static void *work(void *number) {
    char buffer[512];
    for (long i = 0; i < 5000; i++) if (pread(fd, buffer, 512, (i % 4096) * 512) != 512) _exit(1);
    return number;
}
int main(void) {
    pthread_t threads[8];
    fd = open("data", O_RDONLY);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    return 0;
}
