"""Memory and cores of this machine."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

#: Files in which Linux states a container's memory limit (cgroup version 2 and 1).
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@cache
def memory() -> int:
    """Return the bytes of memory that this process may use; 8 GB if that is unknown.

    >>> memory() > 10**8
    True
    """
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for place in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is not a number
            found.append(int(Path(place).read_text()))
    return min((size for size in found if size > 0), default=8 * 10**9)


def cores() -> int:
    """Return the number of cores that this process may use.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
