//! The one error of the kernel boundary: what was tried, on which file, with which value, and why
//! it failed.

use crate::regular::{FileKind, OpenError};
use std::fmt;
use std::io;

/// What was being done when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reading a file, a link or a directory.
    Read,
    /// Writing a file.
    Write,
    /// Making a directory.
    MakeDir,
    /// Removing a file or a directory.
    Remove,
    /// `sched_setaffinity(2)`; the path is `/proc/<tid>`.
    SetAffinity,
    /// `sched_setattr(2)`; the path is `/proc/<tid>`.
    SetScheduling,
    /// Taking the lock of a [`crate::Store`].
    Lock,
    /// Any other system call or request; the path names it.
    Call,
}

impl Operation {
    /// The word in messages and in the `errors.tsv` of a recording.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::MakeDir => "make",
            Operation::Remove => "remove",
            Operation::SetAffinity => "set-affinity",
            Operation::SetScheduling => "set-scheduling",
            Operation::Lock => "lock",
            Operation::Call => "call",
        }
    }

    /// The inverse of [`Operation::word`].
    #[must_use]
    pub fn from_word(word: &str) -> Option<Operation> {
        [
            Operation::Read,
            Operation::Write,
            Operation::MakeDir,
            Operation::Remove,
            Operation::SetAffinity,
            Operation::SetScheduling,
            Operation::Lock,
            Operation::Call,
        ]
        .into_iter()
        .find(|verb| verb.word() == word)
    }
}

/// Why it failed.
#[derive(Debug)]
pub enum ErrorCause {
    /// The kernel's error.
    Io(io::Error),
    /// The text is not what the file's format says.
    Malformed {
        /// Line in the text, from 1; 0 when the text as a whole is wrong.
        line: usize,
        /// What was expected there.
        wanted: &'static str,
        /// What was there instead, shortened.
        found: String,
    },
    /// A test stopped the host here, as a kill would.
    Stopped,
    /// What another program said about it.
    Said(String),
    /// Another process holds the lock.
    Held {
        /// Its number, when it has written it already.
        pid: Option<u32>,
    },
    /// Something else lies where a regular file should be.
    NotRegular(FileKind),
}

impl From<OpenError> for ErrorCause {
    fn from(error: OpenError) -> ErrorCause {
        match error {
            OpenError::Io(source) => ErrorCause::Io(source),
            OpenError::Not(kind) => ErrorCause::NotRegular(kind),
        }
    }
}

/// A failed access to the machine.
#[derive(Debug)]
pub struct Error {
    /// What was being done.
    pub verb: Operation,
    /// The kernel's path (never with the root of a recording in front).
    pub path: String,
    /// The value that was to be written, if any.
    pub value: Option<String>,
    /// Why it failed.
    pub cause: ErrorCause,
}

/// The result of every access to the machine.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The kernel's error to `verb` on `path`.
    #[must_use]
    pub fn io(verb: Operation, path: &str, source: io::Error) -> Error {
        Error { verb, path: path.to_owned(), value: None, cause: ErrorCause::Io(source) }
    }

    /// Why a file was not opened.
    #[must_use]
    pub fn open(verb: Operation, path: &str, error: OpenError) -> Error {
        Error { verb, path: path.to_owned(), value: None, cause: error.into() }
    }

    /// The kernel's error as an error number.
    #[must_use]
    pub fn os(verb: Operation, path: &str, errno: i32) -> Error {
        Error::io(verb, path, io::Error::from_raw_os_error(errno))
    }

    /// There is no such task, or its number belongs to another one by now.
    #[must_use]
    pub fn no_task(tid: i32) -> Error {
        Error::os(Operation::Read, &format!("/proc/{tid}"), libc::ESRCH)
    }

    /// There is no such file or directory.
    #[must_use]
    pub fn absent(path: &str) -> Error {
        Error::os(Operation::Read, path, libc::ENOENT)
    }

    /// Text at `path` that is not what its format says.
    #[must_use]
    pub fn malformed(path: &str, line: usize, wanted: &'static str, found: &str) -> Error {
        let found = found.chars().take(60).collect();
        let cause = ErrorCause::Malformed { line, wanted, found };
        Error { verb: Operation::Read, path: path.to_owned(), value: None, cause }
    }

    /// The same error, with the value that was being written.
    #[must_use]
    pub fn with_value(mut self, value: &str) -> Error {
        self.value = Some(value.to_owned());
        self
    }

    /// The kernel's error number, when it was the kernel that answered.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match &self.cause {
            ErrorCause::Io(source) => source.raw_os_error(),
            _ => None,
        }
    }

    /// The kernel does not take the value (EINVAL).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.errno() == Some(libc::EINVAL)
    }

    /// There is no room for it (ENOSPC); of a cpuset: it has no CPUs or no memory nodes.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        self.errno() == Some(libc::ENOSPC)
    }

    /// The file, directory, task or call is not there (ENOENT, ESRCH, ENODEV, ENOTDIR).
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.errno(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV | libc::ENOTDIR))
    }

    /// This process has not the right (EACCES). EPERM is not meant: for some files it is the
    /// kernel's answer to anybody.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.errno() == Some(libc::EACCES)
    }

    /// Another process holds the lock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.cause, ErrorCause::Held { .. })
    }

    /// The process that holds the lock, where it says so.
    #[must_use]
    pub fn holder(&self) -> Option<i32> {
        match self.cause {
            ErrorCause::Held { pid } => pid.and_then(|pid| i32::try_from(pid).ok()),
            _ => None,
        }
    }

    /// A test stopped the host here.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(self.cause, ErrorCause::Stopped)
    }

    /// It is in use (EBUSY).
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.errno() == Some(libc::EBUSY)
    }

    /// The reason alone, with the error's name and the kernel's words: `EIO: Input/output error`.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.cause {
            ErrorCause::Io(source) => match source.raw_os_error() {
                Some(errno) => match ERRORS.iter().find(|(number, ..)| *number == errno) {
                    Some((_, name, words)) => format!("{name}: {words}"),
                    None => {
                        let text = source.to_string();
                        let text = text.split(" (os error").next().unwrap_or(&text);
                        format!("errno {errno}: {text}")
                    }
                },
                None => source.to_string(),
            },
            ErrorCause::Malformed { line, wanted, found } => {
                if *line == 0 {
                    format!("expected {wanted}, found {found:?}")
                } else {
                    format!("line {line}: expected {wanted}, found {found:?}")
                }
            }
            ErrorCause::Stopped => "stopped".to_owned(),
            ErrorCause::Said(words) => words.clone(),
            ErrorCause::Held { pid: Some(pid) } => format!("process {pid} is at work on it"),
            ErrorCause::Held { pid: None } => "another process is at work on it".to_owned(),
            ErrorCause::NotRegular(kind) => format!("it is {kind}, not a regular file"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.verb.word(), self.path)?;
        if let Some(value) = &self.value {
            write!(f, " (value {value:?})")?;
        }
        write!(f, ": {}", self.reason())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            ErrorCause::Io(source) => Some(source),
            _ => None,
        }
    }
}

