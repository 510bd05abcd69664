//! `cargo xtask vm lab`: provokes interruptions in a guest and compares what cpushield, rtla
//! osnoise and the awk recipe report. It makes the first table of `docs/measurements/lab.md`.

use super::shared_dir::{SharedDir, copy_tree};
use super::{VmResult, places, stop};
use clap::Args;
use std::fs;
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};

/// Provokes interruptions and compares what cpushield, rtla osnoise and the awk recipe report. It
/// takes about 10 minutes, and prints a table (Markdown). Without ACTIONs the table is also written
/// to docs/measurements/lab.md
#[derive(Debug, Args)]
pub struct LabArgs {
    /// Actions of vm/tools/provoke.c
    actions: Vec<String>,
}

const PREFACE: &str = include_str!("lab.md");
const KERNEL: &str = "6.12-rt";
const PARAMETERS: &str = "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0";

pub fn run(args: &LabArgs) -> VmResult<ExitCode> {
    let rows = provoke(&args.actions)?;
    if stop::is_requested() {
        return Ok(ExitCode::from(stop::INTERRUPTED));
    }
    let table = format!(
        "{PREFACE}\n{}\n\n\
         | action | provoked | counted | cpushield verify | rtla osnoise top | awk recipe |\n\
         |---|---|---|---|---|---|\n{rows}",
        describe_machine()?
    );
    print!("{table}");
    if rows.is_empty() {
        return Err("the guest printed no row".into());
    }
    if args.actions.is_empty() {
        // The sections about the scenarios stay.
        let file = places::tree().join("docs/measurements/lab.md");
        let old = fs::read_to_string(&file)?;
        let kept = old.find("\n## ").map_or("", |at| &old[at..]);
        fs::write(file, table + kept)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows of the table, as the guest prints them.
fn provoke(actions: &[String]) -> VmResult<String> {
    let dir = SharedDir::temporary()?;
    copy_tree(&places::vm("bench"), &dir.file("bench"))?;
    let script = format!(
        "echo 1 >/proc/sys/kernel/printk; cpushield apply --cpus 3 >/dev/null && \
         python3 /host/bench/lab.py {}",
        shlex::try_join(actions.iter().map(String::as_str))?
    );
    let mut guest = Command::new(std::env::current_exe()?)
        .args(["vm", "run", "--timeout", "1500", "--append", PARAMETERS, "--dir"])
        .arg(&dir.path)
        .args([KERNEL, script.as_str()])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = String::new();
    if let Some(mut pipe) = guest.stdout.take() {
        pipe.read_to_string(&mut output)?;
    }
    guest.wait()?;
    let rows = output.lines().filter(|line| line.starts_with('|'));
    Ok(rows.map(|row| format!("{row}\n")).collect())
}

/// When, with what and where it was measured.
fn describe_machine() -> VmResult<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let guest = fs::read_to_string(places::cache("kernels").join(KERNEL).join("version"))?;
    Ok(format!(
        "- Measured {}, cpushield {}\n- Host: {}, {} CPUs, Linux {}, load {load}\n- Guest: {}",
        printed_by("date", &["-u", "+%Y-%m-%d"])?,
        printed_by("git", &["describe", "--always", "--dirty"])?,
        model.map_or("unknown processor", |(_, name)| name),
        std::thread::available_parallelism()?,
        release.trim(),
        guest.trim(),
    ))
}

/// What a program prints, without the end of the line.
fn printed_by(program: &str, arguments: &[&str]) -> VmResult<String> {
    let output = Command::new(program).args(arguments).current_dir(places::tree()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
