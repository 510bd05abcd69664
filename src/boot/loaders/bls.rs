//! Entries of the Boot Loader Specification: one file per kernel in `loader/entries` (Fedora and
//! RHEL with GRUB's `blscfg`, systemd-boot). The words go in front of `options`. A trial, and
//! entries that follow all others, get separate files. Kernels that `kernel-install` adds later get
//! the words from our hook.

use super::boot_loader::{
    BootFilePlan, BootLoader, EntryFiles, EntryPosition, FileEdit, FoundLoader, LoaderPageRow,
    ParameterAssignment, find_own,
};
use super::cmdline_files::{
    CmdlineFileFault, CmdlineFileLoader, CmdlinePart, numbered_lines, split_key,
};
use super::systemd_boot::read_efi_variable;
use super::{kernel_install_hook, one_shot_entry};
use crate::boot::error::BootError;
use crate::boot::grub::menu::version_of;
use crate::boot::{kernel_file, line};
use crate::documents::boot::{BootWarning, NextReason};
use cpushield_linux::Host;
use cpushield_linux::text::kernel_version::KernelVersion;
use std::cmp::Ordering;

const DIRS: &[&str] = &["/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries"];

/// The prefix of the names of our entries. Loaders sort entries without a `sort-key` by name, the
/// greatest first, and this prefix sorts below a machine id or a distribution's name
/// (boot_entry_compare() in src/shared/bootspec.c, systemd 257; blscfg.c of Fedora's GRUB 2.06).
const OURS: &str = "a-cpushield-";

/// The prefix of a trial.
const TRIAL: &str = "a-cpushield-trial-";

/// The first line of our own entries.
const MARK: &str = "# Made by cpushield; `cpushield boot undo` removes it.\n";

pub(super) static LINES: CmdlineFileLoader = CmdlineFileLoader {
    name: "bls",
    files: list_files,
    parse,
    id: |path, _| entry_id(path),
    version: |host, path, part| kernel_file::find_release(host, path, &part.files.as_ref()?.kernel),
    any_kernel: false,
    without_copies: str::to_owned,
    menu: "to see the menu, hold a key (Space, Esc or Shift) while the machine starts",
};

#[derive(Debug)]
pub(super) struct BlsLoader;

/// The id of an entry: the name of its file without `.conf`.
fn entry_id(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?.strip_suffix(".conf")?;
    Some(name.to_owned())
}

fn is_ours(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(OURS))
}

fn list_files(host: &Host) -> Vec<String> {
    let mut found = Vec::new();
    // A unified kernel image has its own command line, whatever entries there are too.
    let selected = read_efi_variable(host, "LoaderEntrySelected");
    if selected.is_some_and(|entry| entry.ends_with(".efi")) {
        return found;
    }
    for dir in DIRS {
        let names = host.list(dir).unwrap_or_default();
        let entries = names.iter().filter(|name| name.ends_with(".conf") && !name.starts_with('.'));
        found.extend(entries.map(|name| format!("{dir}/{name}")));
    }
    // The newest kernel first, as in menus; the names contain the version.
    found.sort_by(|a, b| is_ours(a).cmp(&is_ours(b)).then_with(|| compare_versions(b, a)));
    found
}

