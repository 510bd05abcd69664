//! `cargo xtask vm run`: boots one guest, runs a script in it, and says how it ended.

use super::guest_options::GuestOptions;
use super::shared_dir::{GuestScript, SharedDir};
use super::{VmResult, places, qemu_command, say, stop};
use clap::Args;
use signal_hook::consts::{SIGABRT, SIGSEGV};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Boots a guest, runs SCRIPT in it as root, and prints its output. Exit status: that of the
/// script; 124 after the time limit, 125 if the guest died, 126 if the emulator crashed or broke
/// its kernel, 130 if it was interrupted
#[derive(Debug, Args)]
pub struct GuestRunArgs {
    #[command(flatten)]
    options: GuestOptions,
    /// The program /host/cpushield (default: CPUSHIELD_BINARY, otherwise the newest static build)
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// The shared directory /host, kept afterwards (default: a temporary one)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print `# times boot_s=… guest_s=…`: until the script began, and the whole guest
    #[arg(long)]
    times: bool,
    /// A kernel that vm/build made
    kernel: String,
    /// A file, or a command in quotes; it can use /host/cpushield, /host/tools, /host/lib.sh
    script: String,
    /// Arguments of the script
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// How many times a guest is started until its script begins.
const STARTS: usize = 3;

/// The largest log of the interrupts of all vCPUs, in bytes. A guest that provokes 130,000 entries
/// logs 0.5 GB. One whose kernel took exceptions without end logged 44 GB in 12 minutes, which
/// filled the disk of the host.
const INTERRUPT_LOG_MAX: u64 = 8_000_000_000;

/// How a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuestEnd {
    /// The script ended with this exit status.
    Script(u8),
    TimeLimit,
    /// QEMU ended before the script did.
    Died(ExitStatus),
    /// QEMU crashed.
    EmulatorCrashed,
    /// QEMU ran code that the kernel had replaced.
    StaleCode,
    /// The guest's clock is too fast.
    FastClock,
    /// QEMU logged interrupts without end.
    EndlessLog,
    Interrupted,
}

impl GuestEnd {
    fn exit_status(self) -> u8 {
        match self {
            GuestEnd::Script(status) => status,
            GuestEnd::TimeLimit => 124,
            GuestEnd::Died(_) => 125,
            GuestEnd::EmulatorCrashed
            | GuestEnd::StaleCode
            | GuestEnd::FastClock
            | GuestEnd::EndlessLog => 126,
            GuestEnd::Interrupted => stop::INTERRUPTED,
        }
    }
}

/// How QEMU ended.
#[derive(Debug, Clone, Copy)]
enum QemuEnd {
    Itself(ExitStatus),
    TimeLimit,
    /// The script had not begun in time, or the boot stalled.
    NotBooted,
    /// The guest's clock is too fast.
    FastClock,
    /// The console shows that the guest's kernel died of stale code.
    StaleCode,
    /// The logs of the vCPUs are larger than [`INTERRUPT_LOG_MAX`].
    EndlessLog,
    Interrupted,
}

pub fn run(args: &GuestRunArgs) -> VmResult<ExitCode> {
    let begin = Instant::now();
    check_files(args)?;
    let binary = args.binary.clone().or_else(places::binary);
    let script = GuestScript { script: &args.script, arguments: &args.arguments };
    let dir = SharedDir::prepare(args.dir.as_deref(), binary.as_deref(), &args.options, &script)?;
    let end = boot_until_script_begins(args, &dir)?;
    explain_end(end, args, &dir);
    let mut status = end.exit_status();
    if args.options.interrupt_log && status == 0 {
        let compare = places::vm("interrupt-log.py");
        let compared = Command::new("python3").arg(compare).arg(dir.file("out")).status()?;
        status = u8::from(!compared.success());
    }
    if args.times {
        let seconds = begin.elapsed().as_secs_f64();
        let boot = dir.read("uptime").unwrap_or_else(|| "none".to_owned());
        println!("# times boot_s={boot} guest_s={seconds:.1}");
    }
    Ok(ExitCode::from(status))
}

/// Makes the disks that are missing. A missing kernel is an error.
fn check_files(args: &GuestRunArgs) -> VmResult<()> {
    let kernel = places::cache("kernels").join(&args.kernel);
    if !kernel.join("initrd").exists() || !places::cache("root.img").exists() {
        let cache = places::cache("");
        return Err(format!(
            "no kernel {0} or no root in {1}: run vm/build {0}",
            args.kernel,
            cache.display()
        )
        .into());
    }
    if args.options.grub && !places::cache("grub.img").exists() {
        places::run_script("grub-disk")?;
    }
    if args.options.efi && !places::cache("efi/disk.img").exists() {
        places::run_script("efi-disk")?;
    }
    if args.options.init_roots {
        places::run_script("init-roots")?;
    }
    if args.options.packages {
        places::run_script("rpm-tree")?;
    }
    Ok(())
}

