"""What the system says of the processor."""

from __future__ import annotations

from pathlib import Path


def told(key: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Linux' ``vendor_id``, ``model name`` and the like; nothing where the system does not say."""
    if not cpuinfo.exists():
        return ""
    lines = (line.partition(":") for line in cpuinfo.read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), "")


def is_amd() -> bool:
    return told("vendor_id") == "AuthenticAMD"
