#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) { /* FORMAT-OF-PATHS BYTES */
    char path[4096], block[512] = {0};
    for (int number = 0; count == 3 && number < 40000; number++) {
        snprintf(path, sizeof path, words[1], number);
        int file = open(path, O_RDWR | O_CREAT, 0600);
        if (pwrite(file, block, atoi(words[2]), 0) < 0 || close(file)) return 1;
    }
    return 0;
}
