//! Snapshots of the command line as a program: every command of `*.txt` here with its exit
//! code, standard output and standard error. `SNAPSHOTS=overwrite cargo test --test recorded cli`
//! writes the current output; review the diff.
//!
//! A snapshot is a text: `#` is a remark, `$` a line for the shell, `?` its exit code, `|` a line
//! of standard output and `!` a line of standard error. The shell runs in a separate directory
//! with the recorded machines under their names, the project's `docs/`, a few measurements, and its
//! state in `state/`. Nothing here may depend on the machine or the user.

use crate::program;
use serde_json::{Value, json};
use snapbox::{Assert, Data, cmd};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::documents::{HOSTILE, latency, verified};

/// The environment of each line: no standard input, and a private state directory.
const PRELUDE: &str = "exec < /dev/null; cpushield() { command cpushield --state state \"$@\"; }\n";

/// Columns of the help. Standard output is not a terminal, so screens use their default width.
const COLUMNS: &str = "100";

/// Far more than any line takes: a line that hangs must not hang the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// The recorded machines that the lines use.
const MACHINES: &[&str] =
    &["6.1-rt-v1", "6.12-rt-numa", "6.12-rt-smt", "6.12-rt-systemd", "6.18-hybrid"];

/// An experiment on CPU 2 to 3 of the machine 6.12-rt-smt, or of one with another processor.
fn experiment(processor: &str) -> Value {
    let row = |name: &str, boot: &[&str]| {
        let (cpus, tunables) = ("2-3", json!({}));
        json!({
            "name": name, "cpus": cpus, "shield": true, "tunables": tunables, "boot": boot,
            "isolation": { "isolation": "unchecked" }, "missing": null
        })
    };
    let rows = [row("shield", &[]), row("nohz_full", &["nohz_full={cpus}", "nohlt"])];
    json!({
        "schema": 1, "name": "lathe", "version": "1", "state": "finished", "began_s": 0,
        "ended_s": 1, "cpus": "2-3", "span_ns": 1, "warmup_ns": 0, "repeats": 1, "boots": 1,
        "setup": { "machine": null, "board": null, "firmware": null, "processor": processor,
            "distribution": null, "kernel": null, "realtime": null, "cmdline": null,
            "hypervisor": null, "settings": [],
            "power": { "driver": null, "governors": [], "turbo": null, "idle_driver": null,
                "idle_states": null } },
        "rows": rows, "columns": [], "cells": [], "best": [], "effects": [], "notes": []
    })
}

/// The directory that the lines run in, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("cpushield-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        let link = |from: &str, to: &str| {
            std::os::unix::fs::symlink(project.join(from), dir.join(to)).unwrap();
        };
        ["machines", "docs"].iter().for_each(|part| link(part, part));
        for name in MACHINES {
            link(&format!("machines/{name}/root"), name);
        }
        let scratch = Scratch(dir);
        for (n, typical_ns) in [30_000, 31_000, 32_000, 33_000].into_iter().enumerate() {
            scratch.put(&format!("slow{n}.json"), &latency(&[2, 3], 60, 1_000, typical_ns));
            scratch.put(&format!("fast{n}.json"), &latency(&[2, 3], 60, 1_000, typical_ns / 10));
        }
        let leaks = [("tick", "", 4_000), ("irq", "eth0", 77), ("user-task", "ruby", 3)];
        scratch.put("leaks.json", &verified(2, &leaks));
        scratch.put("holds.json", &verified(2, &[]));
        for (name, cpu, leaks) in [("b", 3, &leaks[..1]), ("a", 2, &[])] {
            let mut document = verified(cpu, leaks);
            document["evidence"]["shield"] = Value::from(name);
            scratch.put(&format!("verify-{name}.json"), &document);
            let mut document = latency(&[cpu], 60, 1_000, 10_000);
            document["isolation"]["shield"] = Value::from(name);
            scratch.put(&format!("latency-{name}.json"), &document);
        }
        scratch.put("lathe.json", &experiment("QEMU TCG CPU version 2.5+"));
        scratch.put("elsewhere.json", &experiment("Another CPU"));
        scratch
    }

    /// Writes a measurement. Its names are plain here: `tests/live/page.rs` is about hostile ones.
    fn put(&self, name: &str, document: &Value) {
        let hostile = Value::from(HOSTILE).to_string();
        let text = document.to_string().replace(&hostile, "\"a name\"");
        fs::write(self.0.join(name), text).unwrap();
    }

    /// Runs a line and shows its result.
    fn run(&self, line: &str) -> String {
        let program = program::path();
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        let done = cmd::Command::new("/bin/sh")
            .args(["-c", &format!("{PRELUDE}{line}")])
            .current_dir(&self.0)
            .env_clear()
            .env("PATH", path)
            .env("COLUMNS", COLUMNS)
            .timeout(PATIENCE)
            .output()
            .unwrap();
        let code = done.status.code().map_or("a signal".to_owned(), |code| code.to_string());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let marked = |mark: char, text: String| -> String {
            text.lines().map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n").collect()
        };
        format!("? {code}\n{}{}", marked('|', text(&done.stdout)), marked('!', text(&done.stderr)))
            .replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
            .replace(&present(), &present_as("[PRESENT]"))
    }
}