/// Boots the guest. If the emulator crashes before the script begins, or loses a CPU's timer
/// interrupt during boot (RCU then waits forever; it happens on a loaded host), nothing was tested:
/// the guest is started again, with a message. After the script began nothing is repeated.
fn boot_until_script_begins(args: &GuestRunArgs, dir: &SharedDir) -> VmResult<GuestEnd> {
    let begin = Instant::now();
    for attempt in 1.. {
        let ended = boot_once(args, dir)?;
        if matches!(ended, QemuEnd::Interrupted) {
            return Ok(GuestEnd::Interrupted);
        }
        let has_begun = dir.file("uptime").exists() || dir.file("boots").exists();
        if has_begun || attempt == STARTS {
            return Ok(find_end(ended, dir));
        }
        let why = dir.read("qemu.log").unwrap_or_default();
        let why = why.lines().next().unwrap_or_default();
        let seconds = begin.elapsed().as_secs();
        say(format!("the guest had not booted after {seconds} s ({why}); last lines:"));
        eprintln!("{}", last_lines(&dir.file("console"), 8));
        say(format!("starting it again, attempt {} of {STARTS}", attempt + 1));
        fs::write(dir.file("console"), "")?;
    }
    unreachable!("the loop returns at its last attempt")
}

fn boot_once(args: &GuestRunArgs, dir: &SharedDir) -> VmResult<QemuEnd> {
    let mut qemu = qemu_command::command(&args.kernel, &args.options, dir)?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(dir.file("qemu.log"))?)
        .spawn()?;
    // QEMU opens its output again by its path, and would overwrite a file from its start; a pipe
    // has no start.
    let printer = qemu.stdout.take().map(print_output);
    let ended = watch(args, dir, &mut qemu);
    if !matches!(ended, Ok(QemuEnd::Itself(_))) {
        stop::end(&mut qemu)?;
    }
    if let Some(printer) = printer {
        let _ = printer.join();
    }
    ended
}

fn print_output(mut output: ChildStdout) -> JoinHandle<()> {
    thread::spawn(move || {
        let _ = io::copy(&mut output, &mut io::stdout());
    })
}

/// Waits until QEMU ends or a limit is reached. It resets a guest that reboots and hangs.
fn watch(args: &GuestRunArgs, dir: &SharedDir, qemu: &mut Child) -> VmResult<QemuEnd> {
    let begin = Instant::now();
    let (limit, boot_limit) = (args.options.timeout, args.options.boot_timeout);
    let mut has_begun = dir.file("boots").exists();
    let (mut silent_since, mut printed) = (begin, 0);
    loop {
        if let Some(status) = qemu.try_wait()? {
            return Ok(QemuEnd::Itself(status));
        }
        if stop::is_requested() {
            return Ok(QemuEnd::Interrupted);
        }
        if begin.elapsed() >= Duration::from_secs(limit) {
            return Ok(QemuEnd::TimeLimit);
        }
        // A guest with a boot loader would reboot, and its script would blame the next boot.
        let length = dir.file("console").metadata().map_or(0, |data| data.len());
        if std::mem::replace(&mut printed, length) != length && has_stale_code(dir) {
            return Ok(QemuEnd::StaleCode);
        }
        if args.options.interrupt_log && logged_bytes(dir) > INTERRUPT_LOG_MAX {
            return Ok(QemuEnd::EndlessLog);
        }
        let uptime = dir.read("uptime");
        let runs = uptime.is_some();
        if uptime.is_some_and(|text| is_clock_too_fast(&text, begin.elapsed())) {
            return Ok(QemuEnd::FastClock);
        }
        has_begun |= runs;
        if !has_begun && (begin.elapsed() >= Duration::from_secs(boot_limit) || has_stalled(dir)) {
            return Ok(QemuEnd::NotBooted);
        }
        if runs {
            silent_since = Instant::now();
        }
        if has_begun
            && let Some(seconds) = args.options.reset_after
            && silent_since.elapsed() >= Duration::from_secs(seconds)
        {
            say(format!("the guest printed nothing for {seconds} s: resetting it"));
            fs::write(dir.file("monitor.in"), "system_reset\n")?;
            silent_since = Instant::now();
        }
        sleep(stop::POLL);
    }
}

