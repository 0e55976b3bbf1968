"""Memory that a server used once is returned to the system."""

import subprocess
import sys

HASH_IN_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from artel.auth.passwords import hash_password
from artel.memory_tuning import return_freed_memory


def resident_kilobytes():
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1])


if sys.argv[1] == "tuned":
    return_freed_memory()
with ThreadPoolExecutor(3) as threads:
    list(threads.map(hash_password, ["a", "b", "c"]))
    list(threads.map(hash_password, ["d", "e", "f"] * 3))
    print(resident_kilobytes())
"""


def resident_megabytes(argument: str) -> float:
    """Return the memory of a process after it has computed password hashes in three threads."""
    command = [sys.executable, "-c", HASH_IN_THREADS, argument]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(output) / 1024


def test_memory_of_password_hashes_is_returned() -> None:
    assert resident_megabytes("tuned") < resident_megabytes("untuned") - 15
