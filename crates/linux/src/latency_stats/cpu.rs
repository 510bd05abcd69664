//! The CPU number of the calling thread, read without a system call.

/// Whether the processor can give the CPU number: RDTSCP, bit 27 of EDX of leaf 0x8000_0001.
pub(super) fn has_cpu_number() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        core::arch::x86_64::__cpuid(0x8000_0001).edx & (1 << 27) != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// The number of the current CPU, read without a system call.
///
/// # Safety
/// The processor has RDTSCP, see [`has_cpu_number`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn cpu_number() -> usize {
    let mut number = 0_u32;
    // SAFETY: the caller promises it. Linux stores the CPU in the lower 12 bits, the node above
    // (`setup_getcpu()`, arch/x86/kernel/cpu/common.c, 5.4 to 6.18).
    unsafe { core::arch::x86_64::__rdtscp(&raw mut number) };
    (number & 0xfff) as usize
}
