//! The threads of the gentle load. Each loop is short and mostly sleeps. The load is noticeable,
//! but it does not overload a machine whose housekeeping CPUs then carry all of it.

use cpushield_linux::{CpuSet, sys::sched};
use std::hint::black_box;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Pairs of threads that send each other messages.
const PAIRS: usize = 1;
/// Threads that allocate and free memory. A TLB shootdown needs two: one CPU notifies the other.
const ALLOCATORS: usize = 2;
/// Above the limits from which glibc and musl return freed memory to the kernel at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Starts all threads. They end soon after `stop` is set, and at the latest with the process.
///
/// # Errors
/// A thread, a pipe or a socket cannot be made.
pub fn start(cpus: &CpuSet, stop: &Arc<AtomicBool>) -> io::Result<()> {
    for _ in 0..PAIRS {
        let (to_there, from_here) = io::pipe()?;
        let (to_here, from_there) = io::pipe()?;
        spawn(stop, move |stop| echo(to_there, from_there, stop))?;
        spawn(stop, move |stop| request_echoes(from_here, to_here, stop))?;
    }
    for _ in 0..ALLOCATORS {
        spawn(stop, allocate)?;
    }
    for cpu in cpus.iter() {
        spawn(stop, move |stop| pin_and_work(cpu, stop))?;
    }
    spawn(stop, spawn_short_threads)?;
    spawn(stop, |stop| {
        // Without a loopback device, this part of the load is missing.
        let _ = send_packets(stop);
    })
}

fn spawn(
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(&AtomicBool) + Send + 'static,
) -> io::Result<()> {
    let stop = Arc::clone(stop);
    thread::Builder::new().name("load".to_owned()).spawn(move || work(&stop)).map(drop)
}

fn is_running(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        black_box(start);
    }
}

/// Repeatedly sends a message and waits for the answer.
fn request_echoes(mut to: PipeWriter, mut from: PipeReader, stop: &AtomicBool) {
    let mut message = [0; 64];
    while is_running(stop) {
        for _ in 0..10 {
            if to.write_all(&message).is_err() || from.read_exact(&mut message).is_err() {
                return;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Answers messages until the other side is closed.
fn echo(mut from: PipeReader, mut to: PipeWriter, stop: &AtomicBool) {
    let mut message = [0; 64];
    while is_running(stop) && from.read_exact(&mut message).is_ok() {
        if to.write_all(&message).is_err() {
            return;
        }
    }
}

/// Allocates memory, writes to it and frees it: page faults and TLB shootdowns.
fn allocate(stop: &AtomicBool) {
    while is_running(stop) {
        let mut chunk = vec![0u8; CHUNK_BYTES];
        for byte in chunk.iter_mut().step_by(4096) {
            *byte = 1;
        }
        black_box(&chunk);
        drop(chunk);
        thread::sleep(Duration::from_millis(20));
    }
}

/// Pins itself to a CPU, if the kernel allows that, and works there every millisecond.
fn pin_and_work(cpu: usize, stop: &AtomicBool) {
    while is_running(stop) {
        // A shield answers EINVAL; then this thread works on any other CPU.
        let _ = sched::set_affinity(0, &CpuSet::single(cpu));
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(1));
            spin(Duration::from_micros(50));
        }
    }
}

/// Starts threads that end soon.
fn spawn_short_threads(stop: &AtomicBool) {
    while is_running(stop) {
        let child = thread::Builder::new().spawn(|| spin(Duration::from_micros(500)));
        thread::sleep(Duration::from_millis(20));
        if let Ok(child) = child {
            // A thread that only spins cannot panic.
            let _ = child.join();
        }
    }
}

/// Sends packets to itself over loopback.
fn send_packets(stop: &AtomicBool) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut packet = [0; 512];
    while is_running(stop) {
        socket.send(&packet)?;
        socket.recv(&mut packet)?;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
