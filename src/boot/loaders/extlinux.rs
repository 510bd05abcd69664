//! `extlinux.conf`: EXTLINUX itself, and U-Boot, which reads the same file. Each label has a kernel
//! and a line `append`, in front of which the words go; a trial, or entries that are to leave the
//! default alone, get labels of their own at the end.
//!
//! Where every kernel has one name (`LINUX /boot/Image` of NVIDIA's Jetson), its own bytes say
//! which it is; where they do not, the steps for a person do.
//!
//! EXTLINUX boots a label once (`extlinux --once`, kept in `ldlinux.sys` beside the file). U-Boot
//! does not: it takes `default` each time and writes nothing back (boot/pxe_utils.c, v2025.01).

use super::cmdline_files::{
    CmdlineFileFault, CmdlineFileLoader, CmdlinePart, given, lines, value, whole,
};
use super::{
    BootFilePlan, BootLoader, EntryFiles, FoundLoader, ParameterAssignment, extlinux_adv, grub,
};
use crate::boot::error::BootError;
use crate::boot::grub::menu::version_of;
use crate::boot::{kernel_file, line};
use cpushield_linux::Host;

pub(super) const FILES: &[&str] = &[
    "/boot/extlinux/extlinux.conf",
    "/boot/firmware/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
];

/// What the names of our own labels begin with.
const OURS: &str = "cpushield-";
/// Our labels stand between these lines.
const BEGIN: &str = "# Made by cpushield; `cpushield boot undo` removes it.\n";
const END: &str = "# The end of what cpushield made.\n";

/// What a label of ours takes over from the one it is made of (`menu label` is one of its own).
const TAKEN: &[&str] = &[
    "kernel",
    "linux",
    "initrd",
    "append",
    "fdt",
    "fdtdir",
    "devicetree",
    "devicetreedir",
    "devicetree-overlay",
    "fdtoverlays",
    "kaslrseed",
    "ipappend",
    "sysappend",
];

pub(super) static LINES: CmdlineFileLoader = CmdlineFileLoader {
    name: "extlinux",
    files,
    parse,
    id: |_, part| Some(part.title.clone()),
    version: |host, path, part| kernel_file::release(host, path, &part.files.as_ref()?.kernel),
    any_kernel: false,
    menu: "press a key at the serial console or keyboard while the loader counts down",
};

fn files(host: &Host) -> Vec<String> {
    FILES.iter().find(|path| host.exists(path)).map(|path| (*path).to_owned()).into_iter().collect()
}

#[derive(Debug)]
pub(super) struct ExtlinuxLoader;

impl BootLoader for ExtlinuxLoader {
    fn name(&self) -> &'static str {
        LINES.name
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        let Some(mut found) = LINES.find(host)? else { return Ok(None) };
        for entry in &mut found.entries {
            entry.ours = entry.id.as_deref().is_some_and(|id| id.starts_with(OURS));
        }
        let text = files(host).first().map(|path| host.read(path)).transpose()?;
        let (label, why) = match armed(host) {
            Some(label) => (Some(label), "boot-once of ldlinux.sys, for one boot"),
            None => default(&text.unwrap_or_default()),
        };
        found.next = match &label {
            Some(label) => found.entries.iter().position(|it| it.id.as_ref() == Some(label)),
            None => (!found.entries.is_empty()).then_some(0),
        };
        if let (Some(label), None) = (label, found.next) {
            found.warnings.push(format!("{why} is {label:?}, which is no label with a kernel"));
        }
        found.why = why.to_owned();
        Ok(Some(found))
    }

    fn recipe(&self, host: &Host, order: &ParameterAssignment) -> Result<BootFilePlan, BootError> {
        let mut recipe = BootFilePlan::default();
        for path in files(host) {
            let (there, _) = LINES.read(host, &path)?;
            let text = without_ours(&there);
            let wrong = |(line, what): CmdlineFileFault| BootError::Unparsable {
                path: path.clone(),
                why: format!("line {line}: {what}"),
            };
            let parts = LINES.parts(host, &path, &text).map_err(wrong)?;
            let new = if order.last {
                with_copies(&text, &parts, order)
            } else {
                given(&text, parts, order)
            };
            if new != there {
                recipe.edits.push(whole(host, &path, new)?);
            }
        }
        Ok(recipe)
    }

    fn stripped(&self, now: &[u8], words: &[String]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(now).ok()?;
        let bare = without_ours(text);
        let stripped = LINES.stripped(bare.as_bytes(), words);
        stripped.or_else(|| (bare != text).then(|| bare.into_bytes()))
    }

    fn covers_later(&self, _host: &Host) -> bool {
        false
    }

    fn once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        let Some((dir, vector)) = place(host) else {
            return Err(grub::cannot(
                "U-Boot boots what `default` says each time and takes nothing back by itself"
                    .to_owned(),
            ));
        };
        host.run_program(&["extlinux", &format!("--once={entry}"), &dir])?;
        // Read back what the loader will do, not what was asked.
        if host.read_bytes(&vector).ok().and_then(|bytes| extlinux_adv::once(&bytes)).as_deref()
            == Some(entry)
        {
            return Ok(());
        }
        self.forget_once(host, entry)?;
        Err(grub::cannot(format!("{vector} does not hold {entry} for the next boot")))
    }

    fn choice(&self, host: &Host, entry: &str) -> String {
        let file = files(host).into_iter().next().unwrap_or_default();
        let always = format!("always: `default {entry}` in {file}");
        match place(host) {
            Some((dir, _)) => format!("once: extlinux --once={entry} {dir}; {always}"),
            None => format!("once: choose {entry} in the menu; {always}"),
        }
    }

    fn forget_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        if let Some((dir, _)) = place(host).filter(|_| armed(host).as_deref() == Some(entry)) {
            host.run_program(&["extlinux", "--clear-once", &dir])?;
        }
        Ok(())
    }
}

