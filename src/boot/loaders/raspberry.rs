//! `cmdline.txt` of a Raspberry Pi: one line for whichever kernel `config.txt` names. The firmware
//! reads the first line alone.
//!
//! A trial is a `tryboot.txt`: the firmware takes it in place of `config.txt` for the one boot that
//! `reboot '0 tryboot'` asks for, and forgets that before it starts anything.
//!
//! Sources: Raspberry Pi's documentation, config.txt (`cmdline`, `os_prefix`, `include`, filters),
//! autoboot.txt (`tryboot_a_b`) and fail-safe updates (TRYBOOT); rpi_firmware_notify_reboot() in
//! drivers/firmware/raspberrypi.c of Raspberry Pi's kernel 6.6, which the mainline driver lacks.

use super::cmdline_files::{CmdlineFileFault, CmdlineFileLoader, CmdlinePart, lines, running};
use super::{
    BootFilePlan, BootLoader, FileEdit, FoundLoader, LoaderEntry, ParameterAssignment, grub,
};
use crate::boot::error::BootError;
use crate::boot::line;
use cpushield_linux::Host;

const DIRS: &[&str] = &["/boot/firmware", "/boot"];

/// What the firmware takes in place of `config.txt`.
const TRYBOOT: &str = "tryboot.txt";
/// The command line of that boot.
const CMDLINE: &str = "cpushield-cmdline.txt";
/// The first line of our `tryboot.txt`.
const MARK: &str = "# Made by cpushield; `cpushield boot undo` removes it.\n";
/// The argument of the reboot that asks for it.
const ARGUMENT: &str = "0 tryboot";
/// What the firmware says of that flag; older ones say nothing.
const FLAG: &str = "/proc/device-tree/chosen/bootloader/tryboot";

pub(super) static LINES: CmdlineFileLoader = CmdlineFileLoader {
    name: "raspberry-pi",
    files,
    parse,
    id: |_, _| None,
    version: running,
    any_kernel: true,
    menu: "there is no menu: put the card into another machine and edit cmdline.txt",
};

/// What `config.txt` says of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct RaspberryConfig {
    /// What stands in front of the names of an operating system's files.
    prefix: String,
    /// The file of the command line.
    cmdline: Option<String>,
    /// Where a section for trials of others begins: file and line.
    tryboot: Option<(String, usize)>,
}

/// How deep files may include others.
const DEPTH_MAX: usize = 8;

impl RaspberryConfig {
    /// The path of the command line, below the directory of `config.txt`.
    fn line(&self, name: &str) -> String {
        match name.strip_prefix('/') {
            Some(whole) => whole.to_owned(),
            None => format!("{}{name}", self.prefix),
        }
    }

    fn cmdline(&self) -> String {
        self.line(self.cmdline.as_deref().unwrap_or("cmdline.txt"))
    }
}

/// Reads `config.txt` as far as the command line goes. `read` gives the files that it includes.
fn config(
    text: &str,
    read: &dyn Fn(&str) -> Option<String>,
) -> Result<RaspberryConfig, (String, CmdlineFileFault)> {
    let (mut config, mut section) = (RaspberryConfig::default(), "all".to_owned());
    let file = IncludedFile { name: "config.txt", text, depth: 0 };
    take(&file, read, &mut section, &mut config)?;
    Ok(config)
}

/// A file whose text stands in place of the line that includes it.
struct IncludedFile<'a> {
    name: &'a str,
    text: &'a str,
    depth: usize,
}

