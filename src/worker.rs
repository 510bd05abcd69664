//! The protocol of worker processes. A worker is another process of this program that serves its
//! parent, because its job needs separate memory or a cgroup. The parent starts it with a first
//! request, and each request gets one reply. The worker ends after its last reply, or when its
//! parent drops it or is gone. Messages are lines of JSON.
//!
//! Elsewhere: what the requests of a protocol mean. The watchdog of `try` is no worker, because it
//! survives its parent.

use cpushield_linux::Host;
use cpushield_linux::processes::worker_process::{WorkerEnd, WorkerProcess};
use cpushield_sentence::Sentence;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

/// What a kind of worker receives and sends.
pub trait WorkerProtocol {
    /// The internal subcommand that runs the worker.
    const SUBCOMMAND: &'static str;
    /// The longest time until a reply.
    const TIMEOUT: Duration;
    /// What the parent asks for.
    type Request: Serialize + DeserializeOwned;
    /// The answer to a request.
    type Reply: Serialize + DeserializeOwned + fmt::Debug;
    /// Why there is no such answer.
    type Failure: Serialize + DeserializeOwned + From<WorkerFailure>;

    /// Whether the worker ends after this reply.
    #[must_use]
    fn is_last(_reply: &Self::Reply) -> bool {
        false
    }
}

/// Why the parent gets no answer from its worker.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum WorkerFailure {
    /// cannot start the process: {answer}.
    NotStarted {
        /// The kernel's answer.
        answer: String,
    },
    /// the process has ended: {error}.
    Ended {
        /// How that was noticed.
        error: String,
    },
    /// the process does not answer: {error}.
    NoReply {
        /// The error of the wait.
        error: String,
    },
    /// cannot parse a message: {error}.
    Malformed {
        /// What is wrong.
        error: String,
    },
    /// the process sent an unexpected answer: {reply}.
    Unexpected {
        /// The reply.
        reply: String,
    },
}

impl WorkerFailure {
    /// The failure for a reply that does not belong to the request.
    #[must_use]
    pub fn unexpected(reply: &impl fmt::Debug) -> WorkerFailure {
        WorkerFailure::Unexpected { reply: format!("{reply:?}") }
    }
}

impl From<WorkerFailure> for String {
    fn from(failure: WorkerFailure) -> String {
        failure.to_string()
    }
}

/// A worker as its parent sees it. Dropping it ends the process.
#[derive(Debug)]
pub struct WorkerClient<P> {
    process: WorkerProcess,
    protocol: PhantomData<fn() -> P>,
}

impl<P: WorkerProtocol> WorkerClient<P> {
    /// Starts the process, and sends the first request. The process writes to the log of this host.
    ///
    /// # Errors
    /// The process cannot be started, or it cannot do what the request says.
    pub fn start(
        host: &Host,
        request: &P::Request,
    ) -> Result<(WorkerClient<P>, P::Reply), P::Failure> {
        let mut words = vec![OsString::from(P::SUBCOMMAND)];
        words.extend(host.log_path().map(log_argument));
        let process = WorkerProcess::start(host, &words)
            .map_err(|e| WorkerFailure::NotStarted { answer: e.to_string() })?;
        let mut client = WorkerClient { process, protocol: PhantomData };
        let reply = client.request(request);
        reply.map(|reply| (client, reply))
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// The worker is gone, does not answer, or cannot do what the request says.
    pub fn request(&mut self, request: &P::Request) -> Result<P::Reply, P::Failure> {
        let line = self.exchange(request)?;
        parse_message::<Result<P::Reply, P::Failure>>(&line)?
    }

    fn exchange(&mut self, request: &P::Request) -> Result<String, WorkerFailure> {
        let line = serde_json::to_string(request)
            .map_err(|e| WorkerFailure::Malformed { error: e.to_string() })?;
        self.process.send(&line).map_err(|e| WorkerFailure::Ended { error: e.to_string() })?;
        self.process.receive(P::TIMEOUT).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => WorkerFailure::Ended { error: e.to_string() },
            _ => WorkerFailure::NoReply { error: e.to_string() },
        })
    }
}

/// The argument that makes another process of this program write to this log.
#[must_use]
pub fn log_argument(log: &Path) -> OsString {
    let mut word = OsString::from("--log=");
    word.push(log);
    word
}

fn parse_message<T: DeserializeOwned>(line: &str) -> Result<T, WorkerFailure> {
    serde_json::from_str(line).map_err(|e| WorkerFailure::Malformed { error: e.to_string() })
}

/// Runs the worker: answers the requests of the parent until it ends.
pub fn serve<P: WorkerProtocol>(
    mut handle: impl FnMut(P::Request) -> Result<P::Reply, P::Failure>,
) {
    let parent = WorkerEnd::start();
    while let Some(line) = parent.next() {
        let reply = parse_message(&line).map_err(P::Failure::from).and_then(&mut handle);
        let is_last = reply.as_ref().is_ok_and(P::is_last);
        // The parent reports a line that it cannot parse.
        let line = serde_json::to_string(&reply).unwrap_or_default();
        if parent.answer(&line).is_err() || is_last {
            break;
        }
    }
}
