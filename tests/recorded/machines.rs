//! Foreign machines and the project's own: the survey is compared with independent facts.

use crate::files::files_below;
use crate::recordings::{self, data, expect, machine, own, unpacked};
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::machine::blocks;
use cpushield::survey::{Cpu, Machine, Node, survey};
use cpushield::tunables;
use cpushield_linux::recording::redaction::{HIDDEN, KNOWN_PROGRAMS, without_private};
use cpushield_linux::text::interrupts;
use cpushield_linux::{CpuSet, Host};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn index(data: &Path) -> Vec<BTreeMap<String, String>> {
    table(&data.join("machines/index.csv"))
}

/// Rows of a table with commas, by column name. Fields with commas are quoted.
fn table(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(fields);
    let header = lines.next().unwrap();
    lines.map(|row| header.iter().cloned().zip(row).collect()).collect()
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

/// A way to divide the CPUs; groups of unknown CPUs are left out.
type Division = BTreeSet<CpuSet>;

fn division(machine: &Machine, of: impl Fn(&Cpu) -> Option<&CpuSet>) -> Division {
    machine.topology.groups(of).into_iter().cloned().collect()
}

/// The survey's answer, by the name of the division.
fn ours(machine: &Machine) -> BTreeMap<&'static str, Division> {
    let set = |cpu: &CpuSet| (!cpu.is_empty()).then(|| cpu.clone());
    let nodes = machine.topology.nodes.iter().filter_map(|node| set(&node.cpus)).collect();
    BTreeMap::from([
        ("node", nodes),
        ("package", division(machine, |cpu| Some(&cpu.package_cpus))),
        ("core", division(machine, |cpu| Some(&cpu.siblings))),
        ("L2", division(machine, |cpu| cpu.sharing(2))),
        ("L3", division(machine, |cpu| cpu.sharing(3))),
    ])
}

/// The per-CPU table at the end of the generated output of lscpu: a division for each column.
fn lscpu(text: &str) -> BTreeMap<&'static str, Division> {
    let mut rows = text.lines().skip_while(|line| !line.starts_with("CPU ONLINE ")).peekable();
    let Some(header) = rows.next() else { return BTreeMap::new() };
    let caches: Vec<&str> = header.split_whitespace().last().unwrap().split(':').collect();
    let mut groups: BTreeMap<(&'static str, String), CpuSet> = BTreeMap::new();
    for row in rows {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [cpu, "yes", node, socket, core, shared] = words[..] else { continue };
        let cpu: usize = cpu.parse().unwrap();
        let mut put = |name: &'static str, value: &str| {
            if value != "-" {
                groups.entry((name, value.to_owned())).or_default().insert(cpu);
            }
        };
        put("node", node);
        put("package", socket);
        put("core", core);
        // A row with other columns than the header is ambiguous.
        let shared: Vec<&str> = shared.split(':').collect();
        for (name, value) in caches.iter().zip(&shared).filter(|_| caches.len() == shared.len()) {
            match *name {
                "L2" | "L2d" => put("L2", value),
                "L3" => put("L3", value),
                _ => {}
            }
        }
    }
    by_name(groups)
}

