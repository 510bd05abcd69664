//! `messages`: threads that wake each other by messages, as hackbench does.

use super::{LoadEnvironment, LoadKind, LoadWork, PreparedLoad, many, own};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

/// Senders of a group, and as many receivers; hackbench has 20.
const SENDERS: usize = 4;
/// As hackbench's.
const MESSAGE_BYTES: usize = 100;

/// See the file.
#[derive(Debug)]
pub struct MessageLoad;

impl LoadKind for MessageLoad {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn summary(&self) -> &'static str {
        "threads that send each other messages (hackbench's pattern): the scheduler, wakeups"
    }

    fn page(&self) -> &'static str {
        "For each CPU a group of four threads that send and four that receive. Each sender sends \
         100 bytes to each receiver in turn, over a unix socket that holds a few messages; so \
         threads sleep and wake all the time, and the scheduler moves them between the CPUs of \
         the load. A message counts when it was received.\n\n\
         The pattern is hackbench's, with smaller groups and datagrams; the count is not \
         comparable with hackbench's time. `hackbench` runs the program itself.\n\n\
         Source: hackbench(8) of rt-tests 2.4; unix(7)."
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        let groups = site.cpus.len();
        let mut workers = Vec::new();
        for _ in 0..groups {
            group(&mut workers).map_err(|e| format!("no sockets: {e}"))?;
        }
        let what = format!(
            "{} of {SENDERS} senders and {SENDERS} receivers, {MESSAGE_BYTES} bytes a message",
            many(groups, "group")
        );
        Ok(own(what, workers))
    }
}

fn group(workers: &mut Vec<(Option<usize>, LoadWork)>) -> std::io::Result<()> {
    let mut to = Vec::new();
    for _ in 0..SENDERS {
        let (sender, receiver) = UnixDatagram::pair()?;
        to.push(sender);
        let receive: LoadWork = Box::new(move |meter| {
            let mut message = [0; MESSAGE_BYTES];
            loop {
                receiver.recv(&mut message)?;
                meter.add(1);
            }
        });
        workers.push((None, receive));
    }
    let to = Arc::new(to);
    for _ in 0..SENDERS {
        let to = Arc::clone(&to);
        let send: LoadWork = Box::new(move |_| {
            loop {
                for receiver in to.iter() {
                    receiver.send(&[0; MESSAGE_BYTES])?;
                }
            }
        });
        workers.push((None, send));
    }
    Ok(())
}
