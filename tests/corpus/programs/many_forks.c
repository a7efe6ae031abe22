#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) { /* 600 children, each with a child that it does not wait for */
    for (int number = 0; number < 600; number++) {
        int child = fork();
        if (!child) {
            close(open("data", O_RDONLY));
            _exit(fork() < 0);
        }
        if (child < 0 || (number % 20 == 19 && waitpid(child, 0, 0) != child)) return 1;
    }
    while (wait(0) > 0) {}
    return 0;
}
