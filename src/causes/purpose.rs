//! The purpose of an interrupt from another CPU, according to the call path that led to it, and
//! what prevents it. An interrupt whose call path is not in the table is named after the system
//! call that sent it. Pure.

use crate::glob;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reschedule IPI, as tables show it.
pub const RESCHEDULE: &str = "reschedule";
/// A sender that ran no task, as tables show it.
pub const IDLE_CPU: &str = "an idle CPU";
/// A thread of cpushield that watches, as tables show it.
pub const WATCHER: &str = "this watch";
/// A sender that handled an interrupt, as tables show it, before the number of its CPU.
pub const INTERRUPT_ON_CPU: &str = "an interrupt on CPU ";

named! {
    /// An operation of the kernel that interrupts other CPUs.
    KernelOperation {
        /// A module is loaded.
        ModuleLoad => "module load",
        /// A module is removed.
        ModuleRemoval => "module removal",
        /// The memory of a module's initialization is freed.
        ModuleInitFree => "freeing the init memory of a module",
        /// An io_uring is set up.
        IoUringSetup => "io_uring setup",
        /// An io_uring ends.
        IoUringExit => "io_uring exit",
        /// The first socket requests time stamps.
        NetworkTimestampsStart => "enabling network time stamps",
        /// Time stamps of packets are switched on or off.
        NetworkTimestampsSwitch => "switching network time stamps on or off",
        /// Trace events or tracers are switched on or off.
        TracingSwitch => "switching tracing on or off",
        /// A probe is registered.
        ProbeRegistration => "probe registration",
        /// A BPF program is loaded.
        BpfLoad => "BPF program load",
        /// A BPF program is freed.
        BpfFree => "freeing a BPF program",
        /// A perf event is opened.
        PerfOpen => "perf_event_open(2)",
        /// A perf counter is read.
        PerfRead => "reading a perf counter",
        /// A perf event is freed.
        PerfFree => "freeing a perf event",
        /// Freed kernel addresses are collected and flushed.
        VmapFree => "freeing kernel addresses (vmalloc)",
        /// Kernel memory is freed later than requested.
        DelayedVfree => "freeing kernel memory (vmalloc)",
        /// A network namespace is removed.
        NetworkNamespaceRemoval => "network namespace removal",
        /// A sysctl is written.
        SysctlWrite => "sysctl write",
        /// A timer is armed on another CPU.
        TimerStart => "arming a timer there",
    }
}

/// The purpose of an interrupt from another CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "purpose", rename_all = "kebab-case")]
pub enum InterruptPurpose {
    /// An operation of the kernel.
    #[print(write_operation(f, operation, module))]
    Operation {
        /// The operation.
        operation: KernelOperation,
        /// The module that is loaded, and the task that requested it; `None` when that was not
        /// seen, and for every other operation.
        module: Option<ModuleRequest>,
    },
    /// system call {name}.
    Syscall {
        /// Its name.
        name: String,
    },
}

