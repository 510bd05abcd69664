//! `extlinux.conf`: EXTLINUX itself, and U-Boot, which reads the same file. Each label has a kernel
//! and a line `append`; the words go in front of its value. A trial, and entries that leave the
//! default alone, get separate labels at the end.
//!
//! Where all kernels have the same file name (`LINUX /boot/Image` of NVIDIA's Jetson), the version
//! comes from the kernel's bytes. When they have none, the user gets manual steps.
//!
//! EXTLINUX can boot a label once (`extlinux --once`, kept in `ldlinux.sys` next to the file).
//! U-Boot cannot: it uses `default` each time and writes nothing back (boot/pxe_utils.c, v2025.01).

use super::boot_loader::{
    BootFilePlan, BootLoader, EntryFiles, EntryPosition, FoundLoader, LoaderPageRow,
    ParameterAssignment,
};
use super::cmdline_files::{
    CmdlineFileFault, CmdlineFileLoader, CmdlinePart, add_words, edit_file, numbered_lines,
    split_key, unparsable,
};
use super::extlinux_adv;
use crate::boot::error::BootError;
use crate::boot::grub::menu::version_of;
use crate::boot::{kernel_file, line};
use crate::documents::boot::{BootWarning, NextReason};
use cpushield_linux::Host;

pub(super) const FILES: &[&str] = &[
    "/boot/extlinux/extlinux.conf",
    "/boot/firmware/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
];

/// The prefix of the names of our labels.
const OURS: &str = "cpushield-";
/// Our labels are between lines.
struct LabelSection {
    begin: &'static str,
    end: &'static str,
    /// The prefix of the names of the labels, which begins with [`OURS`].
    prefix: &'static str,
    /// What follows in the menu.
    title: &'static str,
}

const LABELS: LabelSection = LabelSection {
    begin: "# Made by cpushield; `cpushield boot undo` removes it.\n",
    end: "# The end of what cpushield made.\n",
    prefix: OURS,
    title: "cpushield",
};

/// A trial.
const TRIAL: LabelSection = LabelSection {
    begin: "# Made by cpushield for a trial; `cpushield boot undo` removes it.\n",
    end: "# The end of the trial of cpushield.\n",
    prefix: "cpushield-trial-",
    title: "cpushield trial",
};

/// The keywords that cpushield's label copies from the original (not `menu label`). `overlays` is
/// of NVIDIA's L4TLauncher; jetson-io.py writes it into its label `JetsonIO`.
const COPIED: &str = "kernel linux initrd append fdt fdtdir devicetree \
    devicetreedir devicetree-overlay fdtoverlays overlays kaslrseed ipappend sysappend";

pub(super) static LINES: CmdlineFileLoader = CmdlineFileLoader {
    name: "extlinux",
    files: list_files,
    parse,
    id: |_, part| Some(part.title.clone()),
    version: |host, path, part| kernel_file::find_release(host, path, &part.files.as_ref()?.kernel),
    any_kernel: false,
    without_copies: without_ours,
    menu: "press a key on the serial console or keyboard while the loader counts down",
};

fn list_files(host: &Host) -> Vec<String> {
    FILES.iter().find(|path| host.exists(path)).map(|path| (*path).to_owned()).into_iter().collect()
}

#[derive(Debug)]
pub(super) struct ExtlinuxLoader;