/// The directory of EXTLINUX, and its file that holds what boots once; `None` where another program
/// reads the labels.
fn place(host: &Host) -> Option<(String, String)> {
    let file = files(host).into_iter().next()?;
    let (dir, _) = file.rsplit_once('/')?;
    let vector = format!("{dir}/ldlinux.sys");
    let there = host.exists(&vector) && host.program("extlinux").is_some();
    there.then(|| (dir.to_owned(), vector))
}

/// What EXTLINUX boots once.
fn armed(host: &Host) -> Option<String> {
    let (_, vector) = place(host)?;
    // What follows the label is for the kernel.
    let said = extlinux_adv::once(&host.read_bytes(&vector).ok()?)?;
    said.split_whitespace().next().map(str::to_owned)
}

/// The label that boots without a wish for one boot, and why; `None` for the first one.
fn default(text: &str) -> (Option<String>, &'static str) {
    let (mut asked, mut marked, mut label) = (None, None, None);
    for (begin, _, line) in lines(text) {
        let (key, range) = value(begin, line);
        let said = text.get(range).unwrap_or_default();
        let first = said.split_whitespace().next().unwrap_or_default();
        match key.to_ascii_lowercase().as_str() {
            // Old files name the menu's program there.
            "default" if !first.ends_with(".c32") => asked = Some(first.to_owned()),
            "label" => label = Some(said.to_owned()),
            "menu" if said.eq_ignore_ascii_case("default") && marked.is_none() => {
                marked.clone_from(&label);
            }
            _ => {}
        }
    }
    match (asked, marked) {
        (Some(asked), _) => (Some(asked), "default of extlinux.conf"),
        (None, Some(marked)) => (Some(marked), "menu default of extlinux.conf"),
        (None, None) => (None, "it is the first"),
    }
}

/// A text without our labels.
fn without_ours(text: &str) -> String {
    let Some(from) = text.find(BEGIN) else { return text.to_owned() };
    let Some(length) = text.get(from..).and_then(|rest| rest.find(END)) else {
        return text.to_owned();
    };
    let rest = text.get(from + length + END.len()..).unwrap_or_default();
    format!("{}{rest}", text.get(..from).unwrap_or_default())
}

/// A text with a label of ours for each chosen kernel, behind all others.
fn with_copies(text: &str, parts: &[CmdlinePart], order: &ParameterAssignment) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut new = text.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        new.push('\n');
    }
    new.push_str(BEGIN);
    for part in parts {
        let Some(version) = part.version.as_deref() else { continue };
        let chosen = order.kernels.iter().any(|it| it == version);
        if chosen && !seen.contains(&version) {
            new.push_str(&copy(text, part, order.words));
            seen.push(version);
        }
    }
    new + END
}

