//! GRUB 2 where `grub-mkconfig` makes `grub.cfg` (Debian, Ubuntu): a generator of ours below
//! `/etc/grub.d` makes entries of its own for the chosen kernels.
//!
//! `grub-mkconfig -o` writes over `grub.cfg` in place, so a crash can leave half of it. We take
//! what it prints, give it to `grub-script-check`, and put it in place whole.

use super::{
    BootFilePlan, BootLoader, EntryFiles, FileEdit, FoundLoader, LoaderEntry, ParameterAssignment,
};
use crate::boot::error::BootError;
use crate::boot::grub::generator::{self, MARK};
use crate::boot::grub::{env, menu};
use cpushield_linux::text::cmdline;
use cpushield_linux::{Error, Host};

/// Before `10_linux`: our entry is the first one, which is the default unless another is named.
const FIRST: &str = "/etc/grub.d/07_cpushield";
/// Behind everything: the numbers of all other entries stay what they are.
const LAST: &str = "/etc/grub.d/42_cpushield";
/// The distribution's own generator, of which ours is made.
const TEN: &str = "/etc/grub.d/10_linux";

const DIRS: &[(&str, &str)] = &[("/boot/grub", "grub-mkconfig"), ("/boot/grub2", "grub2-mkconfig")];

#[derive(Debug)]
pub(super) struct GrubLoader;

/// The directory of `grub.cfg`, and the program that makes it.
pub(super) fn place(host: &Host) -> Option<(&'static str, &'static str)> {
    let there = |(dir, _): &&(&str, &str)| host.exists(&format!("{dir}/grub.cfg"));
    DIRS.iter().find(there).copied()
}

fn optional(answer: cpushield_linux::Result<Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
    match answer {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// How to reach the menu, from what `grub.cfg` does about it.
fn reach(cfg: &str) -> String {
    let hidden = cfg.contains("timeout_style=hidden") || cfg.contains("timeout_style=countdown");
    match (hidden, cfg.contains("set timeout=0")) {
        (false, false) => "the menu is shown at boot".to_owned(),
        _ => "hold Shift (BIOS) or press Esc (UEFI) while the machine starts to see the menu; \
              GRUB_TIMEOUT in /etc/default/grub shows it always"
            .to_owned(),
    }
}

impl BootLoader for GrubLoader {
    fn name(&self) -> &'static str {
        "grub"
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        // Packages of GRUB may lie about where another loader has started the machine.
        if super::one_shot_entry::is_started_by_systemd_boot(host) == Some(true) {
            return Ok(None);
        }
        // What makes `grub.cfg` of BLS files makes no entries of kernels itself.
        let Some((dir, program)) = place(host).filter(|_| host.exists(TEN)) else {
            return Ok(None);
        };
        if !host.is_live() || host.program(program).is_some() {
            let path = format!("{dir}/grub.cfg");
            let text = String::from_utf8_lossy(&host.read_bytes(&path)?).into_owned();
            let why = |error: menu::MenuError| BootError::Unparsable {
                path: path.clone(),
                why: error.to_string(),
            };
            let menu = menu::parse(&text).map_err(why)?;
            let env_path = format!("{dir}/grubenv");
            let variables = match optional(host.read_bytes(&env_path))? {
                Some(block) => env::parse(&block).map_err(|error| BootError::Unparsable {
                    path: env_path,
                    why: error.to_string(),
                })?,
                None => Vec::new(),
            };
            let found = found(&path, &text, &menu, &variables);
            // `blscfg` reads entries from files of their own (Fedora, RHEL): not ours to make.
            let elsewhere = found.entries.is_empty() && text.contains("blscfg");
            return Ok((!elsewhere).then_some(found));
        }
        Ok(None)
    }

    fn recipe(&self, host: &Host, order: &ParameterAssignment) -> Result<BootFilePlan, BootError> {
        let Some((dir, _)) = place(host) else {
            return Err(BootError::ByHand {
                why: "there is no grub.cfg".to_owned(),
                instructions: Vec::new(),
            });
        };
        let bytes = generator::script(order.rule, order.words).into_bytes();
        let path = if order.last { LAST } else { FIRST }.to_owned();
        let made = vec![host.resolve_links(&format!("{dir}/grub.cfg"))];
        let gone = [FIRST, LAST].into_iter().filter(|it| *it != path && host.exists(it));
        let gone = gone.map(str::to_owned).collect();
        Ok(BootFilePlan { edits: vec![FileEdit { path, bytes, mode: 0o755 }], gone, made })
    }

    fn source(&self, host: &Host, keyword: &str) -> Option<String> {
        let extra = host.list("/etc/default/grub.d").unwrap_or_default();
        let extra = extra.iter().map(|name| format!("/etc/default/grub.d/{name}"));
        for path in ["/etc/default/grub".to_owned()].into_iter().chain(extra) {
            let text = host.read(&path).unwrap_or_default();
            let says = |line: &str| {
                let (_, value) = line.split_once('=').unwrap_or(("", line));
                let value = value.trim_matches(['"', '\'']);
                let params = cmdline::parse(value);
                line.starts_with("GRUB_CMDLINE")
                    && params.iter().any(|p| cmdline::same_name(&p.name, keyword))
            };
            if let Some(line) = text.lines().position(says) {
                return Some(format!("{path}:{}", line + 1));
            }
        }
        None
    }

    fn make(&self, host: &Host, _path: &str) -> Result<Vec<u8>, BootError> {
        let (_, program) = place(host).unwrap_or(("", "grub-mkconfig"));
        let said = host.query_program(&[program], b"")?;
        let check = program.replace("mkconfig", "script-check");
        match host.query_program(&[&check], &said.out) {
            Err(error) if !error.is_absent() => return Err(error.into()),
            // It comes with grub-mkconfig; what is not there cannot be asked.
            _ => {}
        }
        let text = String::from_utf8_lossy(&said.out);
        menu::parse(&text).map_err(|error| BootError::Unparsable {
            path: format!("what {program} makes"),
            why: error.to_string(),
        })?;
        Ok(said.out)
    }

    fn without_ours(&self, made: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(made) {
            Ok(text) => generator::without_ours(text, &[FIRST, LAST]).into_bytes(),
            Err(_) => made.to_vec(),
        }
    }

    fn is_ours(&self, _path: &str, bytes: &[u8]) -> bool {
        bytes.starts_with(MARK.as_bytes())
    }

    fn once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        arm(host, entry)?;
        // Read back what GRUB will do, not what was asked.
        let found = self.find(host)?.unwrap_or_default();
        let next = found.next.and_then(|index| found.entries.get(index));
        if next.is_some_and(|next| next.id.as_deref() == Some(entry)) {
            return Ok(());
        }
        self.forget_once(host, entry)?;
        Err(cannot(format!("GRUB does not make {entry} boot next")))
    }

    fn choice(&self, host: &Host, entry: &str) -> String {
        let (_, program) = place(host).unwrap_or(("", "grub-mkconfig"));
        let [once, always] = ["reboot", "set-default"].map(|it| program.replace("mkconfig", it));
        format!("once: {once} {entry}; always: {always} {entry}, with GRUB_DEFAULT=saved")
    }

    fn forget_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        let Some((dir, program)) = place(host) else { return Ok(()) };
        let block = format!("{dir}/grubenv");
        let Some(bytes) = optional(host.read_bytes(&block))? else { return Ok(()) };
        let variables = env::parse(&bytes).unwrap_or_default();
        // GRUB empties the variable when it has taken it, and keeps the line.
        let ours = |(name, value): &(String, String)| {
            name == "next_entry" && (value.is_empty() || value == entry)
        };
        if variables.iter().any(ours) {
            host.run_program(&[
                &program.replace("mkconfig", "editenv"),
                &block,
                "unset",
                "next_entry",
            ])?;
        }
        Ok(())
    }

    fn makes_anew(&self, _path: &str) -> bool {
        true
    }

    fn is_made(&self, path: &str) -> bool {
        path.ends_with("/grub.cfg")
    }
}