impl BootLoader for ExtlinuxLoader {
    fn name(&self) -> &'static str {
        LINES.name
    }

    fn page_rows(&self) -> &'static [LoaderPageRow] {
        &[
            LoaderPageRow {
                loader: "EXTLINUX",
                files: "`extlinux.conf`; a label `cpushield-trial-*` at its end for a trial",
                trial: "`extlinux --once`, stored in `ldlinux.sys`",
                later: "do not get them: run `boot undo`, then `boot apply`",
            },
            LoaderPageRow {
                loader: "U-Boot",
                files: "the same",
                trial: "not possible: U-Boot always boots `default` and writes nothing back; use \
                   `--trial --kexec`, or `--keep-default` and the menu",
                later: "the same",
            },
        ]
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        let Some(mut found) = LINES.find(host)? else { return Ok(None) };
        for entry in &mut found.entries {
            entry.ours = entry.id.as_deref().is_some_and(|id| id.starts_with(OURS));
        }
        let text = list_files(host).first().map(|path| host.read(path)).transpose()?;
        let (label, why) = match read_armed(host) {
            Some(label) => {
                (Some(label), NextReason::ForOneBoot { setting: "boot-once of ldlinux.sys" })
            }
            None => find_default(&text.unwrap_or_default()),
        };
        found.next = match &label {
            Some(label) => found.entries.iter().position(|it| it.id.as_ref() == Some(label)),
            None => (!found.entries.is_empty()).then_some(0),
        };
        if let (Some(label), None) = (label, found.next) {
            found.warnings.push(BootWarning::NoSuchLabel { setting: why.to_string(), label });
        }
        found.why = why;
        Ok(Some(found))
    }

    fn plan_files(
        &self,
        host: &Host,
        assignment: &ParameterAssignment,
    ) -> Result<BootFilePlan, BootError> {
        let mut plan = BootFilePlan::default();
        for path in list_files(host) {
            let (now, _) = LINES.read(host, &path)?;
            let (old, _) = LINES.read_before(host, &path, assignment.earlier)?;
            let text = without_ours(&old);
            let parts =
                LINES.parse_parts(host, &path, &text).map_err(|fault| unparsable(&path, fault))?;
            let new = match assignment.position {
                EntryPosition::Last => {
                    text.clone() + &make_copies(&text, (&text, &parts), assignment, &LABELS)
                }
                EntryPosition::Trial => {
                    let base = without_section(&now, &TRIAL);
                    let copies = make_copies(&base, (&text, &parts), assignment, &TRIAL);
                    base + &copies
                }
                EntryPosition::First => add_words(&text, parts, assignment),
            };
            if new != now {
                plan.edits.push(edit_file(host, &path, new)?);
            }
        }
        Ok(plan)
    }

    fn boot_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        let Some((dir, vector)) = locate(host) else {
            return Err(BootError::cannot_boot_once(
                "U-Boot always boots the label of `default` and cannot boot another label once",
            ));
        };
        host.run_program(&["extlinux", &format!("--once={entry}"), &dir])?;
        // Checks what the loader will boot, not what was written.
        if host.read_bytes(&vector).ok().and_then(|bytes| extlinux_adv::once(&bytes)).as_deref()
            == Some(entry)
        {
            return Ok(());
        }
        self.cancel_boot_once(host, entry)?;
        Err(BootError::cannot_boot_once(format!(
            "{vector} does not select {entry} for the next boot"
        )))
    }

    fn boot_instructions(&self, host: &Host, entry: &str) -> String {
        let file = list_files(host).into_iter().next().unwrap_or_default();
        let always = format!("always: `default {entry}` in {file}");
        match locate(host) {
            Some((dir, _)) => format!("once: extlinux --once={entry} {dir}; {always}"),
            None => format!("once: choose {entry} in the menu; {always}"),
        }
    }

    fn cancel_boot_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        if let Some((dir, _)) = locate(host).filter(|_| read_armed(host).as_deref() == Some(entry))
        {
            host.run_program(&["extlinux", "--clear-once", &dir])?;
        }
        Ok(())
    }

    fn without_trial(&self, text: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(text) {
            Ok(text) => without_section(text, &TRIAL).into_bytes(),
            Err(_) => text.to_vec(),
        }
    }
}

/// The directory of EXTLINUX, and its file with the label that boots once; `None` when another
/// program reads the labels.
fn locate(host: &Host) -> Option<(String, String)> {
    let file = list_files(host).into_iter().next()?;
    let (dir, _) = file.rsplit_once('/')?;
    let vector = format!("{dir}/ldlinux.sys");
    let installed = host.exists(&vector) && host.program("extlinux").is_some();
    installed.then(|| (dir.to_owned(), vector))
}

/// Reads the label that EXTLINUX boots once.
fn read_armed(host: &Host) -> Option<String> {
    let (_, vector) = locate(host)?;
    // The words after the label are for the kernel.
    let command = extlinux_adv::once(&host.read_bytes(&vector).ok()?)?;
    command.split_whitespace().next().map(str::to_owned)
}

