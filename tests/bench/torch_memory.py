"""The memory of PyTorch in the benchmarks.

Every operation gets its result from malloc, whose large pieces go back to the system, and come again as pages that fault.
That is what glibc does and not PyTorch, and on some virtual machines half of its time. keep() starts the script again with
a malloc that keeps what it has had.
"""
import os
import sys

SETTINGS = {"MALLOC_TOP_PAD_": str(1 << 28), "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
            "MALLOC_MMAP_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_MAX_": "0"}


def keep():
    if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | SETTINGS)
