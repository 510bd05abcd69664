//! Asks irqbalance over its socket to leave CPUs alone; never stops it.
//!
//! The protocol is that of irqbalance 1.2 to 1.9.5 (irqbalance.c `sock_handle()`, commit d1993bc):
//! one request per connection, with the credentials of root attached. The answer to `setup` is
//! `SLEEP 10 … BANNED 00000008`. `settings cpus 3` (a list, though the answer is a mask) and
//! `settings cpus NULL` (the CPUs of its own configuration) have no answer. They take effect at its
//! next scan, by default within ten seconds, and are forgotten when it ends. It reads a request
//! that was sent in any case, even if it is busy first.

use crate::cpuset::CpuSet;
use crate::error::{Error, Operation, Result, present};
use crate::host::Host;
use crate::sys::signal::stopped_by;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, UCred, sendmsg};
use rustix::process::{getgid, getpid, getuid};
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

/// The directory of its sockets: `irqbalance<pid>.sock`.
const DIR: &str = "/run/irqbalance";
/// The socket that it binds if the directory is missing: an abstract name of zeros.
const ABSTRACT: &str = "@irqbalance";
/// The bytes of `sun_path` after the first one (unix(7)).
const ABSTRACT_LEN: usize = 107;
/// How long to wait for an answer. It answers from its main loop, which a scan may delay.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The longest interval to wait for a scan.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// How long a scan may take.
const SCAN_TIME: Duration = Duration::from_secs(2);
/// The time between two questions while waiting.
const STEP: Duration = Duration::from_millis(250);
/// The time between scans if an answer does not have it (irqbalance(1), `--interval`).
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// A running irqbalance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrqbalanceProcess {
    /// Its process ID, if its socket contains it.
    pub pid: Option<i32>,
    /// Its socket, for messages; its name contains [`IrqbalanceProcess::pid`].
    pub socket: String,
    /// The CPUs that it leaves alone.
    pub banned: CpuSet,
    /// The time between its scans.
    pub scan_interval: Duration,
}

impl Host {
    /// The running irqbalance; `None` if there is none.
    ///
    /// # Errors
    /// It runs but does not answer, or its answer has an unknown format.
    pub fn irqbalance(&self) -> Result<Option<IrqbalanceProcess>> {
        for socket in self.irqbalance_sockets()? {
            let answer = match self.send_request(&socket, "setup") {
                // A socket that a killed irqbalance left behind.
                Err(error) if error.is_absent() || error.errno() == Some(libc::ECONNREFUSED) => {
                    continue;
                }
                other => other?,
            };
            let banned = parse_banned(&answer)
                .ok_or_else(|| Error::malformed(&socket, 1, "`BANNED` and a CPU mask", &answer))?;
            let (pid, scan_interval) = (pid_from_socket(&socket), parse_interval(&answer));
            return Ok(Some(IrqbalanceProcess { pid, socket, banned, scan_interval }));
        }
        Ok(None)
    }

    /// The running irqbalance with the CPUs that it leaves alone after all earlier requests. Until
    /// its next scan, its answer may be older than a request. So if the answer differs from its
    /// configuration, this waits until the answer changes, or until a scan must have been made.
    ///
    /// # Errors
    /// As [`Host::irqbalance`]; EINTR if a signal has asked this process to stop since.
    pub fn settled_irqbalance(&self) -> Result<Option<IrqbalanceProcess>> {
        let Some(first) = self.irqbalance()? else { return Ok(None) };
        if first.banned == self.configured_ban(&first) {
            return Ok(Some(first));
        }
        if !self.is_live() {
            self.kernel.as_ref().map_or(Ok(()), |kernel| kernel.scan(self))?;
            return self.irqbalance();
        }
        let interval = first.scan_interval.min(INTERVAL_MAX);
        let end = Instant::now() + interval + SCAN_TIME;
        // An undo after a signal still needs the right answer.
        let stopped_before = stopped_by();
        loop {
            std::thread::sleep(STEP);
            if stopped_by() != stopped_before {
                return Err(Error::os(Operation::Call, &first.socket, libc::EINTR));
            }
            let now = self.irqbalance()?;
            if now.as_ref() != Some(&first) || Instant::now() >= end {
                return Ok(now);
            }
        }
    }

    /// The CPUs that a running irqbalance leaves alone without a request: those in its environment,
    /// else the default (cputree.c `setup_banned_cpus()`, 1.9).
    fn configured_ban(&self, irqbalance: &IrqbalanceProcess) -> CpuSet {
        let environment = irqbalance.pid.map(|pid| self.read(&format!("/proc/{pid}/environ")));
        let environment = environment.and_then(Result::ok).unwrap_or_default();
        let value = |name: &str| {
            let mut variables = environment.split('\0').filter_map(|it| it.split_once('='));
            variables.find(|(key, value)| *key == name && !value.is_empty()).map(|it| it.1)
        };
        let mask = value("IRQBALANCE_BANNED_CPUS").and_then(|it| CpuSet::parse_mask(it).ok());
        let list = || value("IRQBALANCE_BANNED_CPULIST").and_then(|it| it.trim().parse().ok());
        mask.or_else(list).unwrap_or_else(|| self.irqbalance_default())
    }

    fn irqbalance_sockets(&self) -> Result<Vec<String>> {
        let names = present(self.list(DIR))?.unwrap_or_default();
        let sockets = names.into_iter().filter(|name| name.ends_with(".sock"));
        let mut sockets: Vec<String> = sockets.map(|name| format!("{DIR}/{name}")).collect();
        if self.is_live() {
            sockets.push(ABSTRACT.to_owned());
        }
        Ok(sockets)
    }

