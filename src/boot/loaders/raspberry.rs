//! `cmdline.txt` of a Raspberry Pi: one line for whichever kernel `config.txt` names. The firmware
//! reads the first line alone.

use super::lines::{Lines, Part, Wrong};
use cpushield_linux::Host;

const DIRS: &[&str] = &["/boot/firmware", "/boot"];

pub(super) static RASPBERRY: Lines = Lines {
    name: "raspberry-pi",
    files,
    parse,
    id: |_| None,
    any_kernel: true,
    menu: "there is no menu: put the card into another machine and edit cmdline.txt",
};

fn files(host: &Host) -> Vec<String> {
    let there = |dir: &&&str| {
        host.exists(&format!("{dir}/cmdline.txt")) && host.exists(&format!("{dir}/config.txt"))
    };
    DIRS.iter().find(there).map(|dir| format!("{dir}/cmdline.txt")).into_iter().collect()
}

/// The one line.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, Wrong> {
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
    Ok(vec![Part { version: None, title, files: None, args, line: 1 }])
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
}
