"""How the C library handles the large blocks that tensors are."""

from __future__ import annotations

import os
import sys

MMAP_MAX, TRIM_THRESHOLD = -4, -1
"""Names of two settings in glibc's malloc.h."""


def keep_freed_memory() -> bool:
    """Keep freed memory for the next tensor, and say whether that could be set.

    glibc asks the system for every large block and gives it back at once, so that the same pages are filled with zeros
    over and over: a third of the time of attacking a ResNet on a CPU. Only glibc is set, and only where the
    environment (`MALLOC_...`, `GLIBC_TUNABLES`) says nothing of its own. What was freed stays with the process.
    """
    configured = any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    if configured or sys.platform != "linux":
        return False
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))
