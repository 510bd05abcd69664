//! `network`: streams over the loopback device.

use super::{
    LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, format_bytes, prepare_own,
};
use crate::documents::count_text::many;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// The size of a write: small, so that the stream has many packets.
const WRITE_BYTES: usize = 4 << 10;

pub(super) const NETWORK: LoadKind = LoadKind {
    name: "network",
    summary: "TCP streams over loopback: the network stack and its softirqs",
    page: "For each CPU, a pair of threads uses a TCP stream over 127.0.0.1: one sends 4 KiB per \
     write (TCP_NODELAY), the other receives. The kernel chooses the ports, and connections \
     from other programs are dropped. Loopback packets pass through TCP and IP in both \
     directions. Their NET_RX softirqs run on the sending CPU, unless RPS or RFS of lo \
     names another. No network card raises interrupts, and no packet leaves the machine.\n\n\
     The count is the number of bytes received.\n\n\
     Source: loopback_xmit() in drivers/net/loopback.c, __netif_rx() and enqueue_to_backlog() \
     in net/core/dev.c (6.12).",
    unit: "bytes",
    check_possible,
    prepare,
    ..LoadKind::PLAIN
};

fn check_possible(_environment: &LoadEnvironment<'_>) -> Result<(), LoadRefusal> {
    connect_pair().map(drop)
}

fn prepare(environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
    let pairs = environment.cpus.len();
    let mut workers = Vec::new();
    for _ in 0..pairs {
        let (to, from) = connect_pair()?;
        workers.push((None, make_receiver(from)));
        workers.push((None, make_sender(to)));
    }
    let each = format_bytes(WRITE_BYTES as u64);
    let what = format!("{} over 127.0.0.1, {each} per write", many(pairs, "TCP stream"));
    Ok(prepare_own(what, workers))
}

/// Connects both ends of a stream.
fn connect_pair() -> Result<(TcpStream, TcpStream), LoadRefusal> {
    try_connect_pair().map_err(|e| LoadRefusal::NoConnection { answer: e.to_string() })
}

fn try_connect_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = TcpStream::connect(listener.local_addr()?)?;
    let own = to.local_addr()?;
    to.set_nodelay(true)?;
    loop {
        // Another program may have connected first.
        let (from, caller) = listener.accept()?;
        if caller == own {
            return Ok((to, from));
        }
    }
}

fn make_sender(mut to: TcpStream) -> LoadWork {
    Box::new(move |_| {
        loop {
            to.write_all(&[7; WRITE_BYTES])?;
        }
    })
}

fn make_receiver(mut from: TcpStream) -> LoadWork {
    Box::new(move |counter| {
        let mut bytes = vec![0; 64 << 10];
        loop {
            match from.read(&mut bytes)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                n => counter.add(n as u64),
            }
        }
    })
}
