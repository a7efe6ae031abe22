#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_barrier_t together;
static void *work(void *nothing) {
    for (int i = 0; i < 100; i++) syscall(SYS_getppid);
    pthread_barrier_wait(&together);
    return nothing;
}
int main(void) {
    for (int child = 0; child < 6; child++)
        if (!fork()) {
            pthread_t threads[3];
            if (!fork()) _exit(0); /* before the threads: one that was joined may not have ended quite */
            wait(0);
            pthread_barrier_init(&together, 0, 4);
            for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
            work(0);
            for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
            _exit(0);
        } else
            wait(0);
    return 0;
}
