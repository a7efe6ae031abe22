#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 12345; i++) syscall(SYS_getpid);
    for (int i = 0; i < 77; i++) close(open("/dev/null", O_RDONLY));
    for (int i = 0; i < 55; i++) open("/not/there", O_RDONLY);
    for (int i = 0; i < 9; i++) syscall(9999);
    for (int i = 0; i < 4; i++) syscall(511);
    return 0;
}
