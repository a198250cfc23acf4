"""What a measurement ran on, and how much memory it took. No host name, no user name, no path.

The peak on CUDA is what the allocator handed out at most. On a CPU it is the high-water mark of the process, which
Linux lets a process reset where its kernel permits; where not, the mark holds everything since the start, and the
record says so.
"""

import os
import platform
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import kvaudit

CUDA_ALLOCATOR = "bytes allocated by the CUDA allocator at most, since the policy began"
PROCESS_MARK = "high-water mark of the resident set of the process, since the policy began"
PROCESS_MARK_ALL = "high-water mark of the resident set of the process, since it started"

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True, slots=True)
class Peak:
    """Peak bytes, None where this system does not tell, and what was counted."""

    peak_bytes: int | None
    counted: str


def reset_peak(device: str) -> bool:
    """Start counting the peak anew. Return whether that was possible."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        return True
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def peak(device: str, *, was_reset: bool) -> Peak:
    """Return the peak since `reset_peak`."""
    if device.startswith("cuda"):
        return Peak(torch.cuda.max_memory_allocated(), CUDA_ALLOCATOR)
    counted = PROCESS_MARK if was_reset else PROCESS_MARK_ALL
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return Peak(None, counted)
    return Peak(int(found[1]) * 1024 if found else None, counted)


def described(device: str) -> dict[str, Any]:
    """Return the environment as a record writes it; null is what this system does not tell."""
    cuda = device.startswith("cuda")
    return {
        "device": torch.cuda.get_device_name() if cuda else _processor(),
        "device_kind": "cuda" if cuda else "cpu",
        "device_memory_bytes": torch.cuda.get_device_properties(0).total_memory if cuda else _memory(),
        "driver": torch.version.cuda if cuda else None,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "governor": _line(_GOVERNOR),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "kvaudit": kvaudit.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": metadata.version("transformers"),
        },
    }


def _processor() -> str | None:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or None


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _line(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
