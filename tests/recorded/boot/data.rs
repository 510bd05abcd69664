//! Every real loader file below `../shared/data/boot`, read in place: it is written and restored
//! byte for byte, or it is refused and nothing is written.

use super::grub::Machine;
use super::make_plan;
use cpushield::boot::grub::env;
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{BootError, loaders};
use cpushield::policy::ShieldRequest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Prints a real `grub.cfg` as the distribution's own script does, with the words of
/// `GRUB_CMDLINE_LINUX` in each command line.
const TEN_LINUX: &str = r#"#!/bin/sh
if [ -n "$GRUB_CMDLINE_LINUX" ]; then
    sed "s|^\([[:space:]]*linux[a-z0-9]*[[:space:]]*[^[:space:]]*\)|\1 $GRUB_CMDLINE_LINUX|" "$ROOT/real.cfg"
else
    cat "$ROOT/real.cfg"
fi
"#;

fn request_all_kernels() -> BootRequest {
    let wish = ShieldRequest { cpus: Some("2-3".parse().unwrap()), ..ShieldRequest::default() };
    BootRequest { shield: wish, kernels: Some("*".to_owned()), ..BootRequest::default() }
}

const WORDS: &str = "nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1";

/// The result for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FileResult {
    Written,
    Refused,
    Instructions,
}

/// The path of a file of this kind on a machine; `None` for texts that are not loader files.
fn find_place(path: &Path, text: &str) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    let is = |what: &str| text.lines().any(|line| line.trim_start().starts_with(what));
    Some(match name {
        _ if is("menuentry ") => "boot/grub2/grub.cfg",
        _ if is("blscfg") || is("insmod blscfg") => "boot/grub2/grub.cfg",
        _ if is("options ") && is("linux ") => "boot/loader/entries/m-1.conf",
        _ if is("label ") && (is("append ") || is("\tappend")) => "boot/extlinux/extlinux.conf",
        _ if is("title ") && is("kernel ") => "boot/grub/menu.lst",
        _ if name.ends_with("cmdline.txt") => "boot/firmware/cmdline.txt",
        _ if name.starts_with("lilo") || name.starts_with('l') => "etc/lilo.conf",
        _ if name.starts_with("elilo") || name.starts_with('e') => "etc/elilo.conf",
        _ if name.starts_with("yaboot") || name.starts_with('y') => "etc/yaboot.conf",
        _ if name.starts_with('z') => "etc/zipl.conf",
        _ => return None,
    })
}

fn make_machine(at: &str, text: &str) -> Machine {
    let machine = Machine::without_loader();
    match at {
        "boot/grub2/grub.cfg" => {
            machine.write("real.cfg", text);
            machine.write("etc/default/grub", "");
            machine.write("etc/grub.d/10_linux", TEN_LINUX);
            machine.program("etc/grub.d/10_linux");
            machine.write("etc/grub.d/10_linux", TEN_LINUX);
            machine.update_grub_at(at);
        }
        "boot/firmware/cmdline.txt" => {
            machine.write("boot/firmware/config.txt", "arm_64bit=1\n");
            machine.write(at, text);
        }
        _ => machine.write(at, text),
    }
    machine
}

