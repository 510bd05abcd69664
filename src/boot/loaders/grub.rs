//! GRUB 2 where `grub-mkconfig` generates `grub.cfg` (Debian, Ubuntu): our script in `/etc/grub.d`
//! adds entries for the chosen kernels.
//!
//! `grub-mkconfig -o` overwrites `grub.cfg` in place, so a crash can leave half of it. We capture
//! its output, check it with `grub-script-check`, and replace the file as a whole.

use super::boot_loader::{
    BootFilePlan, BootLoader, EntryFiles, EntryPosition, FileEdit, FoundLoader, LoaderEntry,
    LoaderPageRow, MenuGenerator, ParameterAssignment, find_own,
};
use super::entry_purpose::find_purpose;
use super::grub_environment::{self, locate};
use super::image_makers::has_entries;
use super::sources;
use super::systemd_boot::is_started_by_systemd_boot;
use crate::boot::assigned_words::{self, AssignedWord, WordFate};
use crate::boot::error::BootError;
use crate::boot::grub::generator::{self, MARK};
use crate::boot::grub::{env, menu};
use crate::boot::line;
use crate::documents::boot::{BootWarning, EntryPurpose, NextReason, SavedFile};
use cpushield_linux::Host;
use cpushield_linux::text::cmdline;

/// Before `10_linux`: our entry is the first one, which boots unless another is configured.
const FIRST: &str = "/etc/grub.d/07_cpushield";
/// After all others, whose entries keep their numbers.
const LAST: &str = "/etc/grub.d/42_cpushield";
/// A trial.
const TRIAL_SCRIPT: &str = "/etc/grub.d/43_cpushield";
/// The script that adds the entries of other systems (util/grub.d/30_os-prober.in, 2.12).
const OTHER_SYSTEMS: &str = "/etc/grub.d/30_os-prober";
/// The distribution's own script, which ours runs.
const TEN: &str = "/etc/grub.d/10_linux";

#[derive(Debug)]
pub(super) struct GrubLoader;

/// How to reach the menu, from the timeout in `grub.cfg`.
fn describe_menu_access(cfg: &str) -> String {
    let hidden = cfg.contains("timeout_style=hidden") || cfg.contains("timeout_style=countdown");
    match (hidden, cfg.contains("set timeout=0")) {
        (false, false) => "the menu is shown at boot".to_owned(),
        _ => "to see the menu, hold Shift (BIOS) or press Esc (UEFI) while the machine starts; \
              GRUB_TIMEOUT in /etc/default/grub can show it at every boot"
            .to_owned(),
    }
}

impl BootLoader for GrubLoader {
    fn name(&self) -> &'static str {
        "grub"
    }

    fn page_rows(&self) -> &'static [LoaderPageRow] {
        &[LoaderPageRow {
            loader: "GRUB 2 with `grub-mkconfig` (Debian, Ubuntu, SUSE, Arch)",
            files: "additional entries: `/etc/grub.d/07_cpushield`, `grub.cfg`",
            trial: "`next_entry`",
            later: "get the parameters from that script",
        }]
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        // GRUB may be installed on a machine that another loader started.
        if is_started_by_systemd_boot(host) == Some(true) {
            return Ok(None);
        }
        // Without 10_linux, `grub.cfg` has no kernel entries: GRUB reads BLS files.
        let Some((dir, program)) = locate(host).filter(|_| host.exists(TEN)) else {
            return Ok(None);
        };
        if !host.is_live() || host.program(program).is_some() {
            let files = read_files(host, dir)?;
            let found = list_entries(&files);
            // `blscfg` reads entries from BLS files (Fedora, RHEL): not handled here.
            let has_kernel =
                found.entries.iter().any(|it| it.purpose != Some(EntryPurpose::OtherSystem));
            let uses_bls = files.text.contains("blscfg") && (!has_kernel || has_entries(host));
            return Ok((!uses_bls).then_some(found));
        }
        Ok(None)
    }

    fn plan_files(
        &self,
        host: &Host,
        assignment: &ParameterAssignment,
    ) -> Result<BootFilePlan, BootError> {
        let Some((dir, _)) = locate(host) else {
            return Err(BootError::ByHand {
                why: "there is no grub.cfg".to_owned(),
                instructions: Vec::new(),
            });
        };
        let position = match assignment.position {
            EntryPosition::First if shifts_default(host, dir, assignment.earlier)? => {
                EntryPosition::Last
            }
            position => position,
        };
        let (path, name, others): (_, _, &[&str]) = match position {
            EntryPosition::First => (FIRST, &generator::PERMANENT, &[LAST]),
            EntryPosition::Last => (LAST, &generator::PERMANENT, &[FIRST]),
            EntryPosition::Trial => (TRIAL_SCRIPT, &generator::TRIAL, &[]),
        };
        let bytes = generator::script(&assignment.later_kernels(), name).into_bytes();
        let generated = vec![host.resolve_links(&format!("{dir}/grub.cfg"))];
        let others = others.iter().map(|path| (*path).to_owned());
        let removed = find_own(host, self, others)?;
        let edits = vec![FileEdit { path: path.to_owned(), bytes, mode: 0o755 }];
        Ok(BootFilePlan { edits, removed, generated })
    }

    fn generator(&self) -> Option<&dyn MenuGenerator> {
        Some(self)
    }

    fn boot_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        grub_environment::arm(host, entry)?;
        // Checks what GRUB will boot, not what was written.
        if self.find(host)?.unwrap_or_default().boots_next(entry) {
            return Ok(());
        }
        self.cancel_boot_once(host, entry)?;
        Err(BootError::cannot_boot_once(format!("GRUB would not boot {entry} next")))
    }

    fn boot_instructions(&self, host: &Host, entry: &str) -> String {
        grub_environment::boot_instructions(host, entry)
    }

    fn cancel_boot_once(&self, host: &Host, entry: &str) -> Result<(), BootError> {
        grub_environment::disarm(host, entry)
    }

    fn without_trial(&self, text: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(text) {
            Ok(text) => generator::without_ours(text, &[TRIAL_SCRIPT]).into_bytes(),
            Err(_) => text.to_vec(),
        }
    }

    fn is_ours(&self, _path: &str, bytes: &[u8]) -> bool {
        bytes.starts_with(MARK.as_bytes())
    }

    fn creates(&self, _path: &str) -> bool {
        true
    }
}