impl BootLoader for BlsLoader {
    fn name(&self) -> &'static str {
        LINES.name
    }

    fn page_rows(&self) -> &'static [LoaderPageRow] {
        &[
            LoaderPageRow {
                loader: "GRUB 2 with `blscfg` (Fedora, RHEL)",
                files: "`loader/entries/*.conf`; `a-cpushield-trial-*.conf` for a trial",
                trial: "`next_entry`",
                later: "get the parameters from `/etc/kernel/install.d/95-cpushield.install`",
            },
            LoaderPageRow {
                loader: "systemd-boot",
                files: "the same",
                trial: "`LoaderEntryOneShot`; a running PREEMPT_RT kernel cannot set it without \
                        `efi=runtime`: use `--trial --kexec`",
                later: "the same",
            },
        ]
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        let Some(mut found) = LINES.find(host)? else { return Ok(None) };
        let variables = one_shot_entry::read_grub_variables(host);
        for entry in &mut found.entries {
            entry.args = one_shot_entry::expand_variables(&entry.args, &variables);
            if let Some(files) = &mut entry.files {
                files.ramdisks = one_shot_entry::expand_files(&files.ramdisks, &variables);
            }
            entry.ours = entry.id.as_deref().is_some_and(|id| id.starts_with(OURS));
        }
        if kernel_install_hook::is_used(host) {
            found.covers_later = true;
            found.warnings.retain(|warning| *warning != BootWarning::LaterKernelsLeftOut);
        }
        (found.next, found.why) = one_shot_entry::find_next(host, &found.entries);
        if let NextReason::NotAmongFiles { entry, .. } = &found.why {
            found.other_next = Some(entry.clone());
            found.warnings.push(BootWarning::DefaultGone { next: found.why.clone() });
        }
        Ok(Some(found))
    }

    fn plan_files(
        &self,
        host: &Host,
        assignment: &ParameterAssignment,
    ) -> Result<BootFilePlan, BootError> {
        match assignment.position {
            EntryPosition::First => {}
            EntryPosition::Last => return plan_copies(host, assignment, OURS),
            EntryPosition::Trial => return plan_copies(host, assignment, TRIAL),
        }
        let mut plan = LINES.plan_files(host, assignment)?;
        plan.edits.retain(|edit| !is_ours(&edit.path));
        if kernel_install_hook::is_used(host) {
            let bytes = kernel_install_hook::script(&assignment.later_kernels()).into_bytes();
            plan.edits.push(FileEdit {
                path: kernel_install_hook::PATH.to_owned(),
                bytes,
                mode: 0o755,
            });
        }
        let named = list_files(host).into_iter().filter(|path| is_ours(path));
        plan.removed = find_own(host, self, named)?;
        Ok(plan)
    }

    fn boot_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        one_shot_entry::arm(host, entry)?;
        // Checks what the loader will boot, not what was written.
        if self.find(host)?.unwrap_or_default().boots_next(entry) {
            return Ok(());
        }
        one_shot_entry::disarm(host, entry)?;
        Err(BootError::cannot_boot_once(format!("the loader would not boot {entry} next")))
    }

    fn boot_instructions(&self, host: &Host, entry: &str) -> String {
        one_shot_entry::boot_instructions(host, entry)
    }

    fn cancel_boot_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        one_shot_entry::disarm(host, entry)
    }

    fn strip_later_files(
        &self,
        host: &Host,
        known: &[&str],
        words: &[String],
    ) -> Vec<(String, Vec<u8>)> {
        let later = list_files(host).into_iter().filter(|path| !known.contains(&path.as_str()));
        later
            .filter_map(|path| {
                let bytes = strip_hook_words(host, &path, words)?;
                Some((path, bytes))
            })
            .collect()
    }

    fn is_ours(&self, _path: &str, bytes: &[u8]) -> bool {
        bytes.starts_with(MARK.as_bytes())
            || bytes.starts_with(kernel_install_hook::MARK.as_bytes())
    }

    fn creates(&self, path: &str) -> bool {
        is_ours(path) || path == kernel_install_hook::PATH
    }
}

/// A file without the words that our hook put in front of its options; `None` when it has none.
fn strip_hook_words(host: &Host, path: &str, words: &[String]) -> Option<Vec<u8>> {
    let mut text = host.read(path).ok()?;
    let part = parse(&text).ok()?.pop()?;
    // Words that a user added may be anywhere, in any assignment.
    let rest = text.get(part.args.clone())?.strip_prefix(&words.join(" "))?;
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start().to_owned();
    text.replace_range(part.args, &rest);
    Some(text.into_bytes())
}

/// Plans a copy of the entry of each chosen kernel, in a separate file.
fn plan_copies(
    host: &Host,
    assignment: &ParameterAssignment,
    prefix: &str,
) -> Result<BootFilePlan, BootError> {
    let mut plan = BootFilePlan::default();
    let mut seen = Vec::new();
    for path in list_files(host).into_iter().filter(|path| !is_ours(path)) {
        let (text, parts) = LINES.read_before(host, &path, assignment.earlier)?;
        for part in parts {
            let Some((words, version)) = part.words(assignment).zip(part.version) else { continue };
            if seen.contains(&version) {
                continue;
            }
            let args = text.get(part.args.clone()).unwrap_or_default();
            let mut new = text.clone();
            new.replace_range(part.args, &line::with_missing(args, words));
            let path = host.resolve_links(&path);
            let mode = host.access(&path)?.mode;
            let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
            plan.edits.push(FileEdit {
                path: format!("{dir}/{prefix}{version}.conf"),
                bytes: retitle(&new).into_bytes(),
                mode,
            });
            seen.push(version);
        }
    }
    Ok(plan)
}

