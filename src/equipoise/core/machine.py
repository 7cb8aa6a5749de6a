"""What this machine offers."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

#: Where Linux says how much memory a container may use, in its second and first version.
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@cache
def memory() -> int:
    """The number of bytes of memory that this process may use; 8 GB where nobody says.

    >>> memory() > 10**8
    True
    """
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for place in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(int(Path(place).read_text()))
    return min((size for size in found if size > 0), default=8 * 10**9)


def cores() -> int:
    """The number of cores this process may use.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
