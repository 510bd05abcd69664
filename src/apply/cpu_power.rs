//! Brings CPUs online, for the kinds of changes that take CPUs offline.

use cpushield_linux::{Host, Result};
use std::time::Duration;

/// The number of attempts to bring a CPU online, and the pause between them.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The file that takes a CPU offline and online.
pub(super) fn online_file(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// Tries to bring a CPU online; returns the reason when it stays offline.
pub(super) fn write_until_online(host: &Host, path: &str) -> Result<Option<String>> {
    let mut reason = None;
    for n in 0..TRIES {
        match host.write(path, "1") {
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => reason = Some(error.reason()),
            Ok(()) => reason = Some("the write succeeded but had no effect".to_owned()),
        }
        if host.read_line(path)? == "1" {
            return Ok(None);
        }
        if host.is_live() && n + 1 < TRIES {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(reason)
}

/// Brings a CPU online that was left offline; returns the reason when it stays offline.
pub(super) fn bring_online(host: &Host, cpu: usize) -> Result<Option<String>> {
    let path = online_file(cpu);
    match host.read_line(&path) {
        Ok(text) if text == "0" => {}
        // The CPU is online, or has no such file.
        Ok(_) | Err(_) => return Ok(None),
    }
    let reason = write_until_online(host, &path)?;
    Ok(reason.map(|reason| format!("CPU {cpu} did not come online: {reason}")))
}
