#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static void *work(void *number) {
    char buffer[512];
    int fd = open("data", O_RDONLY);
    for (long i = 0; i < 500; i++) if (pread(fd, buffer, 512, i * 512) != 512) _exit(1);
    return number;
}
int main(void) {
    pthread_t threads[200];
    for (int i = 0; i < 200; i++) if (pthread_create(&threads[i], 0, work, 0)) return 2;
    for (int i = 0; i < 200; i++) pthread_join(threads[i], 0);
    return 0;
}
