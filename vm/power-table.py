#!/usr/bin/env python3
"""power-table.py FILE CPUS: writes an ACPI table (SSDT) that gives each CPU of a guest of QEMU's machine q35 the idle states
C1 (2 us), C2 (133 us) and C3 (890 us), and frequencies from 1.2 to 2.4 GHz with turbo (2.401). All states are the
instruction HLT, because an I/O port would let each idle CPU wait for the lock of QEMU. Sources: ACPI 6.5, 8.4.1.1 (_CST),
8.4.5 (_PCT, _PSS, _PPC, _PSD), 6.4.3.7 (generic register), 20.2 (encoding); the names of the CPUs: build_cpus_aml() in
QEMU's hw/acpi/cpu.c."""
import struct, sys


def length(body):
    """PkgLength counts its own bytes."""
    if len(body) < 63:
        return bytes([len(body) + 1]) + body
    total = len(body) + 2
    return bytes([0x40 | total & 15, total >> 4]) + body


def number(n):
    return bytes([n]) if n < 2 else b"\x0a" + bytes([n]) if n < 256 else b"\x0b" + struct.pack("<H", n)


def package(*elements):
    data = [number(it) if isinstance(it, int) else it for it in elements]
    return b"\x12" + length(bytes([len(data)]) + b"".join(data))


def register(space, bits, address):
    resource = struct.pack("<BHBBBBQ", 0x82, 12, space, bits, 0, 0, address) + b"\x79\x00"
    return b"\x11" + length(number(len(resource)) + resource)


def named(name, data):
    return b"\x08" + name.encode() + data


HLT, PORT = 0x7F, 0x01
SLEEP = [package(register(HLT, 0, 0), 1, latency, power) for latency, power in [(2, 1000), (133, 500), (890, 100)]]
STEPS = [
    package(mhz, power, 10, 10, control, control)
    for mhz, power, control in [(2401, 65000, 25), (2400, 60000, 24), (1800, 40000, 18), (1200, 20000, 12)]
]


def cpu(number_of_cpu):
    path = b"\\\x2f\x03_SB_CPUS" + b"C%03X" % number_of_cpu
    body = (
        named("_CST", package(len(SLEEP), *SLEEP))
        + named("_PCT", package(register(PORT, 16, 0xE00), register(PORT, 16, 0xE02)))
        + named("_PSS", package(*STEPS))
        + named("_PPC", number(0))
        + named("_PSD", package(package(5, 0, number_of_cpu, 0xFD, 1)))
    )
    return b"\x10" + length(path + body)


body = b"".join(cpu(n) for n in range(int(sys.argv[2])))
header = struct.pack("<4sIBB6s8sI4sI", b"SSDT", 36 + len(body), 2, 0, b"GUEST\0", b"POWER\0\0\0", 1, b"CPUS", 1)
table = bytearray(header + body)
table[9] = -sum(table) % 256
open(sys.argv[1], "wb").write(table)