/// Writes the words, checks every entry, and undoes it.
fn round_trip(name: &str, machine: &Machine) -> FileResult {
    let before = machine.files();
    let plan = match make_plan(&machine.host(), &request_all_kernels()) {
        // A vendor's kernel before 4.8 without its configuration: written on request only.
        Ok(plan) if plan.parameters.is_empty() && plan.loader.is_some() => {
            let mut request = request_all_kernels();
            request.shield.tunables.set("irqaffinity", true);
            make_plan(&machine.host(), &request).unwrap()
        }
        Ok(plan) => plan,
        Err(error) => {
            let expected =
                matches!(error, BootError::Unparsable { .. } | BootError::NoKernel { .. });
            assert!(expected, "{name}: {error}");
            assert_eq!(before, machine.files(), "{name}");
            return FileResult::Refused;
        }
    };
    let (host, store) = (machine.host(), machine.store());
    let result = match write::write(&host, &store, &plan, &WriteMode::default()) {
        Ok(written) => {
            // Kernels before 3.8 and 3.10 do not know all of them.
            let words = written.words.join(" ");
            assert!(!words.is_empty() && WORDS.ends_with(&words), "{name}: {words}");
            let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
            for version in &written.kernels {
                let with =
                    |it: &&loaders::LoaderEntry| it.version == *version && it.args.contains(&words);
                assert!(found.entries.iter().any(|it| with(&it)), "{name}: {version}");
            }
            for entry in &found.entries {
                let is_rescue = entry.version.contains("rescue")
                    || entry.args.split(' ').any(|word| word == "single");
                assert!(!is_rescue || !entry.args.contains(WORDS), "{name}: {entry:#?}");
                // No entry for normal work is left out.
                assert!(entry.purpose.is_none() || is_rescue, "{name}: {entry:#?}");
            }
            // The shown change is what was written.
            for change in &plan.entries {
                let line = format!("{} {}", change.added.join(" "), change.kept);
                let is_new = |it: &&loaders::LoaderEntry| {
                    it.version == change.version && it.args == line.trim()
                };
                assert!(found.entries.iter().any(|it| is_new(&it)), "{name}: {change:#?}");
            }
            FileResult::Written
        }
        Err(BootError::ByHand { instructions, .. }) => {
            // Kernels before 3.8, 3.10 and 4.8 do not know all of them.
            let known = [
                "supports none of the parameters",
                "isolcpus=2-3",
                "rcu_nocbs=2-3 isolcpus=2-3",
                "irqaffinity=0-1",
                WORDS,
            ];
            let given = |line: &String| known.iter().any(|words| line.contains(words));
            assert!(instructions.iter().any(given), "{name}: {instructions:#?}");
            FileResult::Instructions
        }
        Err(error) => panic!("{name}: {error}"),
    };
    write::undo(&machine.host(), &store).unwrap();
    assert_eq!(before, machine.files(), "{name}");
    result
}

fn collect_files(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect_files(&path, files) } else { files.push(path) }
    }
}

#[test]
fn every_real_loader_file_is_restored_byte_for_byte_or_refused_unchanged() {
    let Some(dir) = super::others::find_boot_data() else { return };
    let mut files = Vec::new();
    collect_files(&dir, &mut files);
    files.sort();
    let mut results: BTreeMap<(&str, FileResult), usize> = BTreeMap::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let Some(at) = find_place(file, &text) else { continue };
        let name = file.strip_prefix(&dir).unwrap().display().to_string();
        *results.entry((at, round_trip(&name, &make_machine(at, &text)))).or_default() += 1;
    }
    println!("{results:#?}");
    let count = |at, fate| results.get(&(at, fate)).copied().unwrap_or(0);
    assert!(count("boot/grub2/grub.cfg", FileResult::Written) >= 30, "{results:#?}");
    assert!(count("boot/loader/entries/m-1.conf", FileResult::Written) >= 3, "{results:#?}");
    assert!(count("boot/extlinux/extlinux.conf", FileResult::Written) >= 10, "{results:#?}");
    assert_eq!(count("boot/firmware/cmdline.txt", FileResult::Written), 1, "{results:#?}");
    assert!(count("boot/grub/menu.lst", FileResult::Instructions) >= 40, "{results:#?}");
    for old in ["etc/lilo.conf", "etc/elilo.conf", "etc/yaboot.conf", "etc/zipl.conf"] {
        assert_eq!(count(old, FileResult::Written), 0, "{results:#?}");
    }
}