/// The error numbers that matter here (include/uapi/asm-generic/errno*.h) with their names and
/// words. The words are kept here because C libraries word them differently, and a recording must
/// say the same everywhere.
const ERRORS: &[(i32, &str, &str)] = &[
    (libc::EPERM, "EPERM", "Operation not permitted"),
    (libc::ENOENT, "ENOENT", "No such file or directory"),
    (libc::ESRCH, "ESRCH", "No such process"),
    (libc::EINTR, "EINTR", "Interrupted system call"),
    (libc::EIO, "EIO", "Input/output error"),
    (libc::E2BIG, "E2BIG", "Argument list too long"),
    (libc::EBADF, "EBADF", "Bad file descriptor"),
    (libc::EAGAIN, "EAGAIN", "Resource temporarily unavailable"),
    (libc::ENOMEM, "ENOMEM", "Cannot allocate memory"),
    (libc::EACCES, "EACCES", "Permission denied"),
    (libc::EBUSY, "EBUSY", "Device or resource busy"),
    (libc::EEXIST, "EEXIST", "File exists"),
    (libc::ENODEV, "ENODEV", "No such device"),
    (libc::ENOTDIR, "ENOTDIR", "Not a directory"),
    (libc::EISDIR, "EISDIR", "Is a directory"),
    (libc::EINVAL, "EINVAL", "Invalid argument"),
    (libc::ENOSPC, "ENOSPC", "No space left on device"),
    (libc::EROFS, "EROFS", "Read-only file system"),
    (libc::ENOTEMPTY, "ENOTEMPTY", "Directory not empty"),
    (libc::ENOSYS, "ENOSYS", "Function not implemented"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP", "Operation not supported"),
    (libc::ETIMEDOUT, "ETIMEDOUT", "Connection timed out"),
    (libc::ECONNREFUSED, "ECONNREFUSED", "Connection refused"),
    (libc::ENXIO, "ENXIO", "No such device or address"),
    (libc::EDQUOT, "EDQUOT", "Disk quota exceeded"),
    (libc::EFBIG, "EFBIG", "File too large"),
    (libc::ELOOP, "ELOOP", "Too many levels of symbolic links"),
    (libc::EOVERFLOW, "EOVERFLOW", "Value too large for defined data type"),
];

/// The name of an error number, or `errno N`.
#[must_use]
pub fn errno_name(errno: i32) -> String {
    ERRORS
        .iter()
        .find(|(number, ..)| *number == errno)
        .map_or_else(|| format!("errno {errno}"), |(_, name, _)| (*name).to_owned())
}

/// The number of an error name, as [`errno_name`] prints it.
#[must_use]
pub fn errno_number(name: &str) -> Option<i32> {
    ERRORS
        .iter()
        .find(|(_, known, _)| *known == name)
        .map(|(number, ..)| *number)
        .or_else(|| name.strip_prefix("errno ")?.parse().ok())
}