fn take(
    file: &IncludedFile<'_>,
    read: &dyn Fn(&str) -> Option<String>,
    section: &mut String,
    config: &mut RaspberryConfig,
) -> Result<(), (String, CmdlineFileFault)> {
    for (_, number, line) in lines(file.text) {
        let line = line.trim();
        if let Some(other) = line.strip_prefix("include").filter(|it| it.starts_with([' ', '\t'])) {
            if file.depth == DEPTH_MAX {
                return Err((
                    file.name.to_owned(),
                    (number, "files include each other without an end"),
                ));
            }
            // One that is not there says nothing.
            if let Some(text) = read(other.trim()) {
                let file = IncludedFile { name: other.trim(), text: &text, depth: file.depth + 1 };
                take(&file, read, section, config)?;
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
            ("cmdline" | "os_prefix", "none" | "tryboot") => {}
            ("cmdline", "all") => config.cmdline = Some(value.trim().to_owned()),
            ("os_prefix", "all") => value.trim().clone_into(&mut config.prefix),
            ("cmdline" | "os_prefix", _) => {
                let why = "which command line counts depends on a condition";
                return Err((file.name.to_owned(), (number, why)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The directory of `config.txt`, its text, and what it says; `None` where there is none.
fn place(host: &Host) -> Result<Option<(&'static str, String, RaspberryConfig)>, BootError> {
    for dir in DIRS {
        let path = format!("{dir}/config.txt");
        let Ok(bytes) = host.read_bytes(&path) else { continue };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let read = |name: &str| host.read(&format!("{dir}/{name}")).ok();
        let config =
            config(&text, &read).map_err(|(name, (line, what))| BootError::Unparsable {
                path: format!("{dir}/{name}"),
                why: format!("line {line}: {what}"),
            })?;
        if host.exists(&format!("{dir}/{}", config.cmdline())) {
            return Ok(Some((dir, text, config)));
        }
    }
    Ok(None)
}

fn files(host: &Host) -> Vec<String> {
    let found = place(host).ok().flatten();
    found.map(|(dir, _, config)| format!("{dir}/{}", config.cmdline())).into_iter().collect()
}

#[derive(Debug)]
pub(super) struct RaspberryLoader;

impl BootLoader for RaspberryLoader {
    fn name(&self) -> &'static str {
        LINES.name
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        let Some((dir, _, config)) = place(host)? else { return Ok(None) };
        let Some(mut found) = LINES.find(host)? else { return Ok(None) };
        let tryboot = format!("{dir}/{TRYBOOT}");
        if host.read_bytes(&tryboot).is_ok_and(|bytes| self.is_ours(&tryboot, &bytes)) {
            let path = format!("{dir}/{}", config.line(CMDLINE));
            let (text, parts) = LINES.read(host, &path)?;
            let running = host.read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
            found.entries.extend(parts.into_iter().map(|part| LoaderEntry {
                version: running.clone(),
                title: "the kernel of tryboot.txt".to_owned(),
                id: Some(TRYBOOT.to_owned()),
                args: text.get(part.args).unwrap_or_default().to_owned(),
                ours: true,
                files: None,
                place: format!("{path}:{}", part.line),
            }));
        }
        Ok(Some(found))
    }

    fn recipe(&self, host: &Host, order: &ParameterAssignment) -> Result<BootFilePlan, BootError> {
        let Some((dir, text, config)) = place(host)? else { return Ok(BootFilePlan::default()) };
        let ours = [format!("{dir}/{TRYBOOT}"), format!("{dir}/{}", config.line(CMDLINE))];
        if !order.last {
            let gone = ours
                .into_iter()
                .filter(|path| host.read_bytes(path).is_ok_and(|bytes| self.is_ours(path, &bytes)));
            return Ok(BootFilePlan { gone: gone.collect(), ..LINES.recipe(host, order)? });
        }
        let [tryboot, cmdline] = ours;
        let path = format!("{dir}/{}", config.cmdline());
        let (line, parts) = LINES.read(host, &path)?;
        let args = parts.first().and_then(|part| line.get(part.args.clone())).unwrap_or_default();
        let args = line::with_missing(args, order.words);
        let mode = host.access(&path)?.mode;
        let edit = |path, text: String| FileEdit { path, bytes: text.into_bytes(), mode };
        let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        let text = format!("{MARK}{text}{end}\n[all]\ncmdline={CMDLINE}\n");
        let edits = vec![edit(cmdline, args + "\n"), edit(tryboot, text)];
        Ok(BootFilePlan { edits, ..BootFilePlan::default() })
    }

    fn stripped(&self, now: &[u8], words: &[String]) -> Option<Vec<u8>> {
        LINES.stripped(now, words)
    }

    fn is_ours(&self, path: &str, bytes: &[u8]) -> bool {
        // One line cannot say whose it is: its name does.
        path.ends_with(CMDLINE) || bytes.starts_with(MARK.as_bytes())
    }

    /// Nothing is written for it: the reboot asks. Whether anybody would hear is looked at.
    fn once(&self, host: &Host, _entry: &str) -> Result<(), BootError> {
        let cannot = |why: String| Err(grub::cannot(why));
        let Some((dir, _, config)) = place(host)? else { return Err(BootError::NoTrial) };
        if let Some((name, line)) = config.tryboot {
            return cannot(format!(
                "{dir}/{name} has a section [tryboot] in line {line}, so another program uses that \
                 flag"
            ));
        }
        let autoboot = host.read(&format!("{dir}/autoboot.txt")).unwrap_or_default();
        if autoboot.lines().any(|line| line.replace(' ', "") == "tryboot_a_b=1") {
            return cannot(format!(
                "with tryboot_a_b=1 of {dir}/autoboot.txt the firmware does not read {TRYBOOT}"
            ));
        }
        if !host.exists(FLAG) {
            return cannot(format!(
                "the firmware shows no {FLAG}: one that knows it comes with an update of the system"
            ));
        }
        if !host.read("/proc/kallsyms").is_ok_and(|it| it.contains("rpi_firmware_notify_reboot")) {
            return cannot(
                "the running kernel hands no argument of a reboot to the firmware, as Raspberry \
                 Pi's own kernels do"
                    .to_owned(),
            );
        }
        if !host.exists("/run/systemd/system") {
            return cannot("only systemd is known to reboot with an argument".to_owned());
        }
        Ok(())
    }

    fn reboots_with(&self) -> Option<&'static str> {
        Some(ARGUMENT)
    }

    fn choice(&self, _host: &Host, _entry: &str) -> String {
        format!("once: reboot '{ARGUMENT}'")
    }

    fn makes_anew(&self, path: &str) -> bool {
        path.ends_with(TRYBOOT) || path.ends_with(CMDLINE)
    }
}

/// The one line.
pub(super) fn parse(text: &str) -> Result<Vec<CmdlinePart>, CmdlineFileFault> {
    let line = text.lines().next().unwrap_or("");
    let from = line.len() - line.trim_start().len();
    let args = from..from + line.trim().len();
    if args.is_empty() {
        return Err((1, "expected the kernel's command line"));
    }
    if let Some(extra) = text.lines().skip(1).position(|line| !line.trim().is_empty()) {
        return Err((extra + 2, "expected one line alone"));
    }
    let title = "the kernel of config.txt".to_owned();
    Ok(vec![CmdlinePart { version: None, title, files: None, args, line: 1 }])
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
    fn the_command_line_is_where_the_configuration_says() {
        let config = |text: &str| super::config(text, &|_| None);
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
    fn included_files_stand_where_they_are_included() {
        let read = |name: &str| match name {
            "extra.txt" => Some("cmdline=extra\n[pi4]\n".to_owned()),
            "trial.txt" => Some("[tryboot]\nos_prefix=new/\n[all]\n".to_owned()),
            "loop.txt" => Some("include loop.txt\n".to_owned()),
            _ => None,
        };
        let config = |text: &str| super::config(text, &read);
        let line = |text: &str| config(text).map(|config| config.cmdline());
        assert_eq!(line("include extra.txt\n"), Ok("extra".to_owned()));
        assert_eq!(line("include extra.txt\n[all]\ncmdline=x\n"), Ok("x".to_owned()));
        assert_eq!(line("include none.txt\nincludes=1\n"), Ok("cmdline.txt".to_owned()));
        // A condition lasts over the end of the file.
        let wrong = line("include extra.txt\ncmdline=x\n").unwrap_err();
        assert_eq!((wrong.0.as_str(), wrong.1.0), ("config.txt", 2));
        let trial = config("include trial.txt\n").unwrap().tryboot;
        assert_eq!(trial, Some(("trial.txt".to_owned(), 1)));
        assert_eq!(line("include loop.txt\n").unwrap_err().0, "loop.txt");
    }
}
