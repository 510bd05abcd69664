#!/usr/bin/env python3
"""neighbour.py ACTION…: what an unprivileged user can do to CPUs of other users. Run it as such a user. It has the same
protocol as `provoke`: it prints `ready 0`, then for each line that it reads it does one action and prints `done 1`."""

import ctypes
import mmap
import os
import socket
import struct
import subprocess
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
IO_URING_SETUP, MEMBARRIER, PERF_EVENT_OPEN = 425, 324, 298  # x86-64


def namespace():
    """A network device of a kind whose module is not loaded: in a user namespace every user may request one."""
    subprocess.run(["unshare", "--user", "--map-root-user", "--net", "ip", "link", "add", "d0", "type", "dummy"],
                   check=False)


def family():
    """Every user may request a socket of a rare family, without any namespace."""
    try:
        socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close()
    except OSError:
        pass


def stamps():
    for _ in range(5):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(socket.SOL_SOCKET, 29, 1)  # SO_TIMESTAMP


def ring():
    room = ctypes.create_string_buffer(120)
    os.close(LIBC.syscall(IO_URING_SETUP, 8, room))


def barrier():
    LIBC.syscall(MEMBARRIER, 4, 0, 0)  # register global expedited
    LIBC.syscall(MEMBARRIER, 2, 0, 0)


def perf():
    what = bytearray(128)
    struct.pack_into("IIQ", what, 0, 1, 128, 0)  # software, the CPU clock
    what[40] |= 0x20  # exclude the kernel
    fd = LIBC.syscall(PERF_EVENT_OPEN, (ctypes.c_char * 128).from_buffer(what), 0, -1, -1, 0)
    if fd >= 0:
        os.close(fd)


def memory():
    def some():
        for _ in range(100):
            part = mmap.mmap(-1, 1 << 16)
            part[0] = 1
            part.madvise(mmap.MADV_DONTNEED)
            part.close()

    threads = [threading.Thread(target=some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def proc():
    for name in ["interrupts", "stat", "cpuinfo", "softirqs", "vmstat", "meminfo", "schedstat", "loadavg"]:
        try:
            with open(f"/proc/{name}") as file:
                file.read()
        except OSError:
            pass


if __name__ == "__main__":
    print("ready 0", flush=True)
    for action in sys.argv[1:]:
        sys.stdin.readline()
        globals()[action]()
        print("done 1", flush=True)
    sys.stdin.read()