/// Writes the wish for one boot where GRUB looks for it.
pub(super) fn arm(host: &Host, entry: &str) -> Result<(), BootError> {
    let Some((dir, program)) = place(host) else { return Err(BootError::NoTrial) };
    writes_itself(host, dir, program)?;
    let (editor, block) = (program.replace("mkconfig", "editenv"), format!("{dir}/grubenv"));
    let text = host.read(&format!("{dir}/grub.cfg"))?;
    if !menu::parse(&text).is_ok_and(|menu| menu.honours_next) {
        return Err(cannot(format!("{dir}/grub.cfg does not ask for next_entry")));
    }
    host.run_program(&[&editor, &block, "set", &format!("next_entry={entry}")])?;
    Ok(())
}

pub(super) fn cannot(why: String) -> BootError {
    BootError::Wrong {
        why: format!("a trial cannot be made here: {why}"),
        hint: Some(
            "without the loader: --trial --kexec; without a trial, in addition to the current entry: \
             cpushield boot apply --keep-default"
                .to_owned(),
        ),
    }
}

/// GRUB must be able to empty `next_entry` while it boots, or the trial would boot for ever. It
/// writes blocks of plain disks only (`check_writable` in util/grub.d/00_header.in of Debian,
/// 2.06; save_env in docs/grub.texi).
fn writes_itself(host: &Host, dir: &str, program: &str) -> Result<(), BootError> {
    let probe = program.replace("mkconfig", "probe");
    let ask = |what: &str| host.query_program(&[&probe, &format!("--target={what}"), dir], b"");
    let layers = String::from_utf8_lossy(&ask("abstraction")?.out).trim().to_owned();
    let kind = String::from_utf8_lossy(&ask("fs")?.out).trim().to_owned();
    if !layers.is_empty() {
        return Err(cannot(format!("GRUB cannot write to {dir}, which is on {layers}")));
    }
    match kind.as_str() {
        "ext2" | "fat" | "xfs" => Ok(()),
        kind => Err(cannot(format!("it is not known that GRUB can write to {dir} ({kind})"))),
    }
}

fn found(
    path: &str,
    text: &str,
    menu: &menu::GrubMenu,
    variables: &[(String, String)],
) -> FoundLoader {
    let next = menu.next(variables);
    let mut entries = Vec::new();
    let mut boots = None;
    for (index, entry) in menu.entries.iter().enumerate() {
        let Some(version) = entry.version() else { continue };
        if next.entry == Some(index) {
            boots = Some(entries.len());
        }
        entries.push(LoaderEntry {
            version: version.to_owned(),
            title: entry.title.clone(),
            id: entry.id.clone(),
            args: entry.args.clone(),
            files: entry.kernel.clone().map(|kernel| {
                let ramdisks = entry.ramdisks.clone();
                EntryFiles { kernel, ramdisks }
            }),
            ours: entry.id.as_deref().is_some_and(|id| id.starts_with(generator::ID)),
            place: format!("{path}:{}", entry.line),
        });
    }
    let mut warnings = Vec::new();
    if next.lost {
        warnings.push(next.why.clone());
    }
    FoundLoader { entries, next: boots, why: next.why, warnings, menu: reach(text) }
}