/// Whether the guest counted more time than has passed on the host. Its kernel measured the rate of
/// the time stamp counter while the host was stalled, so all its times are wrong: a window of 10 s
/// may last a third of a second. Example: the guest was up for 389 s when QEMU had run for 20 s.
fn is_clock_too_fast(uptime: &str, elapsed: Duration) -> bool {
    let seconds = uptime.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    seconds.is_some_and(|up| up > elapsed + Duration::from_secs(1))
}

/// The size of the logs that QEMU writes for its vCPUs.
fn logged_bytes(dir: &SharedDir) -> u64 {
    let files = fs::read_dir(dir.file("out")).into_iter().flatten().flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("vcpu."));
    logs.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// Whether RCU reports a stall on the console.
fn has_stalled(dir: &SharedDir) -> bool {
    dir.read("console").is_some_and(|text| text.contains("detected stalls"))
}

fn find_end(ended: QemuEnd, dir: &SharedDir) -> GuestEnd {
    if let Some(status) = dir.read("status").and_then(|text| text.parse().ok()) {
        return GuestEnd::Script(status);
    }
    let status = match ended {
        QemuEnd::Itself(status) => status,
        QemuEnd::TimeLimit => return GuestEnd::TimeLimit,
        QemuEnd::NotBooted => return GuestEnd::Died(ExitStatus::default()),
        QemuEnd::FastClock => return GuestEnd::FastClock,
        QemuEnd::StaleCode => return GuestEnd::StaleCode,
        QemuEnd::EndlessLog => return GuestEnd::EndlessLog,
        QemuEnd::Interrupted => return GuestEnd::Interrupted,
    };
    if matches!(status.signal(), Some(SIGABRT | SIGSEGV)) {
        GuestEnd::EmulatorCrashed
    } else if has_stale_code(dir) {
        GuestEnd::StaleCode
    } else {
        GuestEnd::Died(status)
    }
}

/// The kernel patches its code under a breakpoint, and removes the breakpoint when every CPU has
/// passed a barrier (smp_text_poke_batch_finish() and its older names, arch/x86/kernel/
/// alternative.c). A CPU that hits it later executed stale code, which only an emulator does.
const STALE_CODE: &str = "int3: 0000 [#1]";

fn has_stale_code(dir: &SharedDir) -> bool {
    dir.read("console").is_some_and(|text| text.contains(STALE_CODE))
}

/// Reports an end that is not the script's own.
fn explain_end(end: GuestEnd, args: &GuestRunArgs, dir: &SharedDir) {
    let (console, log) = (dir.file("console"), dir.file("qemu.log"));
    match end {
        GuestEnd::Script(_) => {}
        GuestEnd::Interrupted => say("interrupted"),
        GuestEnd::TimeLimit => {
            let limit = args.options.timeout;
            say(format!("the guest did not finish within {limit} s; last lines:"));
            eprintln!("{}", last_lines(&console, 8));
        }
        GuestEnd::EmulatorCrashed => {
            say("the emulator crashed:");
            eprintln!("{}", last_lines(&log, 3));
        }
        GuestEnd::FastClock => {
            let uptime = dir.read("uptime").unwrap_or_default();
            say(format!(
                "the guest's clock is too fast: it says {} s, which is more than QEMU has run",
                uptime.trim()
            ));
        }
        GuestEnd::EndlessLog => {
            let bytes = logged_bytes(dir);
            say(format!("the emulator logged interrupts without end ({bytes} bytes)"));
        }
        GuestEnd::StaleCode => {
            say(
                "the emulator ran code that the guest's kernel had replaced (a removed breakpoint):",
            );
            let text = dir.read("console").unwrap_or_default();
            let lines: Vec<&str> =
                text.lines().skip_while(|line| !line.contains(STALE_CODE)).take(4).collect();
            eprintln!("{}", lines.join("\n"));
        }
        GuestEnd::Died(status) => {
            say(format!("the guest died (QEMU: {status}); last lines:"));
            eprintln!("{}\n{}", last_lines(&console, 40), last_lines(&log, 40));
        }
    }
}

fn last_lines(file: &Path, count: usize) -> String {
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_cannot_be_up_for_longer_than_qemu_has_run() {
        let ran = Duration::from_secs(20);
        assert!(is_clock_too_fast("389.21\n", ran));
        assert!(!is_clock_too_fast("8.43", ran));
        // The file exists before it has its text.
        assert!(!is_clock_too_fast("", ran));
    }
}
