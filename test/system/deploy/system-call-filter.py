"""Runs a command under a filter of system calls. Arguments: ALLOWED (names separated by commas) COMMAND…

Like systemd with SystemCallErrorNumber=EPERM, it lets all other calls fail.
"""
import ctypes
import os
import sys

ALLOW, FAIL_WITH_EPERM = 0x7fff0000, 0x00050001

library = ctypes.CDLL('libseccomp.so.2')
library.seccomp_init.restype = ctypes.c_void_p
rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(FAIL_WITH_EPERM)))
for name in sys.argv[1].split(','):
    # System calls that this architecture lacks can't be added; the error is ignored.
    number = library.seccomp_syscall_resolve_name(name.encode())
    library.seccomp_rule_add(rules, ctypes.c_uint32(ALLOW), number, 0)
if library.seccomp_load(rules) != 0:
    sys.exit('the filter can not be loaded')
os.execvp(sys.argv[2], sys.argv[2:])
