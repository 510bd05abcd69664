//! The options of a guest. A command line and the `# guest:` lines of a scenario have the same
//! options.

use clap::{Args, Parser, ValueEnum};
use std::path::PathBuf;

/// How cgroups are mounted in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CgroupMount {
    V2,
    V1,
    Hybrid,
    None,
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GuestOptions {
    /// The CPUs of the guest: a number, or QEMU's `8,cores=4,threads=2`
    #[arg(long, value_name = "CPUS", default_value = "4")]
    pub smp: String,
    /// Start systemd as init (otherwise a small script)
    #[arg(long)]
    pub systemd: bool,
    /// The mounted cgroup hierarchies
    #[arg(long, value_name = "MODE", default_value = "v2")]
    pub cgroup: CgroupMount,
    /// More kernel parameters
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    pub append: String,
    /// The number of memory nodes; the CPUs are divided among them
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub numa: u32,
    /// Add an NVMe disk with one queue and interrupt for each CPU, or at most QUEUES of them
    #[arg(long, value_name = "QUEUES", num_args = 0..=1, require_equals = true,
        default_missing_value = "64")]
    pub nvme: Option<u32>,
    /// Add a network card (user mode)
    #[arg(long)]
    pub net: bool,
    /// Add a virtio card with N queue pairs on a tap device in its own network namespace
    #[arg(long, value_name = "N")]
    pub net_queues: Option<u32>,
    /// Let QEMU log each interrupt and exception while the guest requests it (`log int` to the
    /// port named monitor); vm/interrupt-log.py then compares the logs with cpushield's trace
    #[arg(long)]
    pub interrupt_log: bool,
    /// Give each CPU three idle states and four frequencies (vm/power-table.py)
    #[arg(long)]
    pub power: bool,
    /// Add another disk, /dev/vdb, which keeps written data
    #[arg(long, value_name = "FILE")]
    pub disk: Option<PathBuf>,
    /// Boot from a disk with a real GRUB, /dev/vdb; written data is lost when QEMU ends. The script
    /// runs at each boot, and the guest boots again if it creates /host/again. KERNEL selects only
    /// /usr/lib/modules
    #[arg(long)]
    pub grub: bool,
    /// The same with systemd-boot, which real firmware (OVMF) starts from /dev/vdb
    #[arg(long, conflicts_with = "grub")]
    pub efi: bool,
    /// Add /host/openrc.tar and /host/sysv-rc.tar: Debians without systemd
    #[arg(long)]
    pub init_roots: bool,
    /// Add /host/packages, which `make packages` made, and /host/rpm, Debian's program rpm
    #[arg(long)]
    pub packages: bool,
    /// With --grub and --efi: reset a guest that prints nothing for S seconds while it boots
    #[arg(long, value_name = "S")]
    pub reset_after: Option<u64>,
    /// Run all CPUs of the guest on one thread of the host: slow, but avoids a failed assertion of
    /// QEMU 10 (iotlb_to_section) when a kernel starts another one
    #[arg(long)]
    pub one_thread: bool,
    /// Memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1536)]
    pub memory: u32,
    /// The time limit of the guest in seconds
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub timeout: u64,
    /// The time limit for the start of the script in seconds; then the guest is restarted
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub boot_timeout: u64,
}

/// A kernel and the options of its guest: what a `# guest:` line says.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "# guest:", no_binary_name = true, disable_help_flag = true)]
pub struct GuestLine {
    /// A kernel that vm/build made
    pub kernel: String,
    #[command(flatten)]
    pub options: GuestOptions,
}

impl GuestLine {
    /// Parses the words of a line, which are quoted as in a shell.
    pub fn parse_words(text: &str) -> Result<GuestLine, String> {
        let words = shlex::split(text).ok_or_else(|| format!("unbalanced quotes: {text}"))?;
        GuestLine::try_parse_from(words).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_line_has_the_options_of_the_command_line() {
        let line = GuestLine::parse_words(
            r#"6.12 --smp 8,cores=4,threads=2 --cgroup v1 --append "nohz_full=1-3 isolcpus=3""#,
        );
        let GuestLine { kernel, options } = line.unwrap();
        assert_eq!((kernel.as_str(), options.smp.as_str()), ("6.12", "8,cores=4,threads=2"));
        assert_eq!(options.cgroup, CgroupMount::V1);
        assert_eq!(options.append, "nohz_full=1-3 isolcpus=3");
        assert_eq!((options.timeout, options.memory), (300, 1536));
    }

    #[test]
    fn an_unknown_option_of_a_guest_line_is_an_error() {
        assert!(GuestLine::parse_words("6.12 --sytemd").unwrap_err().contains("--systemd"));
        assert!(GuestLine::parse_words("").is_err());
        assert!(GuestLine::parse_words(r#"6.12 --append "a"#).unwrap_err().contains("quotes"));
    }
}
