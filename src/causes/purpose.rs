//! What an interrupt from another CPU was sent for, by the way through the kernel that led to it,
//! and what keeps it from being sent. One table; what is not in it is told by the system call that
//! it was sent from. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What an interrupt was sent for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "purpose", rename_all = "kebab-case")]
pub enum InterruptPurpose {
    /// A module is loaded.
    ModuleLoad {
        /// Which, and for whom, where that was seen.
        #[serde(default)]
        asked_for: Option<ModuleRequest>,
    },
    /// One of [`ROWS`].
    Known {
        /// What.
        what: String,
    },
    /// It came from this system call.
    Syscall {
        /// Its name.
        name: String,
    },
}

/// A module that a task asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModuleRequest {
    /// The module.
    pub module: String,
    /// The task: `ip (800)`.
    pub by: String,
}

impl fmt::Display for InterruptPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterruptPurpose::ModuleLoad { asked_for: None } => f.write_str(LOADS),
            InterruptPurpose::ModuleLoad { asked_for: Some(ModuleRequest { module, by }) } => {
                write!(f, "{LOADS} ({module}), asked for by {by}")
            }
            InterruptPurpose::Known { what } => f.write_str(what),
            InterruptPurpose::Syscall { name } => write!(f, "system call {name}"),
        }
    }
}

/// A purpose, and what keeps it from happening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPurpose {
    /// The purpose.
    pub purpose: InterruptPurpose,
    /// What keeps it from happening; empty when nothing but not doing it.
    pub remedy: &'static str,
}

/// Functions of the kernel, what they are for, and what keeps them from being called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionGroup {
    /// With a star at its end, how it begins.
    pub function: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// What keeps it from being called; empty when nothing but not asking for it.
    pub remedy: &'static str,
    /// Where the kernel has it.
    pub source: &'static str,
}

const fn row(
    function: &'static str,
    what: &'static str,
    remedy: &'static str,
    source: &'static str,
) -> FunctionGroup {
    FunctionGroup { function, what, remedy, source }
}

/// Functions that load a module.
const LOADERS: &[&str] = &["load_module", "do_init_module"];

const LOADS: &str = "loads a module";
const MODULES: &str = "load it before the shield (modprobe); who makes user namespaces may cause \
                       it: sysctl user.max_user_namespaces=0; sysctl kernel.modules_disabled=1 \
                       allows no module any more, until the next boot";
const RINGS: &str = "sysctl kernel.io_uring_disabled=2, or have one io_uring open all the time";
const STAMPS: &str = "have one socket with SO_TIMESTAMP open all the time";
const SPACES: &str =
    "keep network namespaces for as long as the shield is up; sysctl user.max_user_namespaces=0";
const TRACING: &str = "switch tracing before the shield is needed";
const PROGRAMS: &str =
    "load BPF programs before the shield; sysctl kernel.unprivileged_bpf_disabled=2";
const FLUSHES: &str = "fewer processes and threads that end; before a critical phase \
                       `modprobe dummy; modprobe -r dummy`: cpushield explain kernel-tlb-flush";
const PERF: &str = "no perf while the shield is up; users are kept from it by \
                    sysctl kernel.perf_event_paranoid=3 on Debian, =4 on Ubuntu, by no sysctl on \
                    a mainline kernel";

