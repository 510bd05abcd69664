//! The directory that the host shares with a guest, `/host` there.

use super::guest_options::GuestOptions;
use super::{VmResult, places};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A shared directory. A temporary one is removed at the end.
#[derive(Debug)]
pub struct SharedDir {
    pub path: PathBuf,
    is_temporary: bool,
}

impl Drop for SharedDir {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// What runs in a guest.
#[derive(Debug)]
pub struct GuestScript<'a> {
    /// A file, or a command in quotes.
    pub script: &'a str,
    pub arguments: &'a [String],
}

impl SharedDir {
    /// Fills the directory `kept`, or a temporary one.
    pub fn prepare(
        kept: Option<&Path>,
        binary: Option<&Path>,
        options: &GuestOptions,
        script: &GuestScript<'_>,
    ) -> VmResult<SharedDir> {
        let dir = match kept {
            Some(path) => SharedDir { path: std::path::absolute(path)?, is_temporary: false },
            None => SharedDir::temporary()?,
        };
        fs::create_dir_all(dir.file("out"))?;
        for name in ["status", "uptime", "again", "boots", "failed"] {
            let _ = fs::remove_file(dir.file(name));
        }
        copy_tree(&places::vm("guest"), &dir.file("guest"))?;
        fs::copy(places::vm("guest/lib.sh"), dir.file("lib.sh"))?;
        copy_tree(&places::cache("tools"), &dir.file("tools"))?;
        copy_tree(&places::tree().join("docs"), &dir.file("docs"))?;
        if options.init_roots {
            for name in ["openrc.tar", "sysv-rc.tar"] {
                fs::copy(places::cache("init").join(name), dir.file(name))?;
            }
        }
        if options.packages {
            copy_tree(&places::cache("rpm"), &dir.file("rpm"))?;
            // A scenario reports when there are no packages.
            let packages = places::target().join("packages");
            if packages.is_dir() {
                copy_tree(&packages, &dir.file("packages"))?;
            }
        }
        if let Some(binary) = binary {
            fs::copy(binary, dir.file("cpushield"))
                .map_err(|error| format!("cannot copy {}: {error}", binary.display()))?;
        }
        dir.copy_boot_files(options)?;
        dir.write_script(script)?;
        Ok(dir)
    }

    /// An empty directory that is removed at the end.
    pub fn temporary() -> VmResult<SharedDir> {
        let made = Command::new("mktemp").args(["-d", "-t", "cpushield-guest.XXXXXX"]).output()?;
        if !made.status.success() {
            return Err(format!("mktemp: {}", String::from_utf8_lossy(&made.stderr)).into());
        }
        let path = PathBuf::from(String::from_utf8(made.stdout)?.trim_end());
        Ok(SharedDir { path, is_temporary: true })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The content of a file that the guest writes, if it is not empty.
    pub fn read(&self, name: &str) -> Option<String> {
        let text = fs::read(self.file(name)).ok()?;
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The programs of the boot loader, which the guest copies into its root, and QEMU's monitor.
    fn copy_boot_files(&self, options: &GuestOptions) -> VmResult<()> {
        if options.efi {
            copy_tree(&places::cache("efi/root"), &self.file("efi"))?;
            copy_tree(&places::cache("efi/modules"), &self.file("efi-modules"))?;
            fs::copy(places::cache("efi/vars.fd"), self.file("vars.fd"))?;
        } else if options.grub {
            copy_tree(&places::cache("grub"), &self.file("grub"))?;
        } else {
            return Ok(());
        }
        for name in ["monitor.in", "monitor.out"] {
            let _ = fs::remove_file(self.file(name));
            let status = Command::new("mkfifo").arg(self.file(name)).status()?;
            if !status.success() {
                return Err(format!("cannot make the FIFO {}", self.file(name).display()).into());
            }
        }
        Ok(())
    }

    fn write_script(&self, script: &GuestScript<'_>) -> VmResult<()> {
        let mut file = File::create(self.file("script"))?;
        let words = ["set", "--"].into_iter().chain(script.arguments.iter().map(String::as_str));
        writeln!(file, "{}", shlex::try_join(words)?)?;
        if Path::new(script.script).is_file() {
            file.write_all(&fs::read(script.script)?)?;
        } else {
            writeln!(file, "{}", script.script)?;
        }
        Ok(())
    }
}

/// Copies a directory with its modes and links, in place of an older copy.
pub fn copy_tree(from: &Path, to: &Path) -> VmResult<()> {
    let _ = fs::remove_dir_all(to);
    let status = Command::new("cp").arg("-a").args([from, to]).status()?;
    if status.success() { Ok(()) } else { Err(format!("cannot copy {}", from.display()).into()) }
}