/// An entry's text with our title. It has no `sort-key`, so it sorts after entries that have one.
fn retitle(text: &str) -> String {
    let mut new = MARK.to_owned();
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end();
        match line.split_whitespace().next() {
            Some("sort-key") => {}
            Some("title") => new.push_str(&format!("{line} (cpushield)\n")),
            _ => new.push_str(whole),
        }
    }
    new
}

/// Compares digits by their numeric value and other characters one by one.
fn compare_versions(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let ((a_number, a_rest), (b_number, b_rest)) = (split_step(a), split_step(b));
        let ordering = match (a_number, b_number) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.chars().next().cmp(&b.chars().next()),
        };
        if ordering != Ordering::Equal || a.is_empty() || b.is_empty() {
            return ordering;
        }
        (a, b) = (a_rest, b_rest);
    }
}

/// Splits off the leading number, or else one character.
fn split_step(text: &str) -> (Option<u64>, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        return (Some(text[..digits].parse().unwrap_or(u64::MAX)), &text[digits..]);
    }
    (None, &text[text.chars().next().map_or(0, char::len_utf8)..])
}

/// Parses one entry. Of several `options` lines, which the loader joins, the first one gets words.
fn parse(text: &str) -> Result<Vec<CmdlinePart>, CmdlineFileFault> {
    let (mut title, mut version, mut args, mut kernel) = (None, None, None, None);
    let (mut is_linux, mut ramdisks, mut more) = (false, Vec::new(), String::new());
    for (begin, number, line) in numbered_lines(text) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let (key, range) = split_key(begin, line);
        let value = &text[range.clone()];
        match key {
            "title" => title = Some(value.to_owned()),
            "version" => version = Some(value.to_owned()),
            "linux" | "efi" | "uki" => {
                // An EFI program may contain a RAM disk.
                is_linux = key == "linux";
                kernel = Some(value.to_owned());
            }
            "initrd" => ramdisks.extend(value.split_whitespace().map(str::to_owned)),
            "options" if args.is_none() => args = Some((range, number)),
            "options" => more = format!("{more} {value}"),
            _ if !key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) => {
                return Err((number, "expected a key and a value"));
            }
            _ => {}
        }
    }
    let last = text.lines().count().max(1);
    let kernel = kernel.ok_or((last, "expected a `linux` line before the end"))?;
    // It need not have one (The Boot Loader Specification): memtest, a shell. It has no words.
    let Some((args, line)) = args else { return Ok(Vec::new()) };
    // The name of the file says less where it has no version.
    let is_release = |name: &&str| KernelVersion::from_release(name).is_some();
    let named = version_of(&kernel).filter(|it| is_release(it) || version.is_none());
    let version = named.map(str::to_owned).or(version);
    let title = title.or_else(|| version.clone()).unwrap_or_else(|| kernel.clone());
    let files = is_linux.then_some(EntryFiles { kernel, ramdisks });
    Ok(vec![CmdlinePart { version, title, files, args, line, more, purpose: None }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_read_and_the_newest_kernel_is_first() {
        let text = "title Fedora Linux\nversion 6.8.5-301.fc40.x86_64\n# x\nlinux /vmlinuz-6.8.5-301.fc40.x86_64\noptions  root=UUID=ab $kernelopts \ngrub_class fedora\n";
        let part = parse(text).unwrap().remove(0);
        assert_eq!(part.files.unwrap().ramdisks, [""; 0]);
        let two =
            parse("linux /m/1/linux\ninitrd /a\noptions x\ninitrd /b $c\n").unwrap().remove(0);
        let ramdisks = ["/a", "/b", "$c"].map(str::to_owned).to_vec();
        let kernel = "/m/1/linux".to_owned();
        assert_eq!(two.files, Some(EntryFiles { kernel, ramdisks }));
        assert_eq!(parse("uki /x.efi\noptions x\n").unwrap().remove(0).files, None);
        assert_eq!(&text[part.args], "root=UUID=ab $kernelopts");
        assert_eq!((part.version.as_deref(), part.line), (Some("6.8.5-301.fc40.x86_64"), 5));
        assert_eq!(parse("title MemTest86+\nefi /memtest86+/memtest.efi\n"), Ok(Vec::new()));
        assert_eq!(parse("title x\noptions y\n").unwrap_err().0, 2);
        assert_eq!(parse("title x\n{ y\n").unwrap_err().0, 2);
        assert_eq!(compare_versions("a-6.12.9", "a-6.9.12"), Ordering::Greater);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}|(options|linux|title)[ \ta-z\n]{0,40}", other in ".*") {
            let _ = parse(&text);
            let _ = compare_versions(&text, &other);
        }
    }
}
