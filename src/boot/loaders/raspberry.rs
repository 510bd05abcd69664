//! `cmdline.txt` of a Raspberry Pi: one line for the kernel that `config.txt` names. The firmware
//! reads only the first line.
//!
//! A trial is a `tryboot.txt`: the firmware reads it instead of `config.txt` for the one boot that
//! `reboot '0 tryboot'` requests, and clears the request before it starts anything.
//!
//! Sources: Raspberry Pi's documentation, config.txt (`cmdline`, `kernel`, `os_prefix`, `include`,
//! filters),
//! autoboot.txt (`tryboot_a_b`) and fail-safe updates (TRYBOOT); rpi_firmware_notify_reboot() in
//! drivers/firmware/raspberrypi.c of Raspberry Pi's kernel 6.6, which the mainline driver lacks.

use super::boot_loader::{
    BootFilePlan, BootLoader, EntryPosition, FileEdit, FoundLoader, LoaderEntry, LoaderPageRow,
    ParameterAssignment, find_own,
};
use super::cmdline_files::{
    CmdlineFileFault, CmdlineFileLoader, CmdlinePart, numbered_lines, unparsable,
};
use crate::boot::error::BootError;
use crate::boot::grub::menu::version_of;
use crate::boot::kernel_file::read_release;
use crate::boot::line;
use cpushield_linux::Host;

const DIRS: &[&str] = &["/boot/firmware", "/boot"];

/// The kernels that the firmware boots without `kernel=` (the same documentation, `kernel`), and
/// the name that Ubuntu gives to its kernel.
const DEFAULT_KERNELS: [&str; 6] =
    ["kernel_2712.img", "kernel8.img", "kernel7l.img", "kernel7.img", "kernel.img", "vmlinuz"];

/// The file that the firmware reads instead of `config.txt`.
const TRYBOOT: &str = "tryboot.txt";
/// The command line of that boot.
const CMDLINE: &str = "cpushield-cmdline.txt";
/// The first line of our `tryboot.txt`.
const MARK: &str = "# Made by cpushield; `cpushield boot undo` removes it.\n";
/// The argument of the reboot that requests it.
const ARGUMENT: &str = "0 tryboot";
/// Where the firmware shows that flag; older ones do not.
const FLAG: &str = "/proc/device-tree/chosen/bootloader/tryboot";

pub(super) static LINES: CmdlineFileLoader = CmdlineFileLoader {
    name: "raspberry-pi",
    files: list_files,
    parse,
    id: |_, _| None,
    version: |host, _, _| Some(find_version(host)),
    any_kernel: true,
    without_copies: str::to_owned,
    menu: "there is no menu: put the card into another machine and edit cmdline.txt",
};

/// The settings of `config.txt` that affect the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct RaspberryConfig {
    /// The prefix of the names of the operating system's files.
    prefix: String,
    /// The file of the command line.
    cmdline: Option<String>,
    /// The file of the kernel; `None` for the default one, or if its choice depends on a condition.
    kernel: Option<String>,
    /// The file and line of a section `[tryboot]`, which another program uses.
    tryboot: Option<(String, usize)>,
}

/// The maximum depth of included files.
const DEPTH_MAX: usize = 8;

impl RaspberryConfig {
    /// The path of a command line file, relative to the directory of `config.txt`.
    fn path_of(&self, name: &str) -> String {
        match name.strip_prefix('/') {
            Some(absolute) => absolute.to_owned(),
            None => format!("{}{name}", self.prefix),
        }
    }

    fn cmdline(&self) -> String {
        self.path_of(self.cmdline.as_deref().unwrap_or("cmdline.txt"))
    }
}

/// Parses the settings of `config.txt` that affect the command line. `read` reads included files.
fn parse_config(
    text: &str,
    read: &dyn Fn(&str) -> Option<String>,
) -> Result<RaspberryConfig, (String, CmdlineFileFault)> {
    let (mut config, mut section) = (RaspberryConfig::default(), "all".to_owned());
    let file = IncludedFile { name: "config.txt", text, depth: 0 };
    parse_file(&file, read, &mut section, &mut config)?;
    Ok(config)
}

