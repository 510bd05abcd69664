//! Files of a recorded machine to which several parts of the simulated kernel respond.

/// The CPUs that are online, in list form.
pub(crate) const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The root of resctrl, whose groups have a share of the caches.
pub(crate) const RESCTRL: &str = "/sys/fs/resctrl";

/// The mask of unbound workqueues: of the requested CPUs, those left by partitions (6.8).
pub(crate) const UNBOUND: &str = "/sys/devices/virtual/workqueue/cpumask";
