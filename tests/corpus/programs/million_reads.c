#include <fcntl.h>
#include <unistd.h>
int main(void) {
    char byte;
    int file = open("data", O_RDONLY);
    for (int i = 0; i < 1000000; i++)
        if (pread(file, &byte, 1, 0) != 1)
            return 1;
    return 0;
}
