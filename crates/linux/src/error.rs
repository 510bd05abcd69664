//! The error type of the kernel boundary: what was tried, on which file, with which value, and why
//! it failed.

use crate::files::regular::{FileKind, OpenError};
use std::fmt;
use std::io::{self, ErrorKind};

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reading a file, a link or a directory.
    Read,
    /// Writing a file.
    Write,
    /// Creating a directory.
    MakeDir,
    /// Removing a file or a directory.
    Remove,
    /// `sched_setaffinity(2)`; the path is `/proc/<tid>`.
    SetAffinity,
    /// `sched_setattr(2)`; the path is `/proc/<tid>`.
    SetScheduling,
    /// Taking the lock of a [`crate::Store`].
    Lock,
    /// Any other system call or request; the path contains its name.
    Call,
}

impl Operation {
    /// The word in messages, and in the `errors.tsv` of a recording.
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
    /// The text does not have the expected format.
    Malformed {
        /// The line in the text, from 1; 0 if the text as a whole is wrong.
        line: usize,
        /// What was expected.
        wanted: &'static str,
        /// What was found, shortened.
        found: String,
    },
    /// A test stopped the host here, as a kill would.
    Stopped,
    /// The error message of another program.
    Message(String),
    /// Another process holds the lock.
    Held {
        /// Its process ID, if it has written it already.
        pid: Option<i32>,
    },
    /// The file is not a regular file.
    NotRegular(FileKind),
    /// Another user could have written what this program would do.
    ForeignWriter {
        /// The number of the user who owns the file or its directory; `None` if the mode of one of
        /// them lets others write.
        uid: Option<u32>,
    },
    /// A namespace of this process hides a part of the machine.
    Namespace(NamespaceKind),
}

/// A kind of namespace that hides a part of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceKind {
    /// `/proc` lists only the tasks of the namespace (pid_namespaces(7)).
    Pid,
    /// A cgroup outside of the namespace is shown as `/../NAME` (cgroup_namespaces(7)).
    Cgroup,
}

impl fmt::Display for NamespaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NamespaceKind::Pid => {
                "it lists only the tasks in cpushield's own PID namespace; run cpushield in the \
                 host's PID namespace"
            }
            NamespaceKind::Cgroup => {
                "the cgroup is outside cpushield's own cgroup namespace; run cpushield in the \
                 host's cgroup namespace"
            }
        })
    }
}

impl From<OpenError> for ErrorCause {
    fn from(error: OpenError) -> ErrorCause {
        match error {
            OpenError::Io(source) => ErrorCause::Io(source),
            OpenError::Not(kind) => ErrorCause::NotRegular(kind),
            OpenError::ForeignWriter { uid } => ErrorCause::ForeignWriter { uid },
        }
    }
}

/// A failed access to the machine.
#[derive(Debug)]
pub struct Error {
    /// What was tried.
    pub verb: Operation,
    /// The path on the machine (never with the root of a recording in front).
    pub path: String,
    /// The value to be written, if any.
    pub value: Option<String>,
    /// Why it failed.
    pub cause: ErrorCause,
}

/// The result of every access to the machine.
pub type Result<T> = std::result::Result<T, Error>;

