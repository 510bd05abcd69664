//! A machine with everything that a tunable can want, and the same machine after a plan.

use crate::change::Change;
use crate::documents::machine::{
    CgroupMode, CpusetGroup, IdleState, IdleStates, IrqMovability, Machine, TunableReading,
};
use crate::documents::plan::Plan;
use crate::plan::fake::{irq, machine, set, thread};
use cpushield_linux::CpuSet;
use cpushield_linux::text::kernel_version::KernelVersion;

/// A busy machine of four CPUs with everything a tunable can want; CPU 3 is to be shielded.
pub(in crate::tunables) fn busy(mode: CgroupMode) -> Machine {
    let mut m = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
    m.kernel.version = Some(KernelVersion::new(6, 12));
    m.cgroup.mode = mode;
    m.cgroup.prefix = "cpuset.".to_owned();
    m.cgroup.mount = Some(match mode {
        CgroupMode::V2 => "/sys/fs/cgroup".to_owned(),
        _ => "/sys/fs/cgroup/cpuset".to_owned(),
    });
    m.isolation.nohz_full = Some(set("3"));
    m.irq_default = Some(set("0-3"));
    m.irqs.push(irq(24, "eth0", "0-3", IrqMovability::Yes));
    m.irqs.push(irq(25, "eth1", "3", IrqMovability::Unknown("not root".to_owned())));
    m.tasks.push(thread(2, "kthreadd", true, false, "0-3"));
    m.tasks.push(thread(30, "ksoftirqd/3", true, true, "3"));
    m.tasks.push(thread(40, "kworker/u8:1", true, true, "0-3"));
    m.tasks.push(thread(500, "irqbalance", false, false, "0-2"));
    m.tracing.tracefs = Some("/sys/kernel/tracing".to_owned());
    for (file, text) in [(TRACE_SIZE, "7 (expanded: 1408)"), (TRACE_SWITCH, "0")] {
        m.settings.insert(file.to_owned(), TunableReading::Value(text.to_owned()));
    }
    m.power.cpuidle_driver = Some("intel_idle".to_owned());
    let states = [("C1", 2), ("C6", 133)].map(|(name, latency_us)| IdleState {
        name: name.to_owned(),
        latency_us,
        ..IdleState::default()
    });
    m.power.idle_states = vec![IdleStates { cpus: set("0-3"), states: states.to_vec() }];
    for (path, text) in [
        ("/sys/fs/cgroup/cgroup.subtree_control", "cpu io"),
        ("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance", "1"),
        ("/sys/devices/system/cpu/cpu3/online", "1"),
        ("/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us", "0"),
        ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "schedutil"),
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
        ("/sys/devices/system/cpu/intel_pstate/min_perf_pct", "10"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency", "2400000"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4800000"),
        ("/sys/devices/virtual/workqueue/cpumask", "f"),
        ("/sys/devices/virtual/workqueue/writeback/cpumask", "0000000f"),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "8"),
        ("/sys/class/net/eth0/queues/tx-0/xps_cpus", "c"),
        ("/proc/sys/net/core/rps_default_mask", "0"),
        ("/proc/sys/kernel/timer_migration", "0"),
        ("/proc/sys/kernel/watchdog", "1"),
        ("/proc/sys/kernel/watchdog_cpumask", "0-3"),
        ("/proc/sys/vm/stat_interval", "1"),
        ("/proc/sys/kernel/numa_balancing", "1"),
        ("/sys/devices/system/machinecheck/machinecheck0/check_interval", "300"),
        ("/sys/kernel/rcu_normal", "0"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "950000"),
        ("/sys/kernel/debug/sched/fair_server/cpu3/runtime", "50000000"),
        ("/sys/kernel/mm/ksm/run", "1"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
        ("/proc/sys/vm/dirty_writeback_centisecs", "500"),
        ("/sys/class/graphics/fbcon/cursor_blink", "1"),
    ] {
        m.settings.insert(path.to_owned(), TunableReading::Value(text.to_owned()));
    }
    m
}

/// The cpuset of this directory, which is added if it is not there.
pub(super) fn group<'a>(m: &'a mut Machine, dir: &str) -> &'a mut CpusetGroup {
    let at = m.cgroup.groups.iter().position(|group| group.path == dir).unwrap_or_else(|| {
        m.cgroup.groups.push(CpusetGroup { path: dir.to_owned(), ..CpusetGroup::default() });
        m.cgroup.groups.len() - 1
    });
    &mut m.cgroup.groups[at]
}

/// The machine as a survey would find it after the changes.
pub(in crate::tunables) fn after(mut m: Machine, plan: &Plan) -> Machine {
    for step in &plan.steps {
        match &step.change {
            Change::Write { path, value, .. } => written(&mut m, path, value),
            Change::MakeDir { path } if path.contains("/tracing/") => {}
            Change::MakeDir { path } => drop(group(&mut m, path)),
            Change::Slice { unit, cpus, mems } => {
                let dir = format!("/sys/fs/cgroup/{unit}");
                group(&mut m, &dir).cpus = cpus.clone();
                let mems = TunableReading::Value(mems.to_string());
                m.settings.insert(format!("{dir}/cpuset.mems"), mems);
            }
            Change::Affinity { task, cpus, .. } => {
                let placed = m.tasks.iter_mut().find(|placed| placed.task.id == *task).unwrap();
                placed.affinity = cpus.clone();
            }
            _ => {}
        }
    }
    m
}

/// The first write to the switch of an event enlarges the main trace buffer (below 6.7).
const TRACE_SIZE: &str = "/sys/kernel/tracing/buffer_size_kb";
const TRACE_SWITCH: &str = "/sys/kernel/tracing/events/sched/sched_switch/enable";

fn written(m: &mut Machine, path: &str, value: &str) {
    if path == TRACE_SWITCH {
        m.settings.insert(TRACE_SIZE.to_owned(), TunableReading::Value("1408".to_owned()));
    }
    let (dir, file) = path.rsplit_once('/').unwrap();
    let number = dir.strip_prefix("/proc/irq/").and_then(|number| number.parse::<u32>().ok());
    let irq = m.irqs.iter_mut().find(|irq| Some(irq.irq) == number);
    match (file, irq) {
        ("default_smp_affinity", _) => m.irq_default = CpuSet::parse_mask(value).ok(),
        ("smp_affinity_list", Some(irq)) => irq.affinity = Some(set(value)),
        ("cpuset.cpus", _) => group(m, dir).cpus = set(value),
        ("cpuset.cpus.partition", _) => group(m, dir).partition = Some(value.to_owned()),
        ("cpuset.cpu_exclusive", _) => group(m, dir).exclusive = value == "1",
        ("cgroup.subtree_control", _) => {
            m.settings.insert(path.to_owned(), TunableReading::Value("cpu io cpuset".to_owned()));
        }
        _ => {
            m.settings.insert(path.to_owned(), TunableReading::Value(value.to_owned()));
        }
    }
}
