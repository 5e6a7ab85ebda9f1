"""What the system says of the processor, and of this process' memory."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def told(key: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Linux' ``vendor_id``, ``model name`` and the like; nothing where the system does not say."""
    if not cpuinfo.exists():
        return ""
    lines = (line.partition(":") for line in cpuinfo.read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), "")


def cores() -> int:
    """Threads for all that computes here: the first number of OMP_NUM_THREADS, or one for each
    core that this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    allowed = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def is_x86() -> bool:
    """Whether the processor is one of AMD's or Intel's, or understands their programs."""
    return platform.machine().lower() in ("x86_64", "amd64")


def is_amd() -> bool:
    return told("vendor_id") == "AuthenticAMD"


def resident(which: str) -> int:
    """Bytes that this process has in memory now (VmRSS) or had at its peak (VmHWM); Linux only.

    (``getrusage`` would not do: a new process begins with the peak of the one that started it.)
    """
    return int(re.search(rf"{which}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