impl From<KernelOperation> for InterruptPurpose {
    fn from(operation: KernelOperation) -> InterruptPurpose {
        InterruptPurpose::Operation { operation, module: None }
    }
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

fn write_operation(
    f: &mut fmt::Formatter<'_>,
    operation: &KernelOperation,
    module: &Option<ModuleRequest>,
) -> fmt::Result {
    match module {
        None => fmt::Display::fmt(operation, f),
        Some(request) => {
            write!(f, "{operation} ({}), requested by {}", request.module, request.by)
        }
    }
}

impl InterruptPurpose {
    /// The purpose that a report shows like this (the inverse of `Display`), or that has this tag
    /// in a document; `None` for other words.
    #[must_use]
    pub fn from_shown(shown: &str) -> Option<InterruptPurpose> {
        if let Some(name) = shown.strip_prefix("system call ") {
            return Some(InterruptPurpose::Syscall { name: name.to_owned() });
        }
        if let Some((start, by)) = shown.split_once(", requested by ") {
            let (operation, module) = start.strip_suffix(')')?.split_once(" (")?;
            let request = ModuleRequest { module: module.to_owned(), by: by.to_owned() };
            let operation = KernelOperation::from_text(operation)?;
            return Some(InterruptPurpose::Operation { operation, module: Some(request) });
        }
        let operation =
            KernelOperation::from_text(shown).or_else(|| KernelOperation::from_tag(shown));
        operation.map(InterruptPurpose::from)
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
    /// The operation that it belongs to.
    pub operation: KernelOperation,
    /// What prevents its calls; empty when nothing does.
    pub remedy: &'static str,
    /// Its file in the kernel.
    pub source: &'static str,
}

const fn group(
    function: &'static str,
    operation: KernelOperation,
    remedy: &'static str,
    source: &'static str,
) -> FunctionGroup {
    FunctionGroup { function, operation, remedy, source }
}

const MODULES: &str = "load the module before the shield is needed (modprobe); programs that \
                       create user namespaces may cause module loads: to prevent them, set \
                       sysctl user.max_user_namespaces=0 (rootless containers and browser \
                       sandboxes then fail); sysctl kernel.modules_disabled=1 blocks all module \
                       loads and removals until the next boot";
const RINGS: &str = "set sysctl kernel.io_uring_disabled=2 (since 6.6), or keep an io_uring \
                     instance open that was set up without IORING_SETUP_NO_SQARRAY";
const STAMPS: &str = "keep a socket with SO_TIMESTAMP open";
const SPACES: &str = "do not remove network namespaces while the shield is active; to keep users \
                      from creating them, set sysctl user.max_user_namespaces=0 (rootless \
                      containers and browser sandboxes then fail)";
const TRACING: &str = "switch tracing on or off before the shield is needed";
const PROGRAMS: &str = "load BPF programs before the shield is needed; to keep users from loading \
                        them, set sysctl kernel.unprivileged_bpf_disabled=2 (socket filters and \
                        seccomp filters remain allowed)";
const FLUSHES: &str = "start and end fewer processes and threads; before a critical phase, run \
                       `modprobe dummy; modprobe -r dummy` (see \
                       `cpushield explain kernel-tlb-flush`)";
const PERF: &str = "do not use perf while the shield is active; to deny it to users, set \
                    sysctl kernel.perf_event_paranoid to 3 on Debian or to 4 on Ubuntu; a \
                    mainline kernel has no sysctl that denies it";

/// Every known group (functions of 6.5 to 6.18).
pub const FUNCTION_GROUPS: &[FunctionGroup] = &[
    group("load_module", KernelOperation::ModuleLoad, MODULES, "kernel/module/main.c"),
    group("do_init_module", KernelOperation::ModuleLoad, MODULES, "kernel/module/main.c"),
    group(
        "__do_sys_delete_module",
        KernelOperation::ModuleRemoval,
        MODULES,
        "kernel/module/main.c",
    ),
    group("do_free_init", KernelOperation::ModuleInitFree, MODULES, "kernel/module/main.c"),
    group("io_uring_setup", KernelOperation::IoUringSetup, RINGS, "io_uring/io_uring.c"),
    group("io_ring_exit_work", KernelOperation::IoUringExit, RINGS, "io_uring/io_uring.c"),
    group(
        "net_enable_timestamp",
        KernelOperation::NetworkTimestampsStart,
        STAMPS,
        "net/core/dev.c",
    ),
    group("netstamp_clear", KernelOperation::NetworkTimestampsSwitch, STAMPS, "net/core/dev.c"),
    group("tracepoint_probe_*", KernelOperation::TracingSwitch, TRACING, "kernel/tracepoint.c"),
    group("__ftrace_event_enable_disable", KernelOperation::TracingSwitch, TRACING, "kernel/trace"),
    group("ftrace_*", KernelOperation::TracingSwitch, TRACING, "kernel/trace/ftrace.c"),
    group("register_kprobe", KernelOperation::ProbeRegistration, TRACING, "kernel/kprobes.c"),
    group("bpf_prog_load", KernelOperation::BpfLoad, PROGRAMS, "kernel/bpf/syscall.c"),
    group("bpf_prog_free_deferred", KernelOperation::BpfFree, PROGRAMS, "kernel/bpf/core.c"),
    group("__do_sys_perf_event_open", KernelOperation::PerfOpen, PERF, "kernel/events/core.c"),
    group("perf_read", KernelOperation::PerfRead, PERF, "kernel/events/core.c"),
    group("_free_event", KernelOperation::PerfFree, PERF, "kernel/events/core.c"),
    group("drain_vmap_area_work", KernelOperation::VmapFree, FLUSHES, "mm/vmalloc.c"),
    group("delayed_vfree_work", KernelOperation::DelayedVfree, "", "mm/vmalloc.c"),
    group(
        "cleanup_net",
        KernelOperation::NetworkNamespaceRemoval,
        SPACES,
        "net/core/net_namespace.c",
    ),
    group("proc_sys_call_handler", KernelOperation::SysctlWrite, "", "fs/proc/proc_sysctl.c"),
    group("__mod_timer", KernelOperation::TimerStart, "", "kernel/time/timer.c"),
    group("mod_timer", KernelOperation::TimerStart, "", "kernel/time/timer.c"),
    group("timer_reduce", KernelOperation::TimerStart, "", "kernel/time/timer.c"),
    group("add_timer", KernelOperation::TimerStart, "", "kernel/time/timer.c"),
];

/// Finds the purpose of a call path, innermost function first; `None` when it is unknown.
#[must_use]
pub fn purpose_of_call_path(call_path: &[&str]) -> Option<KnownPurpose> {
    if let Some(group) = call_path.iter().find_map(|function| group_of_function(function)) {
        return Some(KnownPurpose { purpose: group.operation.into(), remedy: group.remedy });
    }
    let start = ["__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__do_sys_"];
    let call =
        call_path.iter().find_map(|f| start.iter().find_map(|start| f.strip_prefix(start)))?;
    Some(KnownPurpose { purpose: InterruptPurpose::Syscall { name: call.to_owned() }, remedy: "" })
}

/// The group of a function.
#[must_use]
pub fn group_of_function(function: &str) -> Option<&'static FunctionGroup> {
    FUNCTION_GROUPS.iter().find(|group| is_match(group.function, function))
}

/// The first group with this operation.
#[must_use]
pub fn group_of_operation(operation: KernelOperation) -> Option<&'static FunctionGroup> {
    FUNCTION_GROUPS.iter().find(|group| group.operation == operation)
}

