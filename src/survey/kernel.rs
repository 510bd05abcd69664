//! The kernel: release, whether it is a real-time kernel and by which source, configuration,
//! command line, clocksource.
//!
//! **A kernel version alone proves nothing.** Features are tried and read back. Versions appear in
//! explanations, and decide only in these cases (`crates/linux/src/text/first_releases.rs` has the
//! numbers):
//!
//! - A kernel that is not running is judged by its files (`KernelParameter::support`). Its
//!   configuration decides first. The mainline version counts only if the release name shows no
//!   vendor's build, and if no stable release of the series got the parameter later. Otherwise the
//!   parameter is *not known*: it is written on request, and a trial boot decides.
//! - A version below a feature's first release says that the feature is not there, where no file of
//!   that kernel can say so: `smp_affinity_list` before 3.0, `rcu_nocbs=` before 3.8, `nohz_full=`
//!   before 3.10, and flags and words of `isolcpus=` (`unknown_part()` in `command_line.rs`; not in
//!   vendors' builds from 4.15 to 5.17).
//! - Where trying would disturb or prove nothing, the version of the running kernel decides:
//!   whether reading `/proc/cpuinfo` interrupts every CPU ([`cpuinfo_interrupts`]), whether the
//!   stack trigger writes to its own instance (`src/trace/privilege.rs`), whether throttling still
//!   exists (`src/tunables/rt_throttling.rs`), and whether a new group will have
//!   `cpuset.cpus.exclusive` (`src/tunables/cpuset/v2.rs`).
//! - The rules by which a kernel reads its command line are those of its version
//!   (`command_line.rs`, `src/boot/lint/`). A finding that depends on them says so where the
//!   version is not known.

use super::Kernel;
use super::RealtimeKind;
use super::reader::SurveyReader;
use super::realtime_kernel::{COKERNEL_DIRS, named_cokernel, realtime_option};
use cpushield_linux::text::first_releases::{CPUINFO_INTERRUPTS, CPUINFO_INTERRUPTS_UNTIL};
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::text::{gzip, kconfig};
use std::collections::BTreeMap;

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// Whether opening `/proc/cpuinfo` makes this kernel interrupt every CPU to read its frequency.
/// Some do on x86, except CPUs of `nohz_full=` (arch_freq_prepare_all() in
/// arch/x86/kernel/cpu/aperfmperf.c). An unknown version may be one of them.
pub(super) fn cpuinfo_interrupts(kernel: &Kernel) -> bool {
    let x86 = matches!(kernel.arch.as_deref(), None | Some("x86_64" | "x86" | "i386" | "i686"));
    let affected = CPUINFO_INTERRUPTS..CPUINFO_INTERRUPTS_UNTIL;
    x86 && kernel.version.is_none_or(|version| affected.contains(&version))
}

pub(super) fn read_kernel(r: &SurveyReader) -> Kernel {
    let banner = r.required_line("/proc/version");
    let release = r
        .line("/proc/sys/kernel/osrelease")
        .or_else(|| banner.as_deref()?.split_whitespace().nth(2).map(str::to_owned));
    let config = read_config(r, release.as_deref());
    let found = detect_realtime(r, release.as_deref(), banner.as_deref(), &config);
    let (realtime_kind, realtime_source) = found.unzip();
    if realtime_kind.is_none() {
        r.note(
            "PREEMPT_RT",
            "unknown: not in /sys/kernel/realtime, /proc/version or the configuration",
        );
    }
    let sources = r.line(&format!("{CLOCKSOURCE}/available_clocksource"));
    Kernel {
        version: release.as_deref().and_then(KernelVersion::from_release),
        release,
        arch: r.line("/proc/sys/kernel/arch").or_else(|| r.host.build_arch()),
        realtime: realtime_kind.map(|kind| kind.is_some()),
        realtime_kind: realtime_kind.flatten(),
        realtime_source,
        hz: config.get("CONFIG_HZ").and_then(|hz| hz.parse().ok()),
        config,
        cmdline: r.required_line("/proc/cmdline"),
        clocksource: r.line(&format!("{CLOCKSOURCE}/current_clocksource")),
        clocksources: sources
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
    }
}

