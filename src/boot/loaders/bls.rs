//! Entries of the Boot Loader Specification: one file a kernel below `loader/entries` (Fedora and
//! RHEL with GRUB's `blscfg`, systemd-boot). The words go in front of `options`; a trial, or
//! entries that are to stay behind all others, get files of their own. Kernels that
//! `kernel-install` adds later get them from a hook of ours.

use super::cmdline_files::{
    CmdlineFileFault, CmdlineFileLoader, CmdlinePart, lines, running, value,
};
use super::kernel_install_hook;
use super::{
    BootFilePlan, BootLoader, EntryFiles, FileEdit, FoundLoader, ParameterAssignment,
    one_shot_entry,
};
use crate::boot::error::BootError;
use crate::boot::grub::menu::version_of;
use crate::boot::line;
use cpushield_linux::Host;

const DIRS: &[&str] = &["/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries"];

/// What the names of our own entries begin with. Loaders sort by name where entries have no
/// `sort-key`, the greatest first, and this is less than a machine's id or a distribution's name
/// (boot_entry_compare() in src/shared/bootspec.c, systemd 257; blscfg.c of Fedora's GRUB 2.06).
const OURS: &str = "a-cpushield-";

/// The first line of our own entries.
const MARK: &str = "# Made by cpushield; `cpushield boot undo` removes it.\n";

pub(super) static LINES: CmdlineFileLoader = CmdlineFileLoader {
    name: "bls",
    files,
    parse,
    id: |path, _| id(path),
    version: running,
    any_kernel: false,
    menu: "hold a key (space, Esc or Shift) while the machine starts to see the menu",
};

#[derive(Debug)]
pub(super) struct BlsLoader;

/// The name of an entry's file without what the loader counts in it (`+3-1`).
fn id(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?.strip_suffix(".conf")?;
    Some(name.to_owned())
}

fn is_ours(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(OURS))
}

fn files(host: &Host) -> Vec<String> {
    let mut found = Vec::new();
    for dir in DIRS {
        let names = host.list(dir).unwrap_or_default();
        let entries = names.iter().filter(|name| name.ends_with(".conf") && !name.starts_with('.'));
        found.extend(entries.map(|name| format!("{dir}/{name}")));
    }
    // The newest kernel first, as menus have it; names carry the version.
    found.sort_by(|a, b| is_ours(a).cmp(&is_ours(b)).then_with(|| compare(b, a)));
    found
}

impl BootLoader for BlsLoader {
    fn name(&self) -> &'static str {
        LINES.name
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        let Some(mut found) = LINES.find(host)? else { return Ok(None) };
        let variables = one_shot_entry::variables(host);
        for entry in &mut found.entries {
            entry.args = one_shot_entry::expanded(&entry.args, &variables);
            entry.ours = entry.id.as_deref().is_some_and(|id| id.starts_with(OURS));
        }
        if kernel_install_hook::installs(host) {
            found.warnings.clear();
        }
        (found.next, found.why) = one_shot_entry::next(host, &found.entries);
        Ok(Some(found))
    }

    fn recipe(&self, host: &Host, order: &ParameterAssignment) -> Result<BootFilePlan, BootError> {
        let there: Vec<String> = files(host).into_iter().filter(|path| is_ours(path)).collect();
        if order.last {
            return copies(host, order);
        }
        let mut recipe = LINES.recipe(host, order)?;
        recipe.edits.retain(|edit| !is_ours(&edit.path));
        if kernel_install_hook::installs(host) {
            let bytes = kernel_install_hook::script(order.rule, order.words).into_bytes();
            recipe.edits.push(FileEdit {
                path: kernel_install_hook::PATH.to_owned(),
                bytes,
                mode: 0o755,
            });
        }
        recipe.gone = there;
        Ok(recipe)
    }

    fn stripped(&self, now: &[u8], words: &[String]) -> Option<Vec<u8>> {
        LINES.stripped(now, words)
    }

    fn later(&self, host: &Host, known: &[&str], words: &[String]) -> Vec<(String, Vec<u8>)> {
        let front = words.join(" ");
        let by_hook = |path: &String| {
            let text = host.read(path).ok()?;
            let part = parse(&text).ok()?.pop()?;
            let args = text.get(part.args)?;
            // A person who gave them by hand need not have put them in front, in this order.
            let ours = args == front || args.starts_with(&format!("{front} "));
            let bytes = LINES.stripped(text.as_bytes(), words).filter(|_| ours)?;
            Some((path.clone(), bytes))
        };
        files(host)
            .iter()
            .filter(|path| !known.contains(&path.as_str()))
            .filter_map(by_hook)
            .collect()
    }

    fn covers_later(&self, host: &Host) -> bool {
        kernel_install_hook::installs(host)
    }

    fn is_ours(&self, _path: &str, bytes: &[u8]) -> bool {
        bytes.starts_with(MARK.as_bytes())
            || bytes.starts_with(kernel_install_hook::MARK.as_bytes())
    }

    fn once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        one_shot_entry::arm(host, entry)?;
        // Read back what the loader will do, not what was asked.
        let found = self.find(host)?.unwrap_or_default();
        let next = found.next.and_then(|index| found.entries.get(index));
        if next.is_some_and(|next| next.id.as_deref() == Some(entry)) {
            return Ok(());
        }
        one_shot_entry::forget(host, entry)?;
        Err(super::grub::cannot(format!("the loader does not make {entry} boot next")))
    }

    fn choice(&self, host: &Host, entry: &str) -> String {
        one_shot_entry::choice(host, entry)
    }

    fn forget_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        one_shot_entry::forget(host, entry)
    }

    fn makes_anew(&self, path: &str) -> bool {
        is_ours(path) || path == kernel_install_hook::PATH
    }
}