/// The message about a CPU that no machine has.
fn present_as(list: &str) -> String {
    format!("this machine has no CPU 8191; it has CPU {list}")
}

/// The same with the CPUs of this machine.
fn present() -> String {
    present_as(fs::read_to_string("/sys/devices/system/cpu/present").unwrap().trim())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the lines of a snapshot in order, and compares the whole output.
fn check(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recorded/cli/{name}.txt"));
    let expected = fs::read_to_string(&file).unwrap();
    let scratch = Scratch::new(name);
    let mut actual = String::new();
    for line in expected.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            actual += &format!("{line}\n{}\n", scratch.run(command));
        } else if line.starts_with('#') {
            actual += &format!("{line}\n");
        }
    }
    let expected = Data::read_from(&file, None).raw();
    Assert::new().action_env("SNAPSHOTS").eq(actual, expected);
}

/// One test for each file, so that they run at the same time.
macro_rules! snapshots {
    ($($name:ident)*) => {
        mod of {
            $(#[test]
            fn $name() {
                super::check(stringify!($name));
            })*
        }

        #[test]
        fn every_snapshot_is_a_test() {
            let mut names = vec![$(stringify!($name).to_owned()),*];
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/cli");
            let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            let mut texts: Vec<String> = files
                .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
                .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
                .collect();
            names.sort();
            texts.sort();
            assert_eq!(names, texts);
        }
    };
}

snapshots! { apply boot compare completions experiment explain flags general help latency mask plan
policy report request run status survey try_shield undo verify watch }

/// The calls of `cpushield` in all snapshots but that of the help, as words.
fn calls() -> Vec<Vec<String>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/cli");
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let snapshots = files.filter(|path| path.extension().is_some_and(|ending| ending == "txt"));
    let texts = snapshots.filter(|path| !path.ends_with("help.txt"));
    let mut calls = Vec::new();
    for text in texts.map(|path| fs::read_to_string(path).unwrap()) {
        let commands = text.lines().filter_map(|line| line.strip_prefix("$ "));
        for command in commands.flat_map(|line| line.split([';', '|', '&'])) {
            let words = command.split_whitespace().skip_while(|word| *word != "cpushield").skip(1);
            calls.push(words.map(str::to_owned).collect());
        }
    }
    calls
}

/// The words of a call after the options before its subcommand.
fn without_globals(mut call: &[String]) -> &[String] {
    while let Some((option, rest)) = call.split_first().filter(|(word, _)| word.starts_with('-')) {
        let has_value = ["--root", "--state", "--log"].contains(&option.as_str());
        call = if has_value { rest.get(1..).unwrap_or_default() } else { rest };
    }
    call
}

fn is_call_of(call: &[String], path: &[&str]) -> bool {
    let words = without_globals(call).iter().take(path.len());
    words.map(String::as_str).eq(path.iter().copied())
}

/// The flags of a subcommand and of those below it that no call has.
fn unused_flags(command: &clap::Command, path: &[&str], calls: &[Vec<String>]) -> Vec<String> {
    let mut unused = Vec::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = [path, &[sub.get_name()]].concat();
        unused.extend(unused_flags(sub, &path, calls));
    }
    let is_of = |call: &&Vec<String>| is_call_of(call, path);
    let own: Vec<&Vec<String>> = calls.iter().filter(is_of).collect();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(long) = arg.get_long().map(|long| format!("--{long}")) else { continue };
        let short = arg.get_short().map(|short| format!("-{short}"));
        let is_it = |word: &String| {
            *word == long || word.starts_with(&format!("{long}=")) || Some(word) == short.as_ref()
        };
        if !own.iter().any(|call| call.iter().any(is_it)) {
            unused.push(format!("{} {long}", path.join(" ")));
        }
    }
    unused
}

#[test]
fn every_flag_is_in_a_snapshot() {
    let command = cpushield::cli::command();
    let calls = calls();
    assert_eq!(unused_flags(&command, &[], &calls), [""; 0]);
    // Control: without the calls of `undo`, its flags are unused.
    let others: Vec<_> = calls.into_iter().filter(|call| !call.contains(&"undo".into())).collect();
    assert!(unused_flags(&command, &[], &others).contains(&"undo --forget".to_owned()));
    // A call of `boot plan` is none of `plan`, and options before the subcommand do not hide it.
    let call = ["--root", "plan", "boot", "plan", "--count"].map(str::to_owned).to_vec();
    assert!(is_call_of(&call, &["boot", "plan"]));
    assert!(!is_call_of(&call, &["plan"]));
}
