"""Questions of storage: latency, databases, drives, write buffers, system calls, what a timing includes."""
