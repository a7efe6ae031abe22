"""What tools claim, set against the kernel's counts and against published results."""