/// Files of our own beside those of the chosen kernels, one for each kernel.
fn copies(host: &Host, order: &ParameterAssignment) -> Result<BootFilePlan, BootError> {
    let mut recipe = BootFilePlan::default();
    let mut seen = Vec::new();
    for path in files(host).into_iter().filter(|path| !is_ours(path)) {
        let (text, parts) = LINES.read(host, &path)?;
        for part in parts {
            let Some(version) = part.version.filter(|it| order.kernels.contains(it)) else {
                continue;
            };
            if seen.contains(&version) {
                continue;
            }
            let args = text.get(part.args.clone()).unwrap_or_default();
            let mut new = text.clone();
            new.replace_range(part.args, &line::with_missing(args, order.words));
            let path = host.resolve_links(&path);
            let mode = host.access(&path)?.mode;
            let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
            recipe.edits.push(FileEdit {
                path: format!("{dir}/{OURS}{version}.conf"),
                bytes: own(&new).into_bytes(),
                mode,
            });
            seen.push(version);
        }
    }
    Ok(recipe)
}

/// An entry's text under a title of its own; without a `sort-key` it stands behind those that have
/// one.
fn own(text: &str) -> String {
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

/// Numbers by their value, all else letter by letter.
fn compare(a: &str, b: &str) -> std::cmp::Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (n, m) = (digits(a), digits(b));
        let order = if n > 0 && m > 0 {
            let number = |text: &str, n: usize| text[..n].parse::<u64>().unwrap_or(u64::MAX);
            number(a, n).cmp(&number(b, m))
        } else {
            a.chars().next().cmp(&b.chars().next())
        };
        if order != std::cmp::Ordering::Equal || a.is_empty() || b.is_empty() {
            return order;
        }
        let step = |text: &str, n: usize| n.max(text.chars().next().map_or(0, char::len_utf8));
        (a, b) = (&a[step(a, n)..], &b[step(b, m)..]);
    }
}

/// One entry; later `options` lines are joined to the first by the loader.
pub(super) fn parse(text: &str) -> Result<Vec<CmdlinePart>, CmdlineFileFault> {
    let (mut title, mut version, mut args, mut kernel) = (None, None, None, None);
    let (mut whole, mut ramdisks) = (false, Vec::new());
    for (begin, number, line) in lines(text) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let (key, range) = value(begin, line);
        let said = &text[range.clone()];
        match key {
            "title" => title = Some(said.to_owned()),
            "version" => version = Some(said.to_owned()),
            "linux" | "efi" | "uki" => {
                // A program of the firmware may bring a RAM disk of its own.
                whole = key == "linux";
                kernel = Some(said.to_owned());
            }
            "initrd" => ramdisks.extend(said.split_whitespace().map(str::to_owned)),
            "options" if args.is_none() => args = Some((range, number)),
            _ if !key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) => {
                return Err((number, "expected a key and a value"));
            }
            _ => {}
        }
    }
    let last = text.lines().count().max(1);
    let (args, line) = args.ok_or((last, "expected a line `options` before the end"))?;
    let kernel = kernel.ok_or((last, "expected a line `linux` before the end"))?;
    let version = version_of(&kernel).map(str::to_owned).or(version);
    let title = title.or_else(|| version.clone()).unwrap_or_else(|| kernel.clone());
    let files = whole.then_some(EntryFiles { kernel, ramdisks });
    Ok(vec![CmdlinePart { version, title, files, args, line }])
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
        assert_eq!(parse("title x\nlinux /vmlinuz-1\n").unwrap_err().0, 2);
        assert_eq!(parse("title x\n{ y\n").unwrap_err().0, 2);
        assert_eq!(compare("a-6.12.9", "a-6.9.12"), std::cmp::Ordering::Greater);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}|(options|linux|title)[ \ta-z\n]{0,40}", other in ".*") {
            let _ = parse(&text);
            let _ = compare(&text, &other);
        }
    }
}