/// The label of a part once more, under a name of its own and with the words.
fn copy(text: &str, part: &CmdlinePart, words: &[String]) -> String {
    let mut copy = String::new();
    let mut here = false;
    for (begin, number, line) in lines(text) {
        let (key, range) = value(begin, line);
        let said = text.get(range).unwrap_or_default();
        match key.to_ascii_lowercase().as_str() {
            "label" => {
                here = said == part.title;
                if here {
                    copy.push_str(&format!("label {OURS}{said}\n"));
                    copy.push_str(&format!("\tmenu label {said} (cpushield)\n"));
                }
            }
            _ if !here => {}
            "append" if number == part.line => {
                let args = text.get(part.args.clone()).unwrap_or_default();
                copy.push_str(&format!("\tappend {}\n", line::with_missing(args, words)));
            }
            taken if TAKEN.contains(&taken) => copy.push_str(&format!("\t{key} {said}\n")),
            _ => {}
        }
    }
    copy
}

/// A label while it is read.
struct ExtlinuxLabel {
    title: String,
    line: usize,
    kernel: Option<String>,
    ramdisks: Vec<String>,
    args: Option<(std::ops::Range<usize>, usize)>,
}

/// The labels that load a kernel of Linux.
pub(super) fn parse(text: &str) -> Result<Vec<CmdlinePart>, CmdlineFileFault> {
    let mut labels: Vec<ExtlinuxLabel> = Vec::new();
    for (begin, number, line) in lines(text) {
        let (key, range) = value(begin, line);
        let said = text[range.clone()].to_owned();
        match (key.to_ascii_lowercase().as_str(), labels.last_mut()) {
            ("label", _) if said.is_empty() => return Err((number, "a label without a name")),
            ("label", _) => {
                let (kernel, ramdisks, args) = (None, Vec::new(), None);
                labels.push(ExtlinuxLabel { title: said, line: number, kernel, ramdisks, args });
            }
            ("kernel" | "linux", Some(label)) => label.kernel = Some(said),
            ("append", Some(label)) if label.args.is_some() => {
                return Err((number, "a second `append` in one label"));
            }
            ("append", Some(label)) => {
                let named = said.split_whitespace().filter_map(|it| it.strip_prefix("initrd="));
                label.ramdisks.extend(named.flat_map(|it| it.split(',')).map(str::to_owned));
                label.args = Some((range, number));
            }
            ("initrd", Some(label)) => {
                label.ramdisks.extend(said.split(',').map(|it| it.trim().to_owned()));
            }
            _ => {}
        }
    }
    let mut parts = Vec::new();
    for label in labels {
        let Some(kernel) = label.kernel else { continue };
        // Other programs (memtest, menus) are loaded the same way.
        let version = version_of(&kernel).map(str::to_owned);
        if version.is_none() && !is_kernel(&kernel) {
            continue;
        }
        let (args, line) = label.args.ok_or((label.line, "a label without a line `append`"))?;
        let files = Some(EntryFiles { kernel, ramdisks: label.ramdisks });
        parts.push(CmdlinePart { version, title: label.title, files, args, line });
    }
    Ok(parts)
}

/// Whether a file without a version has a name that builds of a kernel give it: `Image`,
/// `Image.gz`, `zImage-backup`, `vmlinuz` (arch/*/boot/Makefile of Linux 6.12).
fn is_kernel(path: &str) -> bool {
    const NAMES: &[&str] = &["Image", "zImage", "bzImage", "uImage", "vmlinuz", "vmlinux", "linux"];
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut rests = NAMES.iter().filter_map(|kernel| name.strip_prefix(kernel));
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    rests.any(ends) && !name.ends_with(".c32")
}

/// What a person is to change where no kernel of the menu is known: each line that loads one.
pub(super) fn by_hand(host: &Host, words: &[String]) -> Vec<String> {
    let mut steps = Vec::new();
    for path in files(host) {
        steps.push(format!("in {path}, for the kernels that are to have them:"));
        // A text that is not understood has been an error before.
        let Ok((text, parts)) = LINES.read(host, &path) else { continue };
        for part in parts {
            let (args, line) = (text.get(part.args).unwrap_or_default(), part.line);
            let kernel = part.files.map(|it| it.kernel).unwrap_or_default();
            let new = line::with_missing(args, words);
            steps.push(format!("line {line}, which is for {kernel}: append {new}"));
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