/// The label that boots by default, and why; `None` for the first one.
fn find_default(text: &str) -> (Option<String>, NextReason) {
    let (mut default, mut marked, mut label) = (None, None, None);
    for (begin, _, line) in numbered_lines(text) {
        let (key, range) = split_key(begin, line);
        let value = text.get(range).unwrap_or_default();
        let first = value.split_whitespace().next().unwrap_or_default();
        match key.to_ascii_lowercase().as_str() {
            // Old files name the menu program here.
            "default" if !first.ends_with(".c32") => default = Some(first.to_owned()),
            "label" => label = Some(value.to_owned()),
            "menu" if value.eq_ignore_ascii_case("default") && marked.is_none() => {
                marked.clone_from(&label);
            }
            _ => {}
        }
    }
    match (default, marked) {
        (Some(default), _) => (Some(default), NextReason::configured("default of extlinux.conf")),
        (None, Some(marked)) => {
            (Some(marked), NextReason::configured("menu default of extlinux.conf"))
        }
        (None, None) => (None, NextReason::FirstLabel),
    }
}

/// A text without our labels.
fn without_ours(text: &str) -> String {
    without_section(&without_section(text, &TRIAL), &LABELS)
}

fn without_section(text: &str, section: &LabelSection) -> String {
    let Some(from) = text.find(section.begin) else { return text.to_owned() };
    let Some(length) = text.get(from..).and_then(|rest| rest.find(section.end)) else {
        return text.to_owned();
    };
    let rest = text.get(from + length + section.end.len()..).unwrap_or_default();
    format!("{}{rest}", text.get(..from).unwrap_or_default())
}

/// What follows a text: a label for each chosen kernel of `source`. Of several labels with
/// one kernel, the one that boots by default is copied: others may have another device tree.
fn make_copies(
    text: &str,
    (source, parts): (&str, &[CmdlinePart]),
    assignment: &ParameterAssignment,
    section: &LabelSection,
) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut new = String::new();
    if !text.is_empty() && !text.ends_with('\n') {
        new.push('\n');
    }
    new.push_str(section.begin);
    let (default, _) = find_default(source);
    let mut ordered: Vec<&CmdlinePart> = parts.iter().collect();
    ordered.sort_by_key(|part| default.as_ref() != Some(&part.title));
    for part in ordered {
        let Some(version) = part.version.as_deref() else { continue };
        if let Some(words) = part.words(assignment).filter(|_| !seen.contains(&version)) {
            new.push_str(&copy_label(source, part, words, section));
            seen.push(version);
        }
    }
    new + section.end
}

/// A copy of a label under our name, with the words.
fn copy_label(text: &str, part: &CmdlinePart, words: &[String], section: &LabelSection) -> String {
    let LabelSection { prefix, title, .. } = section;
    let mut copy = String::new();
    let mut is_source = false;
    for (begin, number, line) in numbered_lines(text) {
        let (key, range) = split_key(begin, line);
        let value = text.get(range).unwrap_or_default();
        match key.to_ascii_lowercase().as_str() {
            "label" => {
                is_source = value == part.title;
                if is_source {
                    copy.push_str(&format!("label {prefix}{value}\n"));
                    copy.push_str(&format!("\tmenu label {value} ({title})\n"));
                }
            }
            _ if !is_source => {}
            "append" if number == part.line => {
                let args = text.get(part.args.clone()).unwrap_or_default();
                copy.push_str(&format!("\tappend {}\n", line::with_missing(args, words)));
            }
            copied if COPIED.split(' ').any(|it| it == copied) => {
                copy.push_str(&format!("\t{key} {value}\n"));
            }
            _ => {}
        }
    }
    copy
}

/// A label while it is parsed.
struct ExtlinuxLabel {
    title: String,
    line: usize,
    kernel: Option<String>,
    ramdisks: Vec<String>,
    args: Option<(std::ops::Range<usize>, usize)>,
}

