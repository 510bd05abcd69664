//! Whether a user can reach the machine: a login is possible, or also a network. A trial boot in
//! which this does not come up falls back. Reads files only, so that it works while services start.

use crate::documents::boot::TrialGoal;
use cpushield_linux::text::routes::{default_interfaces, default_interfaces_v6};
use cpushield_linux::{Host, Task};

/// Programs that wait for logins, by command name. The kernel cuts names after 15 bytes.
const LOGIN_PROGRAMS: &[&str] = &[
    "agetty", "getty", "mingetty", "mgetty", "fgetty", "login", "sshd", "dropbear", "gdm", "gdm3",
    "sddm", "lightdm", "xdm", "lxdm", "greetd", "ly-dm",
];

/// While this file exists, only root may log in: pam_nologin(8). systemd creates it early in the
/// boot and removes it when logins are permitted (systemd-user-sessions.service(8)).
const NO_LOGIN: &str = "/run/nologin";

/// Whether this goal is reached now.
#[must_use]
pub fn is_reached(host: &Host, goal: TrialGoal) -> bool {
    match goal {
        TrialGoal::Login => admits_logins(host),
        TrialGoal::Network => admits_logins(host) && has_network(host),
    }
}

/// What a trial should wait for when the user does not say it: what this boot has. A trial that
/// lacks it changed the machine for the worse. `None` when a user can only use a running session.
#[must_use]
pub fn goal_of_this_boot(host: &Host) -> Option<TrialGoal> {
    [TrialGoal::Network, TrialGoal::Login].into_iter().find(|goal| is_reached(host, *goal))
}

fn admits_logins(host: &Host) -> bool {
    let waits = |task: &Task| !task.kthread && LOGIN_PROGRAMS.contains(&task.comm.as_str());
    !host.exists(NO_LOGIN) && host.tasks().unwrap_or_default().iter().any(waits)
}

/// Whether there is a default route over an interface that is up. Drivers that do not know the
/// state of their link show `unknown` (Documentation/networking/operstates.rst, 6.12).
fn has_network(host: &Host) -> bool {
    let (route, route_v6) = ["/proc/net/route", "/proc/net/ipv6_route"]
        .map(|path| host.read(path).unwrap_or_default())
        .into();
    let names = default_interfaces(&route).into_iter().chain(default_interfaces_v6(&route_v6));
    let states = names.map(|name| host.read_line(&format!("/sys/class/net/{name}/operstate")));
    states.flatten().any(|state| matches!(state.trim(), "up" | "unknown"))
}

/// Seconds since the kernel started; `None` when they cannot be read.
#[must_use]
pub fn uptime_s(host: &Host) -> Option<u64> {
    let text = host.read("/proc/uptime").ok()?;
    text.split('.').next()?.trim().parse().ok()
}
