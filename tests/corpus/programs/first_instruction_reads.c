__attribute__((naked)) void _start(void) {
    __asm__("xor %eax,%eax; xor %edi,%edi; sub $64,%rsp; mov %rsp,%rsi; mov $10,%edx; syscall;"
            "mov $60,%eax; xor %edi,%edi; syscall");
}
