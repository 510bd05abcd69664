//! What a recording contains of a file: enough to survey, plan and rehearse on it, and no private
//! data about users and programs. Text in, text out.

use crate::text::{dmi, gzip, kconfig};

/// Names of user programs that a recording keeps, because they matter for isolation. All others
/// become [`HIDDEN`].
pub const KNOWN_PROGRAMS: &[&str] = &[
    "auto-cpufreq",
    "cgrulesengd",
    "containerd",
    "cpushield",
    "dockerd",
    "init",
    "irqbalance",
    "kubelet",
    "libvirtd",
    "numad",
    "power-profiles-",
    "stalld",
    "systemd",
    "thermald",
    "tuned",
];

/// The name that replaces all others.
pub const HIDDEN: &str = "task";

/// The end of a command line from which something was removed.
pub const LEFT_OUT: &str = "...";

/// Kernel parameters that matter for isolation, one a line; a final dot stands for all of that
/// module.
const PARAMETERS: &str = include_str!("kernel_parameters.txt");

/// Kernel file systems whose mounts are kept.
const MOUNTS: &[&str] = &["cgroup", "cgroup2", "cpuset", "debugfs", "resctrl", "tracefs"];

/// Lines of a task's `status` that are kept (also `Cpus_allowed`, with and without `_list`).
const STATUS: &[&str] = &["Name", "State", "Tgid", "Pid", "PPid", "VmLck"];

/// Lines of `/proc/cpuinfo` that are kept; on ARM boards it contains a serial number.
const CPUINFO: &str = include_str!("cpuinfo_keys.txt");

