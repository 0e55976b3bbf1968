"""Which system calls a program in the sandbox may make: a filter for the kernel (seccomp), as bubblewrap reads it.

Refused is what makes namespaces, in which a program may mount file systems, what only widens the kernel's surface, and
what makes memory that no process has and the kernel does not limit: shared memory outside of files, huge pages.

Not refused is what ordinary programs need. Sockets count as memory, and a program that leaves files in them is stopped
(`sandbox_usage`): `asyncio` needs both `socketpair` and, from Python 3.12 on, `sendmsg`. For pipes, and for TCP inside
the sandbox, there are only the limits of the kernel.
"""

import errno
import struct
from collections.abc import Sequence

# The numbers of refused calls, on x86_64 and on aarch64.
_REFUSED = {
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "unshare": (272, 97),
    "setns": (308, 268),
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "vmsplice": (278, 75),  # keeps whole huge pages in a pipe, which counts small ones
}
_CLONE3 = 435  # its flags are in memory, where a filter can't look: C libraries then use clone
_CLONE, _MMAP, _PRCTL = (56, 220), (9, 222), (157, 167)
_NAMESPACES = 0x7E02_0000  # all flags CLONE_NEW…
_SHARED, _ANONYMOUS, _HUGE = 0x01, 0x20, 0x4_0000
_SET_DUMPABLE = 4  # after which the files of a process in /proc could not be read
_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32 = 0x4000_0000  # added to the numbers of a second set of calls on x86_64

# Instructions, and the places of what they read: the number of the call, the architecture, the arguments.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF_0000, 0x0005_0000

_Step = tuple[int, int, str, str]  # instruction, operand, and where to go on if it holds and if not; "" is the next


def system_call_filter(machine: str) -> bytes | None:
    """Return the filter for a processor, as `os.uname` names it; None if it is not known."""
    if machine not in _ARCHITECTURES:
        return None
    which = list(_ARCHITECTURES).index(machine)
    refused: list[_Step] = [(_EQUAL, numbers[which], "refuse", "") for numbers in _REFUSED.values()]
    return _assembled(
        [
            (_LOAD, _ARCHITECTURE, "", ""),
            (_EQUAL, _ARCHITECTURES[machine], "", "refuse"),
            (_LOAD, _NUMBER, "", ""),
            (_AT_LEAST, _X32, "refuse", ""),
            (_EQUAL, _CLONE3, "unknown", ""),
            *refused,
            (_EQUAL, _CLONE[which], "clone", ""),
            (_EQUAL, _PRCTL[which], "prctl", ""),
            (_EQUAL, _MMAP[which], "mmap", "allow"),
        ],
        {
            "clone": [(_LOAD, _ARGUMENTS, "", ""), (_ANY_BIT, _NAMESPACES, "refuse", "allow")],
            "prctl": [(_LOAD, _ARGUMENTS, "", ""), (_EQUAL, _SET_DUMPABLE, "refuse", "allow")],
            "mmap": [
                (_LOAD, _ARGUMENTS + 3 * 8, "", ""),
                (_ANY_BIT, _HUGE, "refuse", ""),
                (_ANY_BIT, _ANONYMOUS, "", "allow"),
                (_ANY_BIT, _SHARED, "refuse", "allow"),
            ],
            "allow": [(_RETURN, _ALLOW, "", "")],
            "refuse": [(_RETURN, _FAIL | errno.EPERM, "", "")],
            "unknown": [(_RETURN, _FAIL | errno.ENOSYS, "", "")],
        },
    )


def _assembled(start: Sequence[_Step], parts: dict[str, list[_Step]]) -> bytes:
    """Return the instructions as bytes, with distances instead of names."""
    steps, places = list(start), {}
    for name, part in parts.items():
        places[name] = len(steps)
        steps += part
    return b"".join(
        struct.pack("=HBBI", code, *(places[to] - number - 1 if to else 0 for to in (yes, no)), operand)
        for number, (code, operand, yes, no) in enumerate(steps)
    )