fn is_match(pattern: &str, function: &str) -> bool {
    // The compiler may have split the function: `load_module.isra.0`.
    glob::matches(pattern, function.split('.').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_known_function_decides_the_purpose() {
        let poke = "text_poke_bp_batch";
        for (call_path, purpose) in [
            (
                &[poke, "load_module.isra.0", "do_syscall_64"][..],
                Some(KernelOperation::ModuleLoad.into()),
            ),
            (
                &[poke, "static_key_enable", "__x64_sys_frob", "do_syscall_64"],
                Some(InterruptPurpose::Syscall { name: "frob".to_owned() }),
            ),
            (&[poke, "process_two_works"], None),
            (&[], None),
        ] {
            let found = purpose_of_call_path(call_path).map(|known| known.purpose);
            assert_eq!(found, purpose, "{call_path:?}");
        }
    }

    #[test]
    fn every_purpose_is_read_back_from_its_text_and_its_tag() {
        let operations = KernelOperation::ALL.iter().map(|operation| (*operation).into());
        let others = [
            InterruptPurpose::Syscall { name: "madvise".to_owned() },
            InterruptPurpose::Operation {
                operation: KernelOperation::ModuleLoad,
                module: Some(ModuleRequest {
                    module: "dummy".to_owned(),
                    by: "ip (800)".to_owned(),
                }),
            },
        ];
        for purpose in operations.chain(others) {
            assert_eq!(InterruptPurpose::from_shown(&purpose.to_string()), Some(purpose));
        }
        for operation in KernelOperation::ALL {
            let tag = serde_json::to_value(operation).unwrap();
            assert_eq!(KernelOperation::from_tag(tag.as_str().unwrap()), Some(*operation));
        }
        assert_eq!(InterruptPurpose::from_shown("module"), None);
    }

    #[test]
    fn every_group_has_a_source_and_is_listed_once() {
        let mut names: Vec<_> = FUNCTION_GROUPS.iter().map(|group| group.function).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FUNCTION_GROUPS.len());
        assert!(FUNCTION_GROUPS.iter().all(|group| group.source.contains('/')));
        for operation in KernelOperation::ALL {
            assert!(group_of_operation(*operation).is_some(), "{operation}");
        }
    }
}
