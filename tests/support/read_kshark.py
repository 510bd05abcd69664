"""read_kshark.py FILE: opens a trace with the library of KernelShark, as KernelShark does, and prints as JSON how many
entries of each event it has. Without the library the exit status is 3."""

import collections
import ctypes
import json
import sys

try:
    kshark = ctypes.CDLL("libkshark.so.2")
except OSError:
    sys.exit(3)
kshark.kshark_load_entries.restype = ctypes.c_ssize_t
kshark.kshark_load_entries.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))]
kshark.kshark_open.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
kshark.kshark_instance.restype = ctypes.c_bool
kshark.kshark_get_event_name.restype = ctypes.c_char_p
kshark.kshark_get_event_name.argtypes = [ctypes.c_void_p]

context = ctypes.c_void_p()
assert kshark.kshark_instance(ctypes.byref(context))
stream = kshark.kshark_open(context, sys.argv[1].encode())
assert stream >= 0, f"kshark_open: {stream}"
rows = ctypes.POINTER(ctypes.c_void_p)()
count = kshark.kshark_load_entries(context, stream, ctypes.byref(rows))
assert count >= 0, f"kshark_load_entries: {count}"
names = collections.Counter(kshark.kshark_get_event_name(rows[n]).decode() for n in range(count))
print(json.dumps(names))