/// What makes it a real-time kernel (`None` inside: nothing does), and the source of that. Only the
/// RT patch has `/sys/kernel/realtime`; the banner has `PREEMPT_RT` (before 5.3: `PREEMPT RT`) in
/// mainline too. A co-kernel shows itself in `/proc`, or in the name of the release.
fn detect_realtime(
    r: &SurveyReader,
    release: Option<&str>,
    banner: Option<&str>,
    config: &BTreeMap<String, String>,
) -> Option<(Option<RealtimeKind>, String)> {
    let preempt_rt = Some(RealtimeKind::PreemptRt);
    if r.line("/sys/kernel/realtime").is_some_and(|text| text == "1") {
        return Some((preempt_rt, "/sys/kernel/realtime is 1".to_owned()));
    }
    let named = release.and_then(named_cokernel);
    if let Some((dir, kind)) = COKERNEL_DIRS.iter().find(|(dir, _)| r.host.exists(dir)) {
        // The name says which co-kernel uses the pipeline.
        let kind = named.filter(|_| *kind == RealtimeKind::InterruptPipeline).unwrap_or(*kind);
        return Some((Some(kind), format!("{kind}: {dir} exists")));
    }
    if let Some(kind) = named {
        return Some((Some(kind), format!("{kind}: named in the kernel release")));
    }
    if let Some((option, kind)) = realtime_option(config) {
        return Some((Some(kind), format!("{option}=y")));
    }
    // `#1 SMP PREEMPT_RT Debian …`: only the text after the build number is the kernel's own.
    let flags = banner.and_then(|banner| banner.rsplit_once(" #")).map(|(_, flags)| flags);
    if let Some(flags) = flags {
        if flags.contains("PREEMPT_RT") || flags.contains("PREEMPT RT") {
            return Some((preempt_rt, "PREEMPT_RT in /proc/version".to_owned()));
        }
        return Some((None, "no PREEMPT_RT in /proc/version".to_owned()));
    }
    config.contains_key("CONFIG_PREEMPT_RT").then(|| (None, "CONFIG_PREEMPT_RT=n".to_owned()))
}

/// The relevant options, from the kernel itself or from the file that its package installed.
fn read_config(r: &SurveyReader, release: Option<&str>) -> BTreeMap<String, String> {
    let mut paths = vec!["/proc/config.gz".to_owned()];
    if let Some(release) = release {
        paths.push(format!("/boot/config-{release}"));
        paths.push(format!("/usr/lib/modules/{release}/config"));
        paths.push(format!("/lib/modules/{release}/build/.config"));
    }
    for path in &paths {
        let Some(bytes) = r.optional(r.host.read_bytes(path)) else { continue };
        // A recording has the text, not the compressed bytes.
        let text = if gzip::is_gzip(&bytes) { gzip::unpack(&bytes) } else { Ok(bytes) };
        let options = text.and_then(|text| kconfig::parse(&String::from_utf8_lossy(&text)));
        if let Some(options) = r.required(options.map_err(|error| error.at(path))) {
            return options;
        }
    }
    r.note("the kernel's configuration", format!("not found in {}", paths.join(", ")));
    BTreeMap::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_interrupts_on_x86_from_4_15_to_5_18() {
        for (arch, version, interrupts) in [
            (Some("x86_64"), Some((4, 14)), false),
            (Some("x86_64"), Some((4, 15)), true),
            (Some("x86_64"), Some((5, 18)), true),
            (Some("x86_64"), Some((5, 19)), false),
            (Some("x86_64"), None, true),
            (Some("aarch64"), Some((5, 10)), false),
        ] {
            let arch = arch.map(str::to_owned);
            let version = version.map(KernelVersion::from);
            let kernel = Kernel { arch, version, ..Kernel::default() };
            assert_eq!(cpuinfo_interrupts(&kernel), interrupts, "{kernel:?}");
        }
    }
}
