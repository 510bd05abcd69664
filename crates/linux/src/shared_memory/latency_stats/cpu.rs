//! The CPU number of the calling thread, read without a system call.

/// Proves that the processor can give the CPU number.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuNumberReader(());

impl CpuNumberReader {
    /// `None` unless the processor has RDTSCP: bit 27 of EDX of leaf `0x8000_0001`.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn find() -> Option<CpuNumberReader> {
        // The function is safe in newer versions of Rust; as a pointer it is not in any.
        let cpuid: unsafe fn(u32) -> core::arch::x86_64::CpuidResult = core::arch::x86_64::__cpuid;
        // SAFETY: every x86_64 processor has the instruction.
        let features = unsafe { cpuid(0x8000_0001) };
        let has_rdtscp = features.edx & (1 << 27) != 0;
        has_rdtscp.then_some(CpuNumberReader(()))
    }

    /// The number of the current CPU.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn read(self) -> usize {
        let mut number = 0_u32;
        // SAFETY: the processor has RDTSCP, see `find`. Linux stores the CPU in the lower 12 bits,
        // the node above (`setup_getcpu()`, arch/x86/kernel/cpu/common.c, 5.4 to 6.18).
        unsafe { core::arch::x86_64::__rdtscp(&raw mut number) };
        (number & 0xfff) as usize
    }

    /// Other processors cannot.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn find() -> Option<CpuNumberReader> {
        None
    }

    /// Is never called, because `find` returns `None`.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn read(self) -> usize {
        usize::MAX
    }
}
