//! `messages`: threads that wake each other with messages, as hackbench does.

use super::{LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, prepare_own};
use crate::documents::count_text::many;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

/// The senders of a group; it has as many receivers. Groups of hackbench have 20.
const SENDERS: usize = 4;
/// The size of a message, as in hackbench.
const MESSAGE_BYTES: usize = 100;

pub(super) const MESSAGES: LoadKind = LoadKind {
    name: "messages",
    summary: "threads that send each other messages, as in hackbench: the scheduler and wakeups",
    page: "Each CPU adds a group of four senders and four receivers. Each sender sends 100 bytes to \
     each receiver in turn, over a unix socket that holds only a few messages. So the threads \
     sleep and wake all the time, and the scheduler moves them between the CPUs of the \
     load.\n\n\
     The count is the number of messages received. The pattern is that of hackbench, with \
     smaller groups and with datagrams, so the count is not comparable with the time that \
     hackbench reports. `--load hackbench` runs that program.\n\n\
     Source: hackbench(8) of rt-tests 2.4; unix(7).",
    unit: "messages",
    prepare,
    ..LoadKind::PLAIN
};

fn prepare(environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
    let groups = environment.cpus.len();
    let mut workers = Vec::new();
    for _ in 0..groups {
        add_group(&mut workers).map_err(|e| LoadRefusal::NoSockets { answer: e.to_string() })?;
    }
    let what = format!(
        "{} of {SENDERS} senders and {SENDERS} receivers, {MESSAGE_BYTES} bytes per message",
        many(groups, "group")
    );
    Ok(prepare_own(what, workers))
}

/// Adds the workers of one group.
fn add_group(workers: &mut Vec<(Option<usize>, LoadWork)>) -> io::Result<()> {
    let mut senders = Vec::new();
    for _ in 0..SENDERS {
        let (sender, receiver) = UnixDatagram::pair()?;
        senders.push(sender);
        let receive: LoadWork = Box::new(move |counter| {
            let mut message = [0; MESSAGE_BYTES];
            loop {
                receiver.recv(&mut message)?;
                counter.add(1);
            }
        });
        workers.push((None, receive));
    }
    let senders = Arc::new(senders);
    for _ in 0..SENDERS {
        let senders = Arc::clone(&senders);
        let send: LoadWork = Box::new(move |_| {
            loop {
                for sender in senders.iter() {
                    sender.send(&[0; MESSAGE_BYTES])?;
                }
            }
        });
        workers.push((None, send));
    }
    Ok(())
}
