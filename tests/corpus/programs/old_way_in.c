int main(void) {
    for (int i = 0; i < 40; i++) {
        int number = 20; /* getpid of 32-bit programs; writev of others */
        __asm__ volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
    }
    return 0;
}
