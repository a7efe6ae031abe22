#include <unistd.h>
#include <sys/syscall.h>
int main(void) {
    for (long i = 0; i < 2000; i++) syscall(100000 + i);
    for (int i = 0; i < 3; i++) syscall(-1L);
    return 0;
}