/// A file whose text replaces the line that includes it.
struct IncludedFile<'a> {
    name: &'a str,
    text: &'a str,
    depth: usize,
}

fn parse_file(
    file: &IncludedFile<'_>,
    read: &dyn Fn(&str) -> Option<String>,
    section: &mut String,
    config: &mut RaspberryConfig,
) -> Result<(), (String, CmdlineFileFault)> {
    for (_, number, line) in numbered_lines(file.text) {
        let line = line.trim();
        if let Some(other) = line.strip_prefix("include").filter(|it| it.starts_with([' ', '\t'])) {
            if file.depth == DEPTH_MAX {
                return Err((file.name.to_owned(), (number, "files include each other in a loop")));
            }
            // A missing file is ignored.
            if let Some(text) = read(other.trim()) {
                let file = IncludedFile { name: other.trim(), text: &text, depth: file.depth + 1 };
                parse_file(&file, read, section, config)?;
            }
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            *section = name.to_ascii_lowercase();
            if section == "tryboot" {
                config.tryboot.get_or_insert((file.name.to_owned(), number));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        match (key.trim(), section.as_str()) {
            ("cmdline" | "os_prefix" | "kernel", "none" | "tryboot") => {}
            ("kernel", "all") => config.kernel = Some(value.trim().to_owned()),
            ("kernel", _) => config.kernel = None,
            ("cmdline", "all") => config.cmdline = Some(value.trim().to_owned()),
            ("os_prefix", "all") => value.trim().clone_into(&mut config.prefix),
            ("cmdline" | "os_prefix", _) => {
                let why = "the choice of the command line depends on a condition";
                return Err((file.name.to_owned(), (number, why)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Finds and parses `config.txt`: its directory, its text and its settings; `None` without one.
fn locate(host: &Host) -> Result<Option<(&'static str, String, RaspberryConfig)>, BootError> {
    for dir in DIRS {
        let path = format!("{dir}/config.txt");
        let Ok(bytes) = host.read_bytes(&path) else { continue };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let config = parse_config(&text, &|name| host.read(&format!("{dir}/{name}")).ok())
            .map_err(|(name, fault)| unparsable(&format!("{dir}/{name}"), fault))?;
        if host.exists(&format!("{dir}/{}", config.cmdline())) {
            return Ok(Some((dir, text, config)));
        }
    }
    Ok(None)
}

/// The kernel that boots next: the release of the file of `kernel=`, or else the name of that file.
/// The default file has the kernel that runs, and so has one that a condition chose.
fn find_version(host: &Host) -> String {
    let named = locate(host).ok().flatten().and_then(|(dir, _, config)| {
        let name = config.path_of(config.kernel.as_deref()?);
        let release = read_release(host, &[format!("{dir}/{name}")]);
        let base = name.rsplit('/').next()?;
        let named = || Some(version_of(base).unwrap_or(base).to_owned());
        release.or_else(|| named().filter(|_| !DEFAULT_KERNELS.contains(&base)))
    });
    named.unwrap_or_else(|| host.read_line("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn list_files(host: &Host) -> Vec<String> {
    let found = locate(host).ok().flatten();
    found.map(|(dir, _, config)| format!("{dir}/{}", config.cmdline())).into_iter().collect()
}

#[derive(Debug)]
pub(super) struct RaspberryLoader;

impl BootLoader for RaspberryLoader {
    fn name(&self) -> &'static str {
        LINES.name
    }

    fn page_rows(&self) -> &'static [LoaderPageRow] {
        &[LoaderPageRow {
            loader: "Raspberry Pi",
            files: "the file of `cmdline=` in `config.txt` or in a file that it includes, else \
                   `cmdline.txt`; `tryboot.txt` and `cpushield-cmdline.txt` for a trial",
            trial: "`reboot '0 tryboot'`, with Raspberry Pi's own kernel and systemd",
            later: "get the parameters: all kernels share one line",
        }]
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        let Some((dir, _, config)) = locate(host)? else { return Ok(None) };
        let Some(mut found) = LINES.find(host)? else { return Ok(None) };
        let tryboot = format!("{dir}/{TRYBOOT}");
        if host.read_bytes(&tryboot).is_ok_and(|bytes| self.is_ours(&tryboot, &bytes)) {
            let path = format!("{dir}/{}", config.path_of(CMDLINE));
            let (text, parts) = LINES.read(host, &path)?;
            let version = find_version(host);
            found.entries.extend(parts.into_iter().map(|part| LoaderEntry {
                version: version.clone(),
                title: "the kernel of tryboot.txt".to_owned(),
                id: Some(TRYBOOT.to_owned()),
                args: text.get(part.args).unwrap_or_default().to_owned(),
                ours: true,
                place: format!("{path}:{}", part.line),
                ..LoaderEntry::default()
            }));
        }
        Ok(Some(found))
    }

    fn plan_files(
        &self,
        host: &Host,
        assignment: &ParameterAssignment,
    ) -> Result<BootFilePlan, BootError> {
        let Some((dir, text, config)) = locate(host)? else { return Ok(BootFilePlan::default()) };
        let ours = [format!("{dir}/{TRYBOOT}"), format!("{dir}/{}", config.path_of(CMDLINE))];
        if assignment.position == EntryPosition::First {
            let removed = find_own(host, self, ours.into_iter())?;
            return Ok(BootFilePlan { removed, ..LINES.plan_files(host, assignment)? });
        }
        // The firmware knows only one `tryboot.txt`.
        let is_taken = assignment.earlier.iter().any(|saved| saved.path == ours[0]);
        if assignment.position == EntryPosition::Trial && is_taken {
            let why = format!("{} already has the written parameters", ours[0]);
            return Err(BootError::cannot_boot_once(why));
        }
        let [tryboot, cmdline] = ours;
        let path = format!("{dir}/{}", config.cmdline());
        let (line, parts) = LINES.read_before(host, &path, assignment.earlier)?;
        let args = parts.first().and_then(|part| line.get(part.args.clone())).unwrap_or_default();
        // There is one kernel.
        let words = assignment.groups.first().map_or(&[][..], |group| &group.words);
        let args = line::with_missing(args, words);
        let mode = host.access(&path)?.mode;
        let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        let text = format!("{MARK}{text}{end}\n[all]\ncmdline={CMDLINE}\n");
        let edits = vec![
            FileEdit { path: cmdline, bytes: (args + "\n").into_bytes(), mode },
            FileEdit { path: tryboot, bytes: text.into_bytes(), mode },
        ];
        Ok(BootFilePlan { edits, ..BootFilePlan::default() })
    }

    /// Writes nothing, because the reboot's argument requests the trial. Checks that the firmware
    /// and the kernel support that.
    fn boot_once(&self, host: &Host, _entry: &str) -> Result<(), BootError> {
        let Some((dir, _, config)) = locate(host)? else { return Err(BootError::NoTrial) };
        if let Some((name, line)) = config.tryboot {
            return Err(BootError::cannot_boot_once(format!(
                "{dir}/{name} has a section [tryboot] on line {line}, so another program uses \
                 tryboot"
            )));
        }
        let autoboot = host.read(&format!("{dir}/autoboot.txt")).unwrap_or_default();
        if autoboot.lines().any(|line| line.replace(' ', "") == "tryboot_a_b=1") {
            return Err(BootError::cannot_boot_once(format!(
                "with tryboot_a_b=1 in {dir}/autoboot.txt the firmware does not read {TRYBOOT}"
            )));
        }
        if !host.exists(FLAG) {
            return Err(BootError::cannot_boot_once(format!(
                "the firmware does not provide {FLAG}; update the system to install newer firmware"
            )));
        }
        if !host.read("/proc/kallsyms").is_ok_and(|it| it.contains("rpi_firmware_notify_reboot")) {
            return Err(BootError::cannot_boot_once(
                "the running kernel does not pass the reboot argument to the firmware; Raspberry \
                 Pi's own kernels do",
            ));
        }
        if !host.has_systemd() {
            return Err(BootError::cannot_boot_once(
                "only systemd is known to reboot with an argument",
            ));
        }
        Ok(())
    }

    fn reboot_argument(&self) -> Option<&'static str> {
        Some(ARGUMENT)
    }

    fn boot_instructions(&self, _host: &Host, _entry: &str) -> String {
        format!("once: reboot '{ARGUMENT}'")
    }

    fn is_ours(&self, path: &str, bytes: &[u8]) -> bool {
        // A command line has no room for a mark, so the file's name identifies it.
        path.ends_with(CMDLINE) || bytes.starts_with(MARK.as_bytes())
    }

    fn creates(&self, path: &str) -> bool {
        path.ends_with(TRYBOOT) || path.ends_with(CMDLINE)
    }
}

/// Parses the only line.
fn parse(text: &str) -> Result<Vec<CmdlinePart>, CmdlineFileFault> {
    let line = text.lines().next().unwrap_or("");
    let from = line.len() - line.trim_start().len();
    let args = from..from + line.trim().len();
    if args.is_empty() {
        return Err((1, "expected the kernel command line"));
    }
    if let Some(extra) = text.lines().skip(1).position(|line| !line.trim().is_empty()) {
        return Err((extra + 2, "expected only one line"));
    }
    let title = "the kernel of config.txt".to_owned();
    let (version, files, purpose, more) = (None, None, None, String::new());
    Ok(vec![CmdlinePart { version, title, files, args, line: 1, more, purpose }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_read_and_more_are_refused() {
        let text = "console=tty1 root=PARTUUID=1 rootwait\n";
        assert_eq!(&text[parse(text).unwrap()[0].args.clone()], text.trim());
        assert_eq!(parse("a\n\nb\n").unwrap_err().0, 3);
        assert_eq!(parse("").unwrap_err().0, 1);
    }

    #[test]
    fn config_txt_names_the_command_line_file() {
        let config = |text: &str| parse_config(text, &|_| None);
        let path = |text: &str| config(text).unwrap().cmdline();
        assert_eq!(path("arm_64bit=1\n[pi4]\nkernel=a\n"), "cmdline.txt");
        assert_eq!(
            path("[all]\nos_prefix=current/\n[tryboot]\nos_prefix=new/\n"),
            "current/cmdline.txt"
        );
        assert_eq!(path("os_prefix=a-\ncmdline = line.txt # x"), "a-line.txt # x");
        assert_eq!(path("os_prefix=a-\n[none]\ncmdline=x\n[all]\ncmdline=/b/c\n"), "b/c");
        assert_eq!(config("\n[pi4]\ncmdline=x\n").unwrap_err().1.0, 3);
        assert_eq!(config("a\n[tryboot]\n").unwrap().tryboot, Some(("config.txt".to_owned(), 2)));
    }

    #[test]
    fn included_files_replace_their_include_line() {
        let read = |name: &str| match name {
            "extra.txt" => Some("cmdline=extra\n[pi4]\n".to_owned()),
            "trial.txt" => Some("[tryboot]\nos_prefix=new/\n[all]\n".to_owned()),
            "loop.txt" => Some("include loop.txt\n".to_owned()),
            _ => None,
        };
        let config = |text: &str| parse_config(text, &read);
        let line = |text: &str| config(text).map(|config| config.cmdline());
        assert_eq!(line("include extra.txt\n"), Ok("extra".to_owned()));
        assert_eq!(line("include extra.txt\n[all]\ncmdline=x\n"), Ok("x".to_owned()));
        assert_eq!(line("include none.txt\nincludes=1\n"), Ok("cmdline.txt".to_owned()));
        // A section continues after the end of the included file.
        let wrong = line("include extra.txt\ncmdline=x\n").unwrap_err();
        assert_eq!((wrong.0.as_str(), wrong.1.0), ("config.txt", 2));
        let trial = config("include trial.txt\n").unwrap().tryboot;
        assert_eq!(trial, Some(("trial.txt".to_owned(), 1)));
        assert_eq!(line("include loop.txt\n").unwrap_err().0, "loop.txt");
    }
}
