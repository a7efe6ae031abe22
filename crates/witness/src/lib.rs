//! What the kernel saw of a process tree.
