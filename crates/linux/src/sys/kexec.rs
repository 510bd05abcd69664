//! Loading the next kernel from the running one (`kexec_file_load(2)`). It starts without the
//! firmware and the boot loader.

use crate::error::{Error, ErrorCause, Operation, Result};
use crate::host::Host;
#[cfg(not(target_arch = "aarch64"))]
use libc::SYS_kexec_file_load as CALL;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Flags of the call (include/uapi/linux/kexec.h, 6.12): unload the loaded kernel; there is no
/// initial RAM disk.
const UNLOAD: libc::c_ulong = 1;
const NO_INITRAMFS: libc::c_ulong = 4;

/// The number of the call (include/uapi/asm-generic/unistd.h, 6.12). libc lacks it for aarch64 with
/// musl.
#[cfg(target_arch = "aarch64")]
const CALL: libc::c_long = 294;

fn kexec_file_load(
    kernel: Option<&File>,
    ramdisk: Option<&File>,
    line: &CStr,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let kernel = kernel.map_or(-1, AsRawFd::as_raw_fd);
    let ramdisk = ramdisk.map_or(-1, AsRawFd::as_raw_fd);
    let length = line.count_bytes() + 1;
    // SAFETY: the descriptors are open until the call returns, the text lives as long, and `length`
    // is its length with the final zero.
    match unsafe { libc::syscall(CALL, kernel, ramdisk, length, line.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Host {
    /// Loads a kernel with its initial RAM disk and command line.
    ///
    /// # Errors
    /// A file cannot be read, or the kernel refuses. The error states the rule that forbids it, if
    /// that is known.
    pub fn kexec_load(&self, kernel: &str, initrd: Option<&str>, line: &str) -> Result<()> {
        let name = format!("kexec_file_load {kernel}");
        self.before_write(Operation::Call, &name)?;
        if !self.is_live() {
            let words = ["kexec_file_load", kernel, initrd.unwrap_or(""), line];
            return self.query_program(&words, b"").map(drop);
        }
        let image = self.open_image(kernel)?;
        let ramdisk = initrd.map(|path| self.open_image(path)).transpose()?;
        let text = CString::new(line).map_err(|e| Error::io(Operation::Call, &name, e.into()))?;
        let flags = if ramdisk.is_some() { 0 } else { NO_INITRAMFS };
        self.check_kexec(name, kexec_file_load(Some(&image), ramdisk.as_ref(), &text, flags))
    }

    /// Unloads the kernel that a reboot would start; does nothing if none is loaded.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn kexec_unload(&self) -> Result<()> {
        let name = "kexec_file_load with KEXEC_FILE_UNLOAD".to_owned();
        self.before_write(Operation::Call, &name)?;
        if !self.is_live() {
            return self.query_program(&["kexec_file_load", "--unload"], b"").map(drop);
        }
        self.check_kexec(name, kexec_file_load(None, None, c"", UNLOAD))
    }

    fn open_image(&self, path: &str) -> Result<File> {
        File::open(self.local_path(path)).map_err(Error::on(Operation::Read, path))
    }

    /// The result of the call; an error states the rule that forbids it, if that is known.
    fn check_kexec(&self, name: String, answer: io::Result<()>) -> Result<()> {
        let Err(error) = answer else { return Ok(()) };
        match self.forbidding_rule(&error) {
            Some(rule) => {
                let cause = ErrorCause::Message(format!("{rule} ({error})"));
                Err(Error { verb: Operation::Call, path: name, value: None, cause })
            }
            None => Err(Error::io(Operation::Call, &name, error)),
        }
    }

    /// The rule that forbids the call. Sources: kexec_load_permitted() in kernel/kexec_core.c,
    /// kimage_validate_signature() and kexec_file_load in kernel/kexec_file.c (6.12).
    fn forbidding_rule(&self, error: &io::Error) -> Option<String> {
        let errno = error.raw_os_error()?;
        if errno == libc::ENOSYS {
            return Some("the running kernel is built without CONFIG_KEXEC_FILE".to_owned());
        }
        if errno == libc::EBUSY {
            return Some("another program is loading a kernel".to_owned());
        }
        if [libc::EKEYREJECTED, libc::ENOKEY, libc::ENODATA, libc::EBADMSG].contains(&errno) {
            return Some("the running kernel rejects the signature of the new kernel".to_owned());
        }
        if errno != libc::EPERM {
            return None;
        }
        let lockdown = self.read("/sys/kernel/security/lockdown").unwrap_or_default();
        let mode = lockdown.split('[').nth(1).and_then(|rest| rest.split(']').next());
        if let Some(mode) = mode.filter(|mode| *mode != "none") {
            return Some(format!("the kernel is locked down ({mode}), as with Secure Boot"));
        }
        let disabled = self.read_line("/proc/sys/kernel/kexec_load_disabled").ok();
        if disabled.is_some_and(|text| text.trim() == "1") {
            let rule = "kexec is disabled until the next boot (kernel.kexec_load_disabled)";
            return Some(rule.to_owned());
        }
        Some("only root in the host's user namespace may load a kernel".to_owned())
    }
}