/// Parses the labels that load a Linux kernel.
fn parse(text: &str) -> Result<Vec<CmdlinePart>, CmdlineFileFault> {
    let mut labels: Vec<ExtlinuxLabel> = Vec::new();
    for (begin, number, line) in numbered_lines(text) {
        let (key, range) = split_key(begin, line);
        let value = text[range.clone()].to_owned();
        match (key.to_ascii_lowercase().as_str(), labels.last_mut()) {
            ("label", _) if value.is_empty() => return Err((number, "a label without a name")),
            ("label", _) => {
                let (kernel, ramdisks, args) = (None, Vec::new(), None);
                labels.push(ExtlinuxLabel { title: value, line: number, kernel, ramdisks, args });
            }
            ("kernel" | "linux", Some(label)) => label.kernel = Some(value),
            ("append", Some(label)) if label.args.is_some() => {
                return Err((number, "a second `append` in one label"));
            }
            ("append", Some(label)) => {
                let named = value.split_whitespace().filter_map(|it| it.strip_prefix("initrd="));
                label.ramdisks.extend(named.flat_map(|it| it.split(',')).map(str::to_owned));
                label.args = Some((range, number));
            }
            ("initrd", Some(label)) => {
                label.ramdisks.extend(value.split(',').map(|it| it.trim().to_owned()));
            }
            _ => {}
        }
    }
    let (mut parts, mut without_args) = (Vec::new(), None);
    for label in labels {
        let Some(kernel) = label.kernel else { continue };
        // Other programs (memtest, menus) are loaded the same way.
        let version = version_of(&kernel).map(str::to_owned);
        if version.is_none() && !is_kernel(&kernel) {
            continue;
        }
        // A label without a command line has no words, and hides no other.
        let Some((args, line)) = label.args else {
            without_args = Some(label.line);
            continue;
        };
        let files = Some(EntryFiles { kernel, ramdisks: label.ramdisks });
        let title = label.title;
        parts.push(CmdlinePart {
            version,
            title,
            files,
            args,
            line,
            more: String::new(),
            purpose: None,
        });
    }
    match without_args.filter(|_| parts.is_empty()) {
        Some(line) => Err((line, "no label has an `append` line")),
        None => Ok(parts),
    }
}

/// Whether a file name without a version is one that the kernel's build produces: `Image`,
/// `Image.gz`, `zImage-backup`, `vmlinuz` (arch/*/boot/Makefile of Linux 6.12).
fn is_kernel(path: &str) -> bool {
    const NAMES: &[&str] = &["Image", "zImage", "bzImage", "uImage", "vmlinuz", "vmlinux", "linux"];
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut suffixes = NAMES.iter().filter_map(|kernel| name.strip_prefix(kernel));
    suffixes.any(|suffix| !suffix.starts_with(|c: char| c.is_ascii_alphanumeric()))
        && !name.ends_with(".c32")
}

/// The steps for the user when no kernel of the menu is known: each line that loads one.
pub(super) fn manual_steps(host: &Host, words: &[String]) -> Vec<String> {
    let mut steps = Vec::new();
    for path in list_files(host) {
        steps.push(format!("in {path}, for the kernels that should get the parameters:"));
        // A file that cannot be parsed was reported before.
        let Ok((text, parts)) = LINES.read(host, &path) else { continue };
        for part in parts.into_iter().filter(|part| part.purpose.is_none()) {
            let (args, line) = (text.get(part.args).unwrap_or_default(), part.line);
            let kernel = part.files.map(|it| it.kernel).unwrap_or_default();
            let new = line::with_missing(args, words);
            steps.push(format!("line {line}, for {kernel}: append {new}"));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_with_a_kernel_are_read() {
        let text = "default l0\nlabel l0\n\tmenu label Debian 6.1\n\tlinux /vmlinuz-6.1\n\tappend root=/dev/sda1 ro\nlabel mem\n kernel /memtest\n";
        let parts = parse(text).unwrap();
        assert_eq!((parts.len(), parts[0].version.as_deref()), (1, Some("6.1")));
        assert_eq!(&text[parts[0].args.clone()], "root=/dev/sda1 ro");
        let ramdisks = |text: &str| {
            let text = format!("label a\nkernel ../vmlinuz-1\n{text}\n");
            parse(&text).unwrap().remove(0).files.unwrap().ramdisks
        };
        assert_eq!(ramdisks("append ro"), [""; 0]);
        assert_eq!(ramdisks("initrd ../a\nappend ro"), ["../a"]);
        assert_eq!(ramdisks("append initrd=/a,/b ro"), ["/a", "/b"]);
        assert_eq!(parse("label a\nkernel /vmlinuz-1\n").unwrap_err().0, 1);
        let two = "label a\nkernel /vmlinuz-1\nlabel b\nkernel /vmlinuz-2\nappend ro\n";
        assert_eq!(parse(two).unwrap().len(), 1);
        let names =
            ["Image", "Image.gz", "Image-backup", "vmlinuz", "memtest", "Imager", "linux.c32"];
        assert_eq!(names.map(is_kernel), [true, true, true, true, false, false, false]);
        assert_eq!(parse("label a\nappend x\nappend y\n").unwrap_err().0, 3);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}|((label|kernel|append) ?[a-z /-]{0,9}\n){0,9}") {
            let _ = parse(&text);
        }
    }
}