    /// Sets which CPUs irqbalance leaves alone from now on; `None` restores its own configuration.
    /// It is not an error of this call if irqbalance never applies the request. After an error, the
    /// request was not sent.
    ///
    /// # Errors
    /// It is gone or does not accept the request.
    pub fn ban_from_irqbalance(
        &self,
        irqbalance: &IrqbalanceProcess,
        cpus: Option<&CpuSet>,
    ) -> Result<()> {
        let list = match cpus {
            // irqbalance dereferences a null pointer if no word follows.
            Some(cpus) if !cpus.is_empty() => cpus.to_string(),
            _ => "NULL".to_owned(),
        };
        let request = format!("settings cpus {list}");
        let socket = &irqbalance.socket;
        self.before_write(Operation::Call, socket).map_err(|e| e.with_value(&request))?;
        if let Some(kernel) = &self.kernel {
            return kernel.ban(self, socket, cpus);
        }
        let sent = self.send(socket, &request).map_err(Error::on(Operation::Call, socket));
        let mut stream = sent.map_err(|e| e.with_value(&request))?;
        // It closes the connection when it has read the request. A busy one reads it later than
        // this waits.
        let _ = stream.read_to_string(&mut String::new());
        Ok(())
    }

    /// The CPUs that irqbalance leaves alone by default: those isolated at boot and those without a
    /// tick (cputree.c `setup_banned_cpus()`).
    #[must_use]
    pub fn irqbalance_default(&self) -> CpuSet {
        self.boot_cpus("isolated").union(&self.boot_cpus("nohz_full"))
    }

    fn boot_cpus(&self, name: &str) -> CpuSet {
        let text = self.read_line(&format!("/sys/devices/system/cpu/{name}")).ok();
        text.and_then(|text| text.parse::<CpuSet>().ok()).unwrap_or_default()
    }

    /// Sends one request and returns the answer, which may be empty.
    fn send_request(&self, socket: &str, request: &str) -> Result<String> {
        if !self.is_live() {
            return self.read(socket);
        }
        self.exchange(socket, request).map_err(Error::on(Operation::Call, socket))
    }

    fn exchange(&self, socket: &str, request: &str) -> io::Result<String> {
        let mut answer = String::new();
        self.send(socket, request)?.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Sends one request over a new connection.
    fn send(&self, socket: &str, request: &str) -> io::Result<UnixStream> {
        let stream = if socket == ABSTRACT {
            let name = [0u8; ABSTRACT_LEN];
            UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?
        } else {
            UnixStream::connect(self.local_path(socket))?
        };
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        send_with_credentials(&stream, request.as_bytes())?;
        Ok(stream)
    }
}

fn pid_from_socket(socket: &str) -> Option<i32> {
    let name = socket.rsplit('/').next()?;
    name.strip_prefix("irqbalance")?.strip_suffix(".sock")?.parse().ok()
}

/// The mask after `BANNED` in the answer to `setup`.
fn parse_banned(answer: &str) -> Option<CpuSet> {
    let mask = answer.rsplit_once("BANNED ")?.1;
    CpuSet::parse_mask(mask.trim()).ok()
}

/// The seconds after `SLEEP`.
fn parse_interval(answer: &str) -> Duration {
    let mut words = answer.split_whitespace().skip_while(|word| *word != "SLEEP").skip(1);
    let seconds = words.next().and_then(|word| word.parse().ok());
    seconds.map_or(DEFAULT_INTERVAL, Duration::from_secs)
}

/// Sends bytes with `SCM_CREDENTIALS` of this process (unix(7)), which irqbalance checks.
fn send_with_credentials(stream: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    let credentials = UCred { pid: getpid(), uid: getuid(), gid: getgid() };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmCredentials(credentials)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    match sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)? {
        sent if sent == bytes.len() => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_answer_to_setup_is_parsed() {
        // irqbalance 1.9.4, one banned interrupt.
        let answer = "SLEEP 10 IRQ 9 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000,0000000c";
        assert_eq!(parse_banned(answer).unwrap().to_string(), "2-3");
        assert_eq!(parse_banned("SLEEP 10 BANNED 0"), Some(CpuSet::new()));
        assert_eq!(parse_banned("SLEEP 10 "), None);
        assert_eq!(parse_interval("SLEEP 30 BANNED 0"), Duration::from_secs(30));
        assert_eq!(parse_interval("BANNED 0"), DEFAULT_INTERVAL);
        assert_eq!(pid_from_socket("/run/irqbalance/irqbalance812.sock"), Some(812));
        assert_eq!(pid_from_socket(ABSTRACT), None);
    }

    #[test]
    fn a_message_carries_the_credentials() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_with_credentials(&ours, b"setup").unwrap();
        drop(ours);
        let mut text = String::new();
        (&theirs).read_to_string(&mut text).unwrap();
        assert_eq!(text, "setup");
    }

    /// It waits for 3 seconds.
    #[test]
    fn a_request_that_is_read_late_is_no_error() {
        let name = format!("cpushield-irqbalance-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let busy = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let irqbalance = IrqbalanceProcess {
            pid: None,
            socket: path.display().to_string(),
            banned: CpuSet::new(),
            scan_interval: DEFAULT_INTERVAL,
        };
        Host::live().ban_from_irqbalance(&irqbalance, Some(&CpuSet::single(3))).unwrap();
        let mut text = String::new();
        busy.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "settings cpus 3");
        drop(busy);
        assert!(Host::live().ban_from_irqbalance(&irqbalance, None).is_err());
        std::fs::remove_file(path).unwrap();
    }

    proptest! {
        #[test]
        fn no_answer_makes_the_parser_panic(text in ".{0,60}") {
            let _ = parse_banned(&text);
            let _ = pid_from_socket(&text);
        }
    }
}