fn by_name(groups: BTreeMap<(&'static str, String), CpuSet>) -> BTreeMap<&'static str, Division> {
    let mut divisions: BTreeMap<&'static str, Division> = BTreeMap::new();
    for ((name, _), set) in groups {
        divisions.entry(name).or_default().insert(set);
    }
    divisions
}

/// The tree of the generated output of lstopo: objects contain the CPUs below them; a memory node
/// belongs to the object it hangs on.
fn lstopo(text: &str) -> BTreeMap<&'static str, Division> {
    let mut groups: BTreeMap<(&'static str, String), CpuSet> = BTreeMap::new();
    // Open objects: depth, and the groups that a CPU below belongs to.
    let mut open: Vec<(usize, Vec<(&'static str, String)>)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let depth = line.len() - line.trim_start().len();
        let word = line.split_whitespace().next().unwrap_or("");
        if word == "depth" {
            break;
        }
        open.retain(|(above, _)| *above < depth);
        let name = match word {
            "Package" => "package",
            "L3Cache" => "L3",
            "L2Cache" => "L2",
            "Core" => "core",
            "NUMANode" => {
                // Its CPUs are those of the object above, also those printed later.
                let above = open.last_mut().unwrap();
                above.1.push(("node", i.to_string()));
                continue;
            }
            "PU" => {
                let cpu = line.split("P#").nth(1).unwrap().trim_end_matches(')');
                let cpu = cpu.split([' ', ')']).next().unwrap().parse().unwrap();
                for group in open.iter().flat_map(|(_, groups)| groups) {
                    groups.entry(group.clone()).or_default().insert(cpu);
                }
                continue;
            }
            _ => "",
        };
        let own = if name.is_empty() { vec![] } else { vec![(name, i.to_string())] };
        open.push((depth, own));
    }
    by_name(groups)
}

/// Every pair of divisions, survey and reference, that differs.
fn disagreements(
    name: &str,
    tool: &str,
    ours: &BTreeMap<&'static str, Division>,
    theirs: &BTreeMap<&'static str, Division>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (what, theirs) in theirs {
        // A tool leaves out CPUs with too few facts (offline, no directory).
        let known: CpuSet = theirs.iter().collect();
        let ours: Division = ours[what].iter().map(|set| set.intersection(&known)).collect();
        let ours: Division = ours.into_iter().filter(|set| !set.is_empty()).collect();
        // lstopo gives a machine without NUMA one node with everything.
        let invented = *what == "node" && ours.is_empty() && theirs.len() == 1;
        if ours != *theirs && !invented {
            let list = |d: &Division| {
                let sets: Vec<String> = d.iter().map(ToString::to_string).collect();
                format!("{} [{}]", d.len(), sets.join(" "))
            };
            found.push(format!("{name} {what}: {tool} {}; ours {}", list(theirs), list(&ours)));
        }
    }
    found
}

/// Differences between the survey and a reference, and why the survey is right.
const DISAGREEMENTS: &[(&str, &str)] = &[
    ("hwloc-16ia64-8n2s sockets: index", "both sockets of a node have one number; masks differ"),
    ("hwloc-28em64t-2s2n7c-buggycoresiblings sockets: index", "it counts numbers, lscpu masks"),
    ("hwloc-64amd64-4s2n4ca2co core: lstopo", "it splits AMD's modules, the kernel pairs them"),
    ("hwloc-8ia64-2n2s2c l3_groups: index", "lstopo finds 8 too"),
    ("hwloc-nvidia-dgx-gb10 core: lscpu", "core numbers come again in each cluster"),
    ("hwloc-fakeheterocpunuma node: lstopo", "it hangs a node without CPUs on those nearest"),
    ("hwloc-64fake-4n2s2ca2c2t l2_groups: index", "it believes lists, which contradict the masks"),
    ("hwloc-64fake-4n2s2ca2c2t l3_groups: index", "it believes lists, which contradict the masks"),
    ("libvirt-ppc64-deconf-cpus offline: index", "it counts CPUs that are not plugged in"),
    ("android-galaxy-a8-2018 core: lscpu", "core numbers come again in each cluster"),
    ("android-galaxy-a8-2018 package: lscpu", "the index finds 2 packages too"),
    ("android-galaxy-s9-us core: lscpu", "core numbers come again in each cluster"),
    ("android-galaxy-s9-us package: lscpu", "the index finds 2 packages too"),
    ("android-nexus-s smt: index", "0 stands for unknown; a CPU alone is a core"),
    ("android-oneplus-5 core: lscpu", "core numbers come again in each cluster"),
    ("android-oneplus-5 package: lscpu", "the index finds 2 packages too"),
    ("android-pixel core: lscpu", "core numbers come again in each cluster"),
    ("android-pixel package: lscpu", "the index finds 2 packages too"),
];

#[test]
fn topology_agrees_with_lscpu_and_lstopo() {
    let Some(data) = data() else { return };
    let mut found = Vec::new();
    for row in index(&data) {
        let name = &row["name"];
        let machine = machine(&data, name);
        let ours = ours(&machine);
        let truth = data.join("machines").join(name).join("truth");
        if let Ok(text) = fs::read_to_string(truth.join("generated-lscpu-2.38.1.txt")) {
            found.extend(disagreements(name, "lscpu", &ours, &lscpu(&text)));
        }
        if let Ok(text) = fs::read_to_string(truth.join("generated-lstopo-2.9.0.txt")) {
            found.extend(disagreements(name, "lstopo", &ours, &lstopo(&text)));
        }
        let online = machine.topology.online.to_string();
        if online != row["cpus_online"] {
            found.push(format!("{name} online: index {}, ours {online}", row["cpus_online"]));
        }
        let offline = machine.topology.offline.to_string();
        if offline != row["cpus_offline"] {
            found.push(format!("{name} offline: index {}, ours {offline}", row["cpus_offline"]));
        }
        let empty = |nodes: &[Node]| nodes.iter().filter(|node| node.cpus.is_empty()).count();
        let threads = machine.topology.cpus.iter().map(|cpu| cpu.siblings.len()).max();
        for (column, count) in [
            ("numa_nodes", machine.topology.nodes.len()),
            ("numa_nodes_without_cpu", empty(&machine.topology.nodes)),
            ("smt", threads.unwrap_or(0)),
            ("sockets", ours["package"].len()),
            ("l2_groups", ours["L2"].len()),
            ("l3_groups", ours["L3"].len()),
        ] {
            if row[column] != count.to_string() {
                found.push(format!("{name} {column}: index {}, ours {count}", row[column]));
            }
        }
        let hybrid = machine.topology.cpus.iter().any(|cpu| cpu.kind.is_some());
        if hybrid == row["hybrid"].starts_with("no") {
            found.push(format!("{name} hybrid: index {}, ours {hybrid}", row["hybrid"]));
        }
    }
    let known = |found: &str| DISAGREEMENTS.iter().position(|(start, _)| found.starts_with(start));
    let used: BTreeSet<usize> = found.iter().filter_map(|line| known(line)).collect();
    for (i, (start, _)) in DISAGREEMENTS.iter().enumerate().filter(|(i, _)| !used.contains(i)) {
        found.push(format!("disagreement {i} is none: {start}"));
    }
    found.retain(|line| known(line).is_none());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn recorded_machines_are_surveyed_as_expected() {
    for (name, dir) in own() {
        assert!(dir.join("note.md").is_file(), "{name} has no note");
        let machine = survey(&Host::recorded(&dir.join("root")).unwrap(), &tunables::reads());
        expect(&dir.join("survey.txt"), &terminal_blocks(&blocks(&machine, &[]), 120, &unpainted));
    }
}

#[test]
fn recordings_contain_no_private_data() {
    let mut seen = 0;
    for (_, dir) in own() {
        let root = dir.join("root");
        for path in files(&root) {
            let kernel = format!("/{}", path.strip_prefix(&root).unwrap().display());
            let bytes = fs::read(&path).unwrap();
            assert!(without_private(&kernel, &bytes) == bytes, "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 1000, "{seen} files");
}

/// What a recording may change: names of user tasks, parts of the command line, and the text of
/// paths that are not kept.
fn as_recorded(mut machine: Machine) -> Machine {
    machine.own_processes.clear();
    for placed in machine.tasks.iter_mut().filter(|placed| !placed.task.kthread) {
        if !KNOWN_PROGRAMS.contains(&placed.task.comm.as_str()) {
            placed.task.comm = HIDDEN.to_owned();
        }
    }
    if let Some(cmdline) = &machine.kernel.cmdline {
        let kept = without_private("/proc/cmdline", cmdline.as_bytes());
        machine.kernel.cmdline = Some(String::from_utf8(kept).unwrap().trim_end().to_owned());
    }
    machine
}

/// A new directory for one recording.
fn fresh(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings").join(name);
    let _ = fs::remove_dir_all(&dir);
    dir
}

/// Surveys a host while recording it, and the recording; both must be the same machine.
fn assert_recording_is_the_machine(name: &str, host: Host) {
    let dir = fresh(name);
    let wanted = ["/proc/sys/vm/stat_interval", "/sys/class/net/*/queues/*/rps_cpus", "/nowhere"];
    let host = host.recording(&dir).unwrap();
    let mut seen = as_recorded(survey(&host, &wanted));
    assert_eq!(host.recording_failure(), None, "{name}");
    let mut again = survey(&Host::recorded(&dir).unwrap(), &wanted);
    // A program of a live machine may fall asleep between two reads of its file.
    for placed in seen.tasks.iter_mut().chain(&mut again.tasks).filter(|_| name == "live") {
        placed.task.state = '?';
    }
    // As JSON, so that a difference can be found in the message.
    let json = |machine: &Machine| serde_json::to_string_pretty(machine).unwrap();
    let read: Machine = serde_json::from_str(&json(&seen)).unwrap();
    assert!(read == seen, "{name}: JSON does not give the document back");
    assert!(seen == again, "{name}:\n{}\n--- recorded:\n{}", json(&seen), json(&again));
}

#[test]
fn a_recording_yields_the_machine_it_was_taken_from() {
    assert_recording_is_the_machine("live", Host::live());
    let Some(data) = data() else { return };
    for name in ["hwloc-20em64t-hybrid-1p6c2t+2ca4co1t", "ghw-linux-amd64-accel", "nri-server"] {
        assert_recording_is_the_machine(name, Host::recorded(&unpacked(&data, name)).unwrap());
    }
}

/// Rows of a table with tabs, without its header.
fn tsv(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn lists_and_masks_from_kernels_agree() {
    let Some(data) = data() else { return };
    let pairs = tsv(&data.join("interrupts/cpulist-cpumask-pairs.tsv"));
    assert!(pairs.len() > 800, "{} pairs", pairs.len());
    // The lists of this machine are made up.
    for row in pairs.iter().filter(|row| !row[3].starts_with("hwloc-64fake")) {
        let list: CpuSet = row[0].parse().unwrap();
        let mask = CpuSet::parse_mask(&row[1]).unwrap();
        assert_eq!((&list, list.len().to_string()), (&mask, row[2].clone()), "{row:?}");
        assert_eq!(list.to_string(), row[0], "{row:?}");
    }
    for row in tsv(&data.join("interrupts/cpulist-cpumask-disagree.tsv")) {
        let list: CpuSet = row[0].parse().unwrap();
        assert_ne!(list, CpuSet::parse_mask(&row[1]).unwrap(), "{row:?}");
    }
    for row in tsv(&data.join("interrupts/cpu-global-lists.tsv")) {
        let text = row[1].trim_matches('\'').replace("\\n", "\n");
        let list = text.parse::<CpuSet>();
        // `nohz_full` of a kernel that supports it but was booted without it.
        assert_eq!(list.is_err(), text.trim() == "(null)", "{row:?}");
        if let Ok(list) = list {
            assert_eq!(list.to_string(), text.trim(), "{row:?}");
        }
    }
}

#[test]
fn foreign_interrupt_tables_are_read_completely() {
    let Some(data) = data() else { return };
    let dir = data.join("interrupts");
    let mut read = 0;
    for row in table(&dir.join("index.csv")).iter().filter(|row| row["path"].contains("interrupt"))
    {
        let text = fs::read_to_string(dir.join(&row["path"])).unwrap();
        // Some were kept in strings that begin with a line end.
        let parsed = interrupts::parse(text.trim_start_matches('\n'));
        if row["header_cpus"] == "0" {
            assert!(parsed.is_err(), "{}", row["path"]);
            continue;
        }
        let found = parsed.unwrap();
        let lines = found.rows.iter().filter(|row| row.irq().is_some());
        let chips: BTreeSet<&str> = lines.clone().map(|row| row.chip.as_str()).collect();
        let wanted: BTreeSet<&str> = row["chips"].split_whitespace().collect();
        let named = found.rows.len() - lines.count();
        assert_eq!(
            [found.cpus.len(), found.rows.len(), named].map(|n| n.to_string()),
            [&row["header_cpus"], &row["rows"], &row["named_rows"]].map(String::clone),
            "{}",
            row["path"]
        );
        // The index names the first twelve.
        let chips: BTreeSet<&str> = chips.into_iter().take(wanted.len().max(12)).collect();
        assert_eq!(chips, wanted, "{}", row["path"]);
        read += 1;
    }
    assert!(read >= 10, "{read} tables");
}

/// The files of a recording, each once: without links.
fn files(root: &Path) -> impl Iterator<Item = PathBuf> {
    files_below(root).into_iter().filter(|path| !path.is_symlink())
}

/// Files by their path without numbers, so that one of a kind stands for all.
fn by_shape(root: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut shapes: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in files(root) {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let mut shape = name.replace(|c: char| c.is_ascii_digit(), "#");
        while shape.contains("##") {
            shape = shape.replace("##", "#");
        }
        shapes.entry(shape).or_default().push(path);
    }
    shapes
}

/// Files with arbitrary text. And files of older recordings that are no longer read, because
/// another file has the same facts or nothing needs them.
const OPAQUE: &[&str] = &[
    ".dockerenv",
    ".gitkeep",
    "arch",
    "available_clocksource",
    "boot_id",
    "cluster_cpus",
    "cluster_id",
    "cmdline",
    "control",
    "core_id",
    "cpuinfo",
    "cpuset.cpus",
    "current_clocksource",
    "current_driver",
    "die_cpus",
    "die_id",
    "filesystems",
    "msi_irqs/#",
    "name",
    "osrelease",
    "parameters/policy",
    "smp_affinity",
    "smp_affinity_list",
    "tasks",
    "type",
    "version",
];

#[test]
fn a_recording_keeps_facts_that_only_directories_and_links_show() {
    let dir = fresh("bare");
    let sys = dir.join("sys/devices/system");
    for cpu in ["cpu0", "cpu1"] {
        fs::create_dir_all(sys.join("cpu").join(cpu)).unwrap();
    }
    fs::create_dir_all(sys.join("node/node0")).unwrap();
    fs::create_dir_all(sys.join("node/node1")).unwrap();
    for (node, cpu) in [("node0", "cpu0"), ("node1", "cpu1")] {
        let link = sys.join("node").join(node).join(cpu);
        std::os::unix::fs::symlink(format!("../../cpu/{cpu}"), link).unwrap();
    }
    fs::create_dir_all(dir.join("proc")).unwrap();
    let model = "system type : generic\n\nprocessor : 0\nModel Name : Loongson-3A5000-HV\n";
    fs::write(dir.join("proc/cpuinfo"), model).unwrap();
    let machine = survey(&Host::recorded(&dir).unwrap(), &[]);
    assert_eq!(machine.topology.online.to_string(), "0-1");
    let nodes: Vec<String> = machine.topology.nodes.iter().map(|it| it.cpus.to_string()).collect();
    assert_eq!(nodes, ["0", "1"]);
    assert_eq!(machine.topology.model.as_deref(), Some("Loongson-3A5000-HV"));
    assert_recording_is_the_machine("bare-again", Host::recorded(&dir).unwrap());
}

#[test]
fn damaged_files_become_notes_and_never_failures() {
    let root = recordings::root("6.18-hybrid");
    let dir = fresh("damaged");
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    assert!(Command::new("cp").arg("-a").arg(&root).arg(&dir).status().unwrap().success());
    let notes = || survey(&Host::recorded(&dir).unwrap(), &[]).notes.len();
    let whole = notes();
    let settings = survey(&Host::recorded(&dir).unwrap(), &tunables::reads()).settings;
    let mut silent = Vec::new();
    for (shape, files) in by_shape(&dir) {
        let opaque = OPAQUE.iter().any(|end| shape.ends_with(end));
        let setting = files.iter().any(|file| {
            let path = file.strip_prefix(&dir).unwrap().display().to_string();
            settings.contains_key(&format!("/{path}")) || shape.ends_with("/rps_cpus")
        });
        let kept: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        for garbage in [&b""[..], b"99999999999999999999\n", b"\xff(7-"] {
            for file in &files {
                fs::write(file, garbage).unwrap();
            }
            // A recording whose own list of errors is damaged is refused as a whole.
            if shape == "errors.tsv" {
                assert_eq!(Host::recorded(&dir).is_err(), !garbage.is_empty());
                continue;
            }
            let noted = notes() > whole;
            if garbage.starts_with(b"\xff") && !noted && !opaque && !setting {
                silent.push(shape.clone());
            }
        }
        for (file, bytes) in files.iter().zip(kept) {
            fs::write(file, bytes).unwrap();
        }
    }
    assert_eq!(silent, Vec::<String>::new());
}
