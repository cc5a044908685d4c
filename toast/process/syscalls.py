"""Calls to the kernel that no engine needs, refused from now on (seccomp).

They are those that container runtimes refuse too, and those that reach into other processes or
onto a network. libseccomp makes the filter; Debian has it in every image, since apt needs it.
"""

from __future__ import annotations

import ctypes
import errno
import socket

_LIBRARY = "libseccomp.so.2"
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NOT_EQUAL, _MASKED_EQUAL = 1, 7

_OTHER_PROCESSES = "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp"
_KERNEL = (
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register "
    "add_key keyctl request_key kexec_load kexec_file_load init_module finit_module delete_module "
    "iopl ioperm lookup_dcookie syslog acct quotactl quotactl_fd reboot swapon swapoff "
    "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup "
)
_MOUNTS = (
    "unshare setns mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount "
    "fspick mount_setattr name_to_handle_at open_by_handle_at"
)
_NAMESPACES = (
    0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
"""Flags of `clone`: mounts, groups, names, messages, users, processes, network."""


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def filter_calls(*, sockets: bool) -> bool:
    """Refuse them to this thread and to all that it starts; whether that could be done.

    With `sockets` all sockets go, too, but those between processes of this machine (`AF_UNIX`).
    """
    library = _library()
    if library is None:
        return False
    made = library.seccomp_init(_ALLOW)
    if not made:
        return False
    try:
        for name in f"{_OTHER_PROCESSES} {_KERNEL} {_MOUNTS}".split():
            _refuse(library, made, name)
        for flag in _NAMESPACES:
            _refuse(library, made, "clone", _Comparison(0, _MASKED_EQUAL, flag, flag))
        # Its flags are in memory, which no filter reads; without it glibc takes clone.
        _refuse(library, made, "clone3", number=errno.ENOSYS)
        if sockets:
            _refuse(library, made, "socket", _Comparison(0, _NOT_EQUAL, socket.AF_UNIX, 0))
        return int(library.seccomp_load(made)) == 0
    except OSError:
        return False
    finally:
        library.seccomp_release(made)


def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = (ctypes.c_uint32,)
    for name in ("seccomp_load", "seccomp_release"):
        getattr(library, name).argtypes = (ctypes.c_void_p,)
    library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_rule_add_array.argtypes = (
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
    )  # fmt: skip
    return library


def _refuse(
    library: ctypes.CDLL,
    made: int,
    name: str,
    *when: _Comparison,
    number: int = errno.EPERM,
) -> None:
    call = library.seccomp_syscall_resolve_name(name.encode())
    if call < 0:  # this machine, or this library, has no such call
        return
    comparisons = (_Comparison * len(when))(*when)
    failed = library.seccomp_rule_add_array(
        made, _REFUSE | number, call, len(when), ctypes.addressof(comparisons) if when else None
    )
    if failed:
        raise OSError(-failed, name)
