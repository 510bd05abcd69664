//! The purpose of an interrupt from another CPU, according to the call path that led to it, and
//! what prevents it. One table; an interrupt that is not in it is named after the system call that
//! sent it. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The purpose of an interrupt from another CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "purpose", rename_all = "kebab-case")]
pub enum InterruptPurpose {
    /// A module is loaded.
    ModuleLoad {
        /// The module and the task that requested it; `None` when that was not seen.
        #[serde(default)]
        asked_for: Option<ModuleRequest>,
    },
    /// One of [`ROWS`].
    Known {
        /// The purpose, in words.
        what: String,
    },
    /// A system call sent it.
    Syscall {
        /// Its name.
        name: String,
    },
}

/// A module that a task requested.
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
                write!(f, "{LOADS} ({module}), requested by {by}")
            }
            InterruptPurpose::Known { what } => f.write_str(what),
            InterruptPurpose::Syscall { name } => write!(f, "system call {name}"),
        }
    }
}

/// A purpose, and what prevents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPurpose {
    /// The purpose.
    pub purpose: InterruptPurpose,
    /// What prevents it; empty when nothing does.
    pub remedy: &'static str,
}

/// Functions of the kernel, their purpose, and what prevents their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionGroup {
    /// The name of the function; with a star at its end, a prefix.
    pub function: &'static str,
    /// Its purpose.
    pub what: &'static str,
    /// What prevents its calls; empty when nothing does.
    pub remedy: &'static str,
    /// Its file in the kernel.
    pub source: &'static str,
}

const fn group(
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
const MODULES: &str = "load it before the shield (modprobe); programs that create user namespaces \
                       may cause it: sysctl user.max_user_namespaces=0; sysctl \
                       kernel.modules_disabled=1 blocks modules until the next boot";
const RINGS: &str = "sysctl kernel.io_uring_disabled=2, or have one io_uring open all the time";
const STAMPS: &str = "have one socket with SO_TIMESTAMP open all the time";
const SPACES: &str =
    "keep network namespaces while the shield is up; sysctl user.max_user_namespaces=0";
const TRACING: &str = "switch tracing on or off before the shield is needed";
const PROGRAMS: &str =
    "load BPF programs before the shield; sysctl kernel.unprivileged_bpf_disabled=2";
const FLUSHES: &str = "end fewer processes and threads; before a critical phase run \
                       `modprobe dummy; modprobe -r dummy`: cpushield explain kernel-tlb-flush";
const PERF: &str = "do not use perf while the shield is up; to deny it to users, set sysctl \
                    kernel.perf_event_paranoid=3 on Debian, =4 on Ubuntu; a mainline kernel has \
                    no sysctl for it";

/// Every known group (functions of 6.5 to 6.18).
pub const ROWS: &[FunctionGroup] = &[
    group("load_module", LOADS, MODULES, "kernel/module/main.c"),
    group("do_init_module", LOADS, MODULES, "kernel/module/main.c"),
    group("__do_sys_delete_module", "removes a module", MODULES, "kernel/module/main.c"),
    group("do_free_init", "frees the init memory of a module", MODULES, "kernel/module/main.c"),
    group("io_uring_setup", "sets up an io_uring", RINGS, "io_uring/io_uring.c"),
    group("io_ring_exit_work", "an io_uring ends", RINGS, "io_uring/io_uring.c"),
    group("net_enable_timestamp", "enables network time stamps", STAMPS, "net/core/dev.c"),
    group("netstamp_clear", "switches network time stamps", STAMPS, "net/core/dev.c"),
    group("tracepoint_probe_*", "switches tracing on or off", TRACING, "kernel/tracepoint.c"),
    group("__ftrace_event_enable_disable", "switches tracing on or off", TRACING, "kernel/trace"),
    group("ftrace_*", "switches tracing on or off", TRACING, "kernel/trace/ftrace.c"),
    group("register_kprobe", "registers a probe", TRACING, "kernel/kprobes.c"),
    group("bpf_prog_load", "loads a BPF program", PROGRAMS, "kernel/bpf/syscall.c"),
    group("bpf_prog_free_deferred", "frees a BPF program", PROGRAMS, "kernel/bpf/core.c"),
    group("__do_sys_perf_event_open", "perf_event_open(2)", PERF, "kernel/events/core.c"),
    group("perf_read", "perf reads a counter", PERF, "kernel/events/core.c"),
    group("_free_event", "frees a perf event", PERF, "kernel/events/core.c"),
    group("drain_vmap_area_work", "frees kernel addresses (vmalloc)", FLUSHES, "mm/vmalloc.c"),
    group("delayed_vfree_work", "frees kernel memory (vmalloc)", "", "mm/vmalloc.c"),
    group("cleanup_net", "removes a network namespace", SPACES, "net/core/net_namespace.c"),
    group("proc_sys_call_handler", "writes a sysctl", "", "fs/proc/proc_sysctl.c"),
];

/// Finds the purpose of a call path, innermost function first; `None` when it is unknown.
#[must_use]
pub fn find(call_path: &[&str]) -> Option<KnownPurpose> {
    if let Some(group) = call_path.iter().find_map(|function| group_of_function(function)) {
        let purpose = match LOADERS.contains(&group.function) {
            true => InterruptPurpose::ModuleLoad { asked_for: None },
            false => InterruptPurpose::Known { what: group.what.to_owned() },
        };
        return Some(KnownPurpose { purpose, remedy: group.remedy });
    }
    let start = ["__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__do_sys_"];
    let call =
        call_path.iter().find_map(|f| start.iter().find_map(|start| f.strip_prefix(start)))?;
    Some(KnownPurpose { purpose: InterruptPurpose::Syscall { name: call.to_owned() }, remedy: "" })
}

/// The group of a function.
#[must_use]
pub fn group_of_function(function: &str) -> Option<&'static FunctionGroup> {
    ROWS.iter().find(|group| matches(group.function, function))
}

/// The first group with this purpose, as reports show it: `loads a module (dummy), requested by`.
#[must_use]
pub fn group_of_text(text: &str) -> Option<&'static FunctionGroup> {
    ROWS.iter().find(|group| text.starts_with(group.what))
}

fn matches(pattern: &str, function: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => function.starts_with(start),
        // The compiler may have split the function: `load_module.isra.0`.
        None => function.split('.').next() == Some(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_known_function_decides_the_purpose() {
        let what = |call_path: &[&str]| find(call_path).map(|known| known.purpose);
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
    fn every_group_has_a_source_and_is_listed_once() {
        let mut names: Vec<_> = ROWS.iter().map(|group| group.function).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|group| group.source.contains('/')));
    }
}