impl MenuGenerator for GrubLoader {
    fn generates(&self, path: &str) -> bool {
        path.ends_with("/grub.cfg")
    }

    fn generate(&self, host: &Host) -> Result<Vec<u8>, BootError> {
        let (_, program) = locate(host).unwrap_or(("", "grub-mkconfig"));
        let output = host.query_program(&[program], b"")?;
        let check = program.replace("mkconfig", "script-check");
        match host.query_program(&[&check], &output.out) {
            Err(error) if !error.is_absent() => return Err(error.into()),
            // It comes with grub-mkconfig; without it the check is skipped.
            _ => {}
        }
        let text = String::from_utf8_lossy(&output.out);
        menu::parse(&text).map_err(|error| BootError::Unparsable {
            path: format!("the output of {program}"),
            why: error.to_string(),
        })?;
        Ok(output.out)
    }

    fn without_ours(&self, generated: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(generated) {
            Ok(text) => generator::without_ours(text, &[FIRST, LAST, TRIAL_SCRIPT]).into_bytes(),
            Err(_) => generated.to_vec(),
        }
    }

    fn source(&self, host: &Host, keyword: &str) -> Option<String> {
        let mut files = sources::GRUB.read(host);
        files.retain(|(path, _)| sources::GRUB.is_read(host, path));
        let words = assigned_words::evaluate(&files, "GRUB_CMDLINE_LINUX");
        let kept = words.into_iter().filter(|it| !matches!(it.fate, WordFate::Replaced(_)));
        let is_same = |it: &AssignedWord| cmdline::same_name(line::name_of(&it.word), keyword);
        kept.into_iter().find(is_same).map(|it| format!("{}:{}", it.place.0, it.place.1))
    }
}

/// The files that GRUB reads.
struct GrubFiles {
    /// The path of `grub.cfg`.
    path: String,
    /// Its text.
    text: String,
    menu: menu::GrubMenu,
    /// The environment block.
    variables: Vec<(String, String)>,
}

fn read_files(host: &Host, dir: &str) -> Result<GrubFiles, BootError> {
    let path = format!("{dir}/grub.cfg");
    let text = String::from_utf8_lossy(&host.read_bytes(&path)?).into_owned();
    let menu = menu::parse(&text)
        .map_err(|error| BootError::Unparsable { path: path.clone(), why: error.to_string() })?;
    let env_path = format!("{dir}/grubenv");
    let variables = match host.read_bytes_if_present(&env_path)? {
        Some(block) => env::parse(&block)
            .map_err(|error| BootError::Unparsable { path: env_path, why: error.to_string() })?,
        None => Vec::new(),
    };
    Ok(GrubFiles { path, text, menu, variables })
}

/// Whether entries in front would make the default another entry, because it is a number. Where
/// ours are in front already, the number counts them, and they stay there.
fn shifts_default(host: &Host, dir: &str, earlier: &[SavedFile]) -> Result<bool, BootError> {
    if host.exists(FIRST) || earlier.iter().any(|saved| saved.path == FIRST) {
        return Ok(false);
    }
    let GrubFiles { menu, variables, .. } = read_files(host, dir)?;
    Ok(menu.counts_entries(&variables))
}

fn list_entries(files: &GrubFiles) -> FoundLoader {
    let GrubFiles { path, text, menu, variables } = files;
    let next = menu.next(variables);
    let mut entries = Vec::new();
    let mut next_index = None;
    let others = generator::section_of(text, OTHER_SYSTEMS);
    for (index, entry) in menu.entries.iter().enumerate() {
        let Some(version) = entry.version() else { continue };
        if next.entry == Some(index) {
            next_index = Some(entries.len());
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
            purpose: match &others {
                Some(lines) if lines.contains(&entry.line) => Some(EntryPurpose::OtherSystem),
                _ => purpose_of(entry),
            },
            ..LoaderEntry::default()
        });
    }
    let mut warnings = Vec::new();
    if matches!(next.why, NextReason::NotInMenu { .. }) {
        warnings.push(BootWarning::DefaultGone { next: next.why.clone() });
    }
    let other = next.entry.filter(|_| next_index.is_none()).and_then(|it| menu.entries.get(it));
    FoundLoader {
        other_next: other.map(|entry| entry.title.clone()),
        entries,
        next: next_index,
        why: next.why,
        warnings,
        menu: describe_menu_access(text),
        covers_later: true,
    }
}

fn purpose_of(entry: &menu::MenuEntry) -> Option<EntryPurpose> {
    let names = [Some(&entry.title), entry.id.as_ref(), entry.kernel.as_ref()];
    let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
    find_purpose(&names, &entry.args)
}
