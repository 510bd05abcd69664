//! Which kernel a file is, where its name does not say it: what its own bytes tell, or the only one
//! that is installed. It takes an entry of a boot menu and reads the files that this names.

use cpushield_linux::Host;
use cpushield_linux::text::kernel_image;

/// Where a file may be that an entry at `place` names. Loaders count from the root of a file
/// system that is mounted somewhere above the entry.
pub(super) fn places(place: &str, name: &str) -> Vec<String> {
    let mut dir = place;
    let path = name.strip_prefix("($root)").unwrap_or(name).trim_start_matches('/');
    let mut places = Vec::new();
    while let Some((above, _)) = dir.rsplit_once('/') {
        places.push(format!("{above}/{path}"));
        dir = above;
    }
    places
}

/// What the first file says of itself that is there.
pub(super) fn banner(host: &Host, places: &[String]) -> Option<String> {
    let bytes = places.iter().find_map(|place| host.read_bytes(place).ok())?;
    kernel_image::banner(&bytes)
}

/// The version of the kernel that an entry at `place` loads under this name.
pub(super) fn release(host: &Host, place: &str, kernel: &str) -> Option<String> {
    let banner = banner(host, &places(place, kernel));
    let said = banner.as_deref().and_then(kernel_image::release).map(str::to_owned);
    said.or_else(|| only_installed(host))
}

/// The version of the only kernel whose modules are installed.
fn only_installed(host: &Host) -> Option<String> {
    let names = ["/lib/modules", "/usr/lib/modules"].into_iter().filter_map(|dir| {
        let names = host.list(dir).ok()?;
        Some(names.into_iter().filter(|it| it.starts_with(|c: char| c.is_ascii_digit())))
    });
    let mut names: Vec<String> = names.flatten().collect();
    names.sort();
    names.dedup();
    match names.len() {
        1 => names.pop(),
        _ => None,
    }
}