/// The environment block is made from the output of `grub2-editenv list`.
#[test]
fn real_environment_blocks_are_parsed_and_parameters_of_tuned_count() {
    let Some(dir) = super::others::find_boot_data() else { return };
    let mut read = 0;
    for name in ["env-GRUBENV_WITH_TUNED_PARAMS", "env-GRUBENV_WITHOUT_TUNED_PARAMS"] {
        let listed = std::fs::read_to_string(dir.join(format!("insights/{name}.txt"))).unwrap();
        let block =
            format!("{:#<1024}", format!("# GRUB Environment Block\n{}", listed.trim_start()));
        let known = env::parse(block.as_bytes()).unwrap();
        for line in listed.lines().filter(|line| line.contains('=')) {
            let (name, value) = line.split_once('=').unwrap();
            assert!(known.contains(&(name.to_owned(), value.to_owned())), "{line}");
            read += 1;
        }
        let machine = Machine::without_loader();
        let entry = dir.join("insights/comb-BOOT_LOADER_ENTRIES_3.txt");
        let entry = std::fs::read_to_string(entry).unwrap();
        machine.write("boot/loader/entries/m-1.conf", &entry);
        machine.write("boot/grub2/grub.cfg", "blscfg\n");
        machine.write("boot/grub2/grubenv", &block);
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        let args = &found.entries[0].args;
        assert!(args.starts_with("root=/dev/mapper/root_vg-lv_root ro"), "{args}");
        assert_eq!(args.contains("transparent_hugepages=never"), name.contains("WITH_"), "{args}");
    }
    assert!(read > 8, "{read}");
}

/// Command lines of machines that were recorded, and of the boot entries below `boot/`, with CPUs
/// for the widest list on them. Every finding was judged: the expected ones are true.
#[test]
fn real_command_lines_have_no_findings_but_true_ones() {
    let Some(boot) = super::others::find_boot_data() else { return };
    let data = boot.parent().unwrap();
    let table = std::fs::read_to_string(data.join("interrupts/kernel-cmdlines.tsv")).unwrap();
    let rows = table.lines().skip(1).filter_map(|row| row.rsplit('\t').next());
    let mut lines: Vec<String> = rows.map(str::to_owned).collect();
    let (mut recorded, mut loaders) = (Vec::new(), Vec::new());
    collect_files(&data.join("interrupts"), &mut recorded);
    collect_files(&boot, &mut loaders);
    for file in recorded {
        let name = file.file_name().unwrap().to_string_lossy().to_lowercase();
        if name.ends_with("cmdline") {
            lines.push(std::fs::read_to_string(&file).unwrap());
        }
    }
    for file in loaders {
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        lines.extend(text.lines().filter_map(entry_arguments));
        if file.ends_with("pi-gen-cmdline.txt") {
            lines.push(text);
        }
    }
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for line in &lines {
        let mut machine = cpushield::survey::Machine::default();
        machine.kernel.cmdline = Some(line.clone());
        machine.topology.possible = "0-127".parse().unwrap();
        for finding in cpushield::boot::lint::lint(&machine, &[]) {
            *found.entry(finding.to_string()).or_default() += 1;
        }
    }
    eprintln!("{} command lines, findings: {found:#?}", lines.len());
    assert!(lines.len() > 250, "{}", lines.len());
    let expected = [("skew_tick=1 is on the command line more than once".to_owned(), 1)];
    assert_eq!(found, BTreeMap::from(expected));
}

/// The arguments of a kernel in a line of a loader's file.
fn entry_arguments(line: &str) -> Option<String> {
    let (word, rest) = line.trim().split_once(char::is_whitespace)?;
    let kernel = ["linux", "linux16", "linuxefi", "kernel"].contains(&word);
    let arguments = ["options", "append"].contains(&word.to_ascii_lowercase().as_str());
    match (kernel, arguments) {
        (true, _) => rest.trim().split_once(char::is_whitespace).map(|(_, rest)| rest.to_owned()),
        (_, true) => Some(rest.to_owned()),
        _ => None,
    }
}
