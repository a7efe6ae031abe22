"""The Python API: studies, runs, comparisons, drives and searches as objects. `ioassay` exports its names.

It stands above the rooms that do the work and below the command line, which is one of its users. It never prints or
exits: a `Progress` is called with what happens, and what goes wrong is an error of `ioassay.errors`. Calls block, and
may be made in any thread: `await asyncio.to_thread(study.run)` in a running event loop.
"""
