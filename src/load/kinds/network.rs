//! `network`: streams over the loopback device.

use super::{LoadEnvironment, LoadKind, LoadWork, PreparedLoad, many, own, size};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Bytes of one write: the stream is many packets, not a few large ones.
const WRITE_BYTES: usize = 4 << 10;

/// See the file.
#[derive(Debug)]
pub struct NetworkLoad;

impl LoadKind for NetworkLoad {
    fn name(&self) -> &'static str {
        "network"
    }

    fn summary(&self) -> &'static str {
        "TCP streams over loopback: the network stack and its softirqs"
    }

    fn page(&self) -> &'static str {
        "For each CPU a pair of threads, one that sends a TCP stream in writes of 4 KiB \
         (TCP_NODELAY), one that receives it, over 127.0.0.1; the ports are of the kernel's \
         choice, and a stream that is not its own is not taken. Packets of loopback go through \
         the whole stack: NET_RX softirqs run on the CPU that sends. No network card takes part, \
         so there are no interrupts of one; no packet leaves the machine.\n\n\
         Bytes that were received count.\n\n\
         Source: loopback_xmit() in drivers/net/loopback.c, __netif_rx() and enqueue_to_backlog() \
         in net/core/dev.c (6.12)."
    }

    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn possible(&self, _site: &LoadEnvironment<'_>) -> Result<(), String> {
        pair().map(drop).map_err(|e| format!("no stream over 127.0.0.1: {e}"))
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        let pairs = site.cpus.len();
        let mut workers = Vec::new();
        for _ in 0..pairs {
            let (to, from) = pair().map_err(|e| format!("no stream over 127.0.0.1: {e}"))?;
            workers.push((None, receiver(from)));
            workers.push((None, sender(to)));
        }
        let each = size(WRITE_BYTES as u64);
        let what = format!("{} over 127.0.0.1, {each} a write", many(pairs, "TCP stream"));
        Ok(own(what, workers))
    }
}

/// Both ends of a stream.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = TcpStream::connect(listener.local_addr()?)?;
    let own = to.local_addr()?;
    to.set_nodelay(true)?;
    loop {
        // Another program may have called first.
        let (from, caller) = listener.accept()?;
        if caller == own {
            return Ok((to, from));
        }
    }
}

fn sender(mut to: TcpStream) -> LoadWork {
    Box::new(move |_| {
        loop {
            to.write_all(&[7; WRITE_BYTES])?;
        }
    })
}

fn receiver(mut from: TcpStream) -> LoadWork {
    Box::new(move |meter| {
        let mut bytes = vec![0; 64 << 10];
        loop {
            match from.read(&mut bytes)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                n => meter.add(n as u64),
            }
        }
    })
}
