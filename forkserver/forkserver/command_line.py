"""Shows the command of a fork, where `ps` and others find it, in place of its server's.

The kernel reads /proc/PID/cmdline from the memory of the process, which may say where: PR_SET_MM_MAP of
prctl(2) needs no rights. Where the kernel lacks it the server's command stays.
"""

from __future__ import annotations

import ctypes

from forkserver import launcher

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence

PR_SET_MM, PR_SET_MM_MAP = 35, 14

PLACES = {
    "start_code": 26,
    "end_code": 27,
    "start_data": 45,
    "end_data": 46,
    "start_brk": 47,
    "brk": 0,
    "start_stack": 28,
    "arg_start": 48,
    "arg_end": 49,
    "env_start": 50,
    "env_end": 51,
    "auxv": 0,
}
"""Field of prctl_mm_map -> field of /proc/self/stat, which counts from 1; 0 for none."""


class Map(ctypes.Structure):
    """`struct prctl_mm_map` of linux/prctl.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in PLACES),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_int32),
    )


_shown: list[ctypes.Array[ctypes.c_char]] = []
"""The memory that the kernel reads."""


def show(argv: Sequence[str], name: str) -> bool:
    """Let this process have this command line and short name; whether the kernel has taken the former."""
    launcher.call_self(name)
    text = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in argv)
    memory = ctypes.create_string_buffer(text, len(text))
    with open("/proc/self/stat") as file:
        after_name = file.read().rpartition(")")[2].split()  # from the third field on
    places = {field: int(after_name[at - 3]) if at else 0 for field, at in PLACES.items()}
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    begin = ctypes.addressof(memory)
    places |= {"brk": libc.sbrk(0), "arg_start": begin, "arg_end": begin + len(text)}
    layout = Map(**places, auxv_size=0, exe_fd=-1)
    taken = libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(layout), ctypes.sizeof(layout), 0) == 0
    if taken:
        _shown.append(memory)
    return bool(taken)