/// The answer about something; `None` if it does not exist.
///
/// # Errors
/// Any other error.
pub fn present<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Error {
    /// The kernel's error for `verb` on `path`.
    #[must_use]
    pub fn io(verb: Operation, path: &str, source: io::Error) -> Error {
        Error { verb, path: path.to_owned(), value: None, cause: ErrorCause::Io(source) }
    }

    /// Converts I/O errors of `verb` on `path`, for `map_err`.
    pub fn on(verb: Operation, path: &str) -> impl Fn(io::Error) -> Error + Copy {
        move |source| Error::io(verb, path, source)
    }

    /// Why a file was not opened.
    #[must_use]
    pub fn open(verb: Operation, path: &str, error: OpenError) -> Error {
        Error { verb, path: path.to_owned(), value: None, cause: error.into() }
    }

    /// The kernel's error, from its number.
    #[must_use]
    pub fn os(verb: Operation, path: &str, errno: i32) -> Error {
        Error::io(verb, path, io::Error::from_raw_os_error(errno))
    }

    /// A document for this path that cannot be encoded as JSON: a defect of this program.
    #[must_use]
    pub fn json(path: &str, source: serde_json::Error) -> Error {
        Error::io(Operation::Write, path, source.into())
    }

    /// There is no such task, or its ID now belongs to another task.
    #[must_use]
    pub fn no_task(tid: i32) -> Error {
        Error::os(Operation::Read, &format!("/proc/{tid}"), libc::ESRCH)
    }

    /// There is no such file or directory.
    #[must_use]
    pub fn absent(path: &str) -> Error {
        Error::os(Operation::Read, path, libc::ENOENT)
    }

    /// The text of `path` does not have the expected format.
    #[must_use]
    pub fn malformed(path: &str, line: usize, wanted: &'static str, found: &str) -> Error {
        let found = found.chars().take(60).collect();
        let cause = ErrorCause::Malformed { line, wanted, found };
        Error { verb: Operation::Read, path: path.to_owned(), value: None, cause }
    }

    /// The same error with the value to be written.
    #[must_use]
    pub fn with_value(mut self, value: &str) -> Error {
        self.value = Some(value.to_owned());
        self
    }

    /// The kernel's error number; `None` if the error is not the kernel's.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match &self.cause {
            ErrorCause::Io(source) => source.raw_os_error(),
            _ => None,
        }
    }

    /// Whether the kernel does not accept the value (EINVAL).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.errno() == Some(libc::EINVAL)
    }

    /// Whether there is no space (ENOSPC); for a cpuset: it has no CPUs or no memory nodes.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        self.errno() == Some(libc::ENOSPC)
    }

    /// Whether the file, directory, task or call does not exist (ENOENT, ESRCH, ENODEV, ENOTDIR).
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.errno(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV | libc::ENOTDIR))
    }

    /// Whether this process lacks permission (EACCES). EPERM does not count: for some files it is
    /// the kernel's answer to every process.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.errno() == Some(libc::EACCES)
    }

    /// Whether the operation is not permitted (EPERM).
    #[must_use]
    pub fn is_not_permitted(&self) -> bool {
        self.errno() == Some(libc::EPERM)
    }

    /// Whether it is EPERM or EACCES: for most files, more privileges would help.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.is_denied() || self.is_not_permitted()
    }

    /// Whether the other end of a connection has closed it without an answer.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let ErrorCause::Io(error) = &self.cause else { return false };
        let kind = error.kind();
        [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe]
            .contains(&kind)
    }

    /// Whether another process holds the lock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.cause, ErrorCause::Held { .. })
    }

    /// The process that holds the lock, if it is known.
    #[must_use]
    pub fn holder(&self) -> Option<i32> {
        match self.cause {
            ErrorCause::Held { pid } => pid,
            _ => None,
        }
    }

    /// Whether a test stopped the host here.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(self.cause, ErrorCause::Stopped)
    }

    /// Whether the object does not support the operation (EOPNOTSUPP); for the list of processes of
    /// a cgroup: it is threaded, and the group above lists them (`cgroup_procs_start()`,
    /// kernel/cgroup/cgroup.c, 4.14 to 7.0).
    #[must_use]
    pub fn is_not_supported(&self) -> bool {
        self.errno() == Some(libc::EOPNOTSUPP)
    }

    /// Whether the object is in use (EBUSY).
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.errno() == Some(libc::EBUSY)
    }

    /// The reason alone, with the error's name and the kernel's text: `EIO: Input/output error`.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.cause {
            ErrorCause::Io(source) => match source.raw_os_error() {
                Some(errno) => match ERRORS.iter().find(|(number, ..)| *number == errno) {
                    Some((_, name, text)) => format!("{name}: {text}"),
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
            ErrorCause::Message(message) => message.clone(),
            ErrorCause::Held { pid: Some(pid) } => format!("process {pid} holds the lock"),
            ErrorCause::Held { pid: None } => "another process holds the lock".to_owned(),
            ErrorCause::NotRegular(kind) => format!("it is {kind}, not a regular file"),
            ErrorCause::ForeignWriter { uid: Some(uid) } => {
                format!("it or its directory belongs to user {uid}; this program would obey it")
            }
            ErrorCause::ForeignWriter { uid: None } => {
                "other users may write it, or into its directory (chmod go-w); this program would \
                 obey it"
                    .to_owned()
            }
            ErrorCause::Namespace(kind) => kind.to_string(),
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
/// texts. The texts are kept here because C libraries differ, and a recording must give the same
/// message everywhere.
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
