//! The kernel: release, real-time or not and how that is known, configuration, command line,
//! clocksource.

use super::Kernel;
use super::reader::SurveyReader;
use cpushield_linux::text::{gzip, kconfig};
use std::collections::BTreeMap;

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// Whether this kernel asks every CPU for its frequency, by an interrupt, when `/proc/cpuinfo` is
/// opened: on x86 from 4.15 (commit 7d5905dc14a8) until f3eca381bd49 (5.19), but for CPUs of
/// `nohz_full=` (arch_freq_prepare_all() in arch/x86/kernel/cpu/aperfmperf.c). An unknown version
/// may be one of them.
pub(super) fn cpuinfo_asks(kernel: &Kernel) -> bool {
    let x86 = matches!(kernel.arch.as_deref(), None | Some("x86_64" | "x86" | "i386" | "i686"));
    x86 && kernel.version.is_none_or(|version| ((4, 15)..(5, 19)).contains(&version))
}

pub(super) fn kernel(r: &SurveyReader) -> Kernel {
    let banner = r.wanted_line("/proc/version");
    let release = r
        .line("/proc/sys/kernel/osrelease")
        .or_else(|| banner.as_deref()?.split_whitespace().nth(2).map(str::to_owned));
    let config = config(r, release.as_deref());
    let (realtime, realtime_source) = match realtime(r, banner.as_deref(), &config) {
        Some((is, source)) => (Some(is), Some(source)),
        None => (None, None),
    };
    if realtime.is_none() {
        r.note("PREEMPT_RT", "neither /sys/kernel/realtime nor /proc/version nor a config says");
    }
    let sources = r.line(&format!("{CLOCKSOURCE}/available_clocksource"));
    Kernel {
        version: release.as_deref().and_then(version),
        release,
        arch: r.line("/proc/sys/kernel/arch").or_else(|| r.host.build_arch()),
        realtime,
        realtime_source,
        hz: config.get("CONFIG_HZ").and_then(|hz| hz.parse().ok()),
        config,
        cmdline: r.wanted_line("/proc/cmdline"),
        clocksource: r.line(&format!("{CLOCKSOURCE}/current_clocksource")),
        clocksources: sources
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
    }
}

/// `6.12.48-rt-amd64` → (6, 12).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether it is an RT kernel, and how that is known. `/sys/kernel/realtime` is of the RT patch
/// and not of mainline; the banner says `PREEMPT_RT` (before 5.3: `PREEMPT RT`) in mainline too.
fn realtime(
    r: &SurveyReader,
    banner: Option<&str>,
    config: &BTreeMap<String, String>,
) -> Option<(bool, String)> {
    if r.line("/sys/kernel/realtime").is_some_and(|text| text == "1") {
        return Some((true, "/sys/kernel/realtime is 1".to_owned()));
    }
    for option in ["CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_RT_FULL"] {
        if config.get(option).is_some_and(|value| value == "y") {
            return Some((true, format!("{option}=y")));
        }
    }
    // `#1 SMP PREEMPT_RT Debian …`: only what follows the build number is the kernel's own word.
    let flags = banner.and_then(|banner| banner.rsplit_once(" #")).map(|(_, flags)| flags);
    if let Some(flags) = flags {
        if flags.contains("PREEMPT_RT") || flags.contains("PREEMPT RT") {
            return Some((true, "PREEMPT_RT in /proc/version".to_owned()));
        }
        return Some((false, "/proc/version does not say PREEMPT_RT".to_owned()));
    }
    config.contains_key("CONFIG_PREEMPT_RT").then(|| (false, "CONFIG_PREEMPT_RT=n".to_owned()))
}

/// The options that matter, from the kernel itself or from the file its package put in place.
fn config(r: &SurveyReader, release: Option<&str>) -> BTreeMap<String, String> {
    let mut places = vec!["/proc/config.gz".to_owned()];
    if let Some(release) = release {
        places.push(format!("/boot/config-{release}"));
        places.push(format!("/usr/lib/modules/{release}/config"));
        places.push(format!("/lib/modules/{release}/build/.config"));
    }
    for place in &places {
        let Some(bytes) = r.given(r.host.read_bytes(place)) else { continue };
        // A recording keeps the text, not the compressed bytes.
        let text = if gzip::is_gzip(&bytes) { gzip::unpack(&bytes) } else { Ok(bytes) };
        let options = text.and_then(|text| kconfig::parse(&String::from_utf8_lossy(&text)));
        if let Some(options) = r.wanted(options.map_err(|error| error.at(place))) {
            return options;
        }
    }
    r.note("the kernel's configuration", format!("not found in {}", places.join(", ")));
    BTreeMap::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_interrupt_for_cpuinfo_are_known_by_architecture_and_version() {
        for (arch, version, asks) in [
            (Some("x86_64"), Some((4, 14)), false),
            (Some("x86_64"), Some((4, 15)), true),
            (Some("x86_64"), Some((5, 18)), true),
            (Some("x86_64"), Some((5, 19)), false),
            (Some("x86_64"), None, true),
            (Some("aarch64"), Some((5, 10)), false),
        ] {
            let arch = arch.map(str::to_owned);
            let kernel = Kernel { arch, version, ..Kernel::default() };
            assert_eq!(cpuinfo_asks(&kernel), asks, "{kernel:?}");
        }
    }
}