/// Every way that is known (functions of 6.5 to 6.18).
pub const ROWS: &[FunctionGroup] = &[
    row("load_module", LOADS, MODULES, "kernel/module/main.c"),
    row("do_init_module", LOADS, MODULES, "kernel/module/main.c"),
    row("__do_sys_delete_module", "removes a module", MODULES, "kernel/module/main.c"),
    row("do_free_init", "gives back what loading a module took", MODULES, "kernel/module/main.c"),
    row("io_uring_setup", "sets up an io_uring", RINGS, "io_uring/io_uring.c"),
    row("io_ring_exit_work", "an io_uring ends", RINGS, "io_uring/io_uring.c"),
    row("net_enable_timestamp", "network time stamps begin", STAMPS, "net/core/dev.c"),
    row("netstamp_clear", "network time stamps are switched", STAMPS, "net/core/dev.c"),
    row("tracepoint_probe_*", "tracing is switched", TRACING, "kernel/tracepoint.c"),
    row("__ftrace_event_enable_disable", "tracing is switched", TRACING, "kernel/trace"),
    row("ftrace_*", "tracing is switched", TRACING, "kernel/trace/ftrace.c"),
    row("register_kprobe", "a probe is set", TRACING, "kernel/kprobes.c"),
    row("bpf_prog_load", "loads a BPF program", PROGRAMS, "kernel/bpf/syscall.c"),
    row("bpf_prog_free_deferred", "a BPF program goes", PROGRAMS, "kernel/bpf/core.c"),
    row("__do_sys_perf_event_open", "perf_event_open(2)", PERF, "kernel/events/core.c"),
    row("perf_read", "perf reads a counter", PERF, "kernel/events/core.c"),
    row("_free_event", "a perf event goes", PERF, "kernel/events/core.c"),
    row("drain_vmap_area_work", "gives back addresses of the kernel", FLUSHES, "mm/vmalloc.c"),
    row("delayed_vfree_work", "gives back memory of the kernel", "", "mm/vmalloc.c"),
    row("cleanup_net", "a network namespace goes", SPACES, "net/core/net_namespace.c"),
    row("proc_sys_call_handler", "writes a sysctl", "", "fs/proc/proc_sysctl.c"),
];

/// What it was for: the way there, innermost function first. `None` where nothing tells.
#[must_use]
pub fn of(way: &[&str]) -> Option<KnownPurpose> {
    if let Some(row) = way.iter().find_map(|function| of_function(function)) {
        let purpose = match LOADERS.contains(&row.function) {
            true => InterruptPurpose::ModuleLoad { asked_for: None },
            false => InterruptPurpose::Known { what: row.what.to_owned() },
        };
        return Some(KnownPurpose { purpose, remedy: row.remedy });
    }
    let start = ["__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__do_sys_"];
    let call = way.iter().find_map(|f| start.iter().find_map(|start| f.strip_prefix(start)))?;
    Some(KnownPurpose { purpose: InterruptPurpose::Syscall { name: call.to_owned() }, remedy: "" })
}

/// The row of a function.
#[must_use]
pub fn of_function(function: &str) -> Option<&'static FunctionGroup> {
    ROWS.iter().find(|row| matches(row.function, function))
}

/// The first row with this purpose, in the words of a report: `loads a module (dummy), asked for`.
#[must_use]
pub fn of_words(words: &str) -> Option<&'static FunctionGroup> {
    ROWS.iter().find(|row| words.starts_with(row.what))
}

fn matches(pattern: &str, function: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => function.starts_with(start),
        // The compiler may have cut the function in two: `load_module.isra.0`.
        None => function.split('.').next() == Some(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_that_is_known_says_what_for() {
        let what = |way: &[&str]| of(way).map(|known| known.purpose);
        let poke = "text_poke_bp_batch";
        assert_eq!(
            what(&[poke, "load_module.isra.0", "do_syscall_64"]),
            Some(InterruptPurpose::ModuleLoad { asked_for: None })
        );
        assert_eq!(
            what(&[poke, "static_key_enable", "__x64_sys_frob", "do_syscall_64"]),
            Some(InterruptPurpose::Syscall { name: "frob".to_owned() })
        );
        assert_eq!(what(&[poke, "process_two_works"]), None);
        assert_eq!(what(&[]), None);
    }

    #[test]
    fn every_way_has_its_source_and_is_there_once() {
        let mut names: Vec<_> = ROWS.iter().map(|row| row.function).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|row| row.source.contains('/')));
    }
}
