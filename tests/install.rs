//! `make install` for a package: into a directory, without root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The commands that `make install` would run for an ordinary user.
fn steps(variables: &[&str]) -> String {
    let bin = Path::new(env!("CARGO_TARGET_TMPDIR")).join("install-bin");
    fs::create_dir_all(&bin).unwrap();
    let id = bin.join("id");
    fs::write(&id, "#!/bin/sh\necho 1000\n").unwrap();
    fs::set_permissions(&id, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = Command::new("make")
        .args(["-n", "install"])
        .args(variables)
        .env("PATH", path)
        .env_remove("DESTDIR")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn packaging_needs_neither_root_nor_a_package_manager_and_installs_the_pages() {
    let packaged = steps(&["DESTDIR=/pkg"]);
    assert!(!packaged.contains("sudo") && !packaged.contains("scripts/need"), "{packaged}");
    for file in [
        "/pkg/usr/local/bin/cpushield",
        "/pkg/usr/local/share/man/man1",
        "/pkg/usr/local/share/bash-completion/completions/cpushield",
        "/pkg/usr/local/share/fish/vendor_completions.d/cpushield.fish",
    ] {
        assert!(packaged.contains(file), "{file}: {packaged}");
    }
    let installed = steps(&[]);
    assert!(installed.contains("sudo install") && installed.contains("scripts/need rust"));
}