/// The bytes of a file without private data, as a recording saves them.
#[must_use]
pub fn without_private(path: &str, bytes: &[u8]) -> Vec<u8> {
    let config = ["/boot/config-", "/lib/modules/", "/usr/lib/modules/", "/proc/config.gz"];
    if config.iter().any(|start| path.starts_with(start)) {
        return redact_kconfig(bytes).into_bytes();
    }
    if path == "/sys/firmware/dmi/tables/DMI" {
        return dmi::without_strings(bytes);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    let task = path.strip_prefix("/proc/").and_then(|rest| rest.rsplit_once('/'));
    let task = task.filter(|(dir, _)| dir.starts_with(|c: char| c.is_ascii_digit()));
    match (task, path) {
        (Some((_, "stat")), _) => redact_stat(text),
        (Some((_, "status")), _) => redact_status(text),
        (Some((_, "comm")), _) => format!("{}\n", redact_name(text.trim_end())),
        (Some((_, "cgroup")), _) => text.to_owned(),
        // Command lines and environments are not read; if they ever are, they are removed.
        (Some(_), _) => String::new(),
        (None, "/proc/cmdline") => redact_cmdline(text),
        (None, "/proc/version") => redact_version(text),
        (None, "/proc/self/mountinfo") => redact_mountinfo(text),
        (None, "/proc/cpuinfo") => redact_cpuinfo(text),
        _ => text.to_owned(),
    }
    .into_bytes()
}

/// Keeps the options that matter, as text even if the file was compressed.
fn redact_kconfig(bytes: &[u8]) -> String {
    let text = if gzip::is_gzip(bytes) { gzip::unpack(bytes).ok() } else { Some(bytes.to_vec()) };
    let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    text.lines()
        .filter(|line| {
            let name = line.split('=').next().unwrap_or("");
            kconfig::RELEVANT.lines().any(|it| it == name)
        })
        .map(|line| format!("{line}\n"))
        .collect()
}

fn redact_name(name: &str) -> &str {
    if KNOWN_PROGRAMS.contains(&name) { name } else { HIDDEN }
}

/// `pid (name) state parent …`: hides the name, unless it is that of a kernel thread (a child of
/// kthreadd, which is 2), and the addresses of the task's memory.
fn redact_stat(text: &str) -> String {
    /// Fields of proc_pid_stat(5) that are addresses: code, stack, registers, wchan, data, heap,
    /// arguments, environment.
    const ADDRESSES: &[usize] = &[26, 27, 28, 29, 30, 35, 45, 46, 47, 48, 49, 50, 51];
    let Some((pid, rest)) = text.split_once(" (") else { return String::new() };
    let Some((name, rest)) = rest.rsplit_once(')') else { return String::new() };
    let mut words: Vec<&str> = rest.split_whitespace().collect();
    let kernel = pid == "2" || words.get(1) == Some(&"2");
    for field in ADDRESSES {
        if let Some(word) = words.get_mut(field - 3) {
            *word = "0";
        }
    }
    let name = if kernel { name } else { redact_name(name) };
    format!("{pid} ({name}) {}\n", words.join(" "))
}

fn redact_status(text: &str) -> String {
    let kernel = status_field(text, "PPid") == Some("2") || status_field(text, "Pid") == Some("2");
    let mut out = String::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let is_mask = key.starts_with("Cpus_allowed") || key.starts_with("Mems_allowed");
        if key == "Name" && !kernel {
            out.push_str(&format!("Name:\t{}\n", redact_name(value.trim())));
        } else if is_mask || STATUS.contains(&key) {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

fn status_field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
}

fn redact_cmdline(text: &str) -> String {
    // What follows `--` is for init.
    let words = text.split_whitespace().take_while(|word| *word != "--");
    let mut out: Vec<&str> = words.filter(|word| matters_for_isolation(word)).collect();
    if out.len() < text.split_whitespace().count() {
        out.push(LEFT_OUT);
    }
    format!("{}\n", out.join(" "))
}

fn matters_for_isolation(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or("").replace('-', "_");
    PARAMETERS.lines().any(|known| match known.strip_suffix('.') {
        Some(module) => name.strip_prefix(module).is_some_and(|rest| rest.starts_with('.')),
        None => name == known,
    })
}

/// `Linux version 6.12.48 (builder@host) (compiler) #1 SMP …`: removes who built it and where.
fn redact_version(text: &str) -> String {
    let (head, flags) = text.rsplit_once(" #").unwrap_or((text, ""));
    let (head, _) = head.split_once(" (").unwrap_or((head, ""));
    let flags = if flags.is_empty() { String::new() } else { format!(" #{}", flags.trim_end()) };
    format!("{}{flags}\n", head.trim_end())
}

fn redact_mountinfo(text: &str) -> String {
    text.lines()
        .filter(|line| mount_kind(line).is_some_and(|kind| MOUNTS.contains(&kind)))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The type of the file system in a line of mountinfo.
fn mount_kind(line: &str) -> Option<&str> {
    line.split_once(" - ")?.1.split(' ').next()
}

/// Keeps the flags of the first CPU only: they are long, and the same on all CPUs.
fn redact_cpuinfo(text: &str) -> String {
    let mut out = String::new();
    let mut flags = 0;
    for line in text.lines() {
        let key = line.split(':').next().unwrap_or("").trim();
        flags += usize::from(key == "flags" || key == "Features");
        let is_repeated = (key == "flags" || key == "Features") && flags > 1;
        if line.is_empty() || (CPUINFO.lines().any(|it| it == key) && !is_repeated) {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

/// The hardware addresses in names of network interfaces (`enx001122334455`), which udev gives to
/// USB adapters. Each address is replaced by a number.
#[derive(Debug, Default)]
pub(crate) struct HardwareAddresses {
    known: Vec<String>,
}

impl HardwareAddresses {
    /// Replaces every such address, the same one always by the same number.
    pub(crate) fn hide(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = ["enx", "wlx", "wwx"].iter().filter_map(|p| rest.find(p)).min() {
            let (before, found) = rest.split_at(at + 3);
            out.push_str(before);
            rest = found;
            let digits = found.bytes().take_while(u8::is_ascii_hexdigit).count();
            if digits == 12 {
                let (address, after) = found.split_at(12);
                let known = self.known.iter().position(|known| known == address);
                let number = known.unwrap_or_else(|| {
                    self.known.push(address.to_owned());
                    self.known.len() - 1
                });
                out.push_str(&format!("{number:012x}"));
                rest = after;
            }
        }
        out + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redacted(path: &str, text: &str) -> String {
        String::from_utf8(without_private(path, text.as_bytes())).unwrap()
    }

    #[test]
    fn names_of_user_tasks_are_hidden_but_not_kernel_threads_and_known_services() {
        let stat = |pid: &str, name: &str, parent: &str| {
            let addresses = "11 22 33 44 55 0 0 0 0 66 0 0 17 3 0 0 0 0 0 1 2 3 4 5 6 7 0";
            format!(
                "{pid} ({name}) S {parent} 1 1 0 -1 4 1 1 1 1 1 1 1 1 20 0 1 0 99 8 9 10 {addresses}\n"
            )
        };
        let bare = "0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0";
        let redacted = |text: &str| redacted("/proc/7/task/7/stat", text);
        let user = redacted(&stat("7", "my (secret) a", "1"));
        assert!(user.starts_with("7 (task) S 1 1 1 0"), "{user}");
        assert!(user.ends_with(&format!(" 99 8 9 10 {bare}\n")), "{user}");
        assert!(redacted(&stat("7", "irqbalance", "1")).starts_with("7 (irqbalance) S 1 "));
        assert!(redacted(&stat("7", "kworker/0:1", "2")).starts_with("7 (kworker/0:1) S 2 "));
        assert!(redacted(&stat("2", "kthreadd", "0")).starts_with("2 (kthreadd) S 0 "));
    }

    #[test]
    fn a_status_keeps_where_a_task_may_run() {
        let text = "Name:\tsecret\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nPid:\t7\n\
                    PPid:\t1\nUid:\t1000\t1000\nVmLck:\t       0 kB\nCpus_allowed:\t3\n\
                    Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n";
        let wanted = "Name:\ttask\nState:\tS (sleeping)\nTgid:\t7\nPid:\t7\nPPid:\t1\n\
                      VmLck:\t       0 kB\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n\
                      Mems_allowed_list:\t0\n";
        assert_eq!(redacted("/proc/7/task/7/status", text), wanted);
        assert_eq!(redacted("/proc/7/status", text), wanted);
    }

    #[test]
    fn private_data_is_removed_from_texts_of_the_whole_machine() {
        let pairs = [
            (
                "/proc/cmdline",
                "root=UUID=1-2 nohz_full=1-3 rcutree.kthread_prio=5 ip=10.0.0.1 -- --key secret",
                "nohz_full=1-3 rcutree.kthread_prio=5 ...\n",
            ),
            ("/proc/cmdline", "isolcpus=2 idle=poll\n", "isolcpus=2 idle=poll\n"),
            (
                "/proc/version",
                "Linux version 6.12.48-rt-amd64 (me@host.example) (gcc (Debian 14) 14.2) #1 SMP \
                 PREEMPT_RT Debian 6.12.48-1\n",
                "Linux version 6.12.48-rt-amd64 #1 SMP PREEMPT_RT Debian 6.12.48-1\n",
            ),
            (
                "/proc/self/mountinfo",
                "1 2 8:1 / /home/me rw - ext4 /dev/sda1 rw\n3 2 0:9 / /c rw - cgroup2 c rw\n",
                "3 2 0:9 / /c rw - cgroup2 c rw\n",
            ),
            (
                "/proc/cpuinfo",
                "processor\t: 0\nflags\t\t: fpu\nSerial\t: 123\n\nprocessor\t: 1\nflags\t\t: fpu\n",
                "processor\t: 0\nflags\t\t: fpu\n\nprocessor\t: 1\n",
            ),
            ("/proc/7/cmdline", "mysql\0-psecret\0", ""),
            (
                "/proc/config.gz",
                "CONFIG_HZ=250\nCONFIG_DEFAULT_HOSTNAME=\"x\"\n",
                "CONFIG_HZ=250\n",
            ),
        ];
        for (path, text, wanted) in pairs {
            assert_eq!(redacted(path, text), wanted, "{path}");
        }
    }

    #[test]
    fn hardware_addresses_in_interface_names_become_numbers() {
        let mut addresses = HardwareAddresses::default();
        assert_eq!(
            addresses.hide("enx001122334455-rx wlxaabbccddeeff"),
            "enx000000000000-rx wlx000000000001"
        );
        assert_eq!(addresses.hide("wlxaabbccddeeff enx"), "wlx000000000001 enx");
        assert_eq!(addresses.hide("enx00112233445566"), "enx00112233445566");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            name in "(stat|status|comm|cmdline|x)",
            text in "[a-z0-9 ():\t\n,=\\-]{0,80}",
        ) {
            let _ = without_private(&format!("/proc/7/{name}"), text.as_bytes());
            let _ = without_private(&format!("/proc/{name}"), text.as_bytes());
            let _ = HardwareAddresses::default().hide(&text);
        }
    }
}
