//! The first releases of what the kernel offers: one constant for each feature, with its source.

use super::kernel_version::KernelVersion;

/// Trace instances, `instances` in the directory of the trace (commits 277ba04461c2 and
/// 0c8916c34203).
pub const TRACE_INSTANCES: KernelVersion = KernelVersion::new(3, 10);

/// The file system tracefs; before, the directory of the trace is `tracing` in debugfs
/// (Documentation/ABI/obsolete/automount-tracefs-debugfs).
pub const TRACEFS: KernelVersion = KernelVersion::new(4, 1);
