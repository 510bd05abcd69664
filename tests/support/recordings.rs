//! Foreign machines, read in place, and the project's own with their expected output.

use cpushield::survey::{Machine, survey};
use cpushield_linux::Host;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::{env, fs};

use crate::not_run::not_run;
use crate::shared_data::shared_data;

/// The directory of foreign machines; they are not part of the project.
pub fn data() -> Option<PathBuf> {
    let index = shared_data("machines/index.csv")?;
    if Command::new("zstd").arg("--version").output().is_err() {
        not_run("zstd is not installed; the recorded machines of others are packed");
        return None;
    }
    Some(index.parent()?.parent()?.to_owned())
}

/// A foreign machine, unpacked once.
pub fn unpacked(data: &Path, name: &str) -> PathBuf {
    unpack(&data.join("machines").join(name), name)
}

/// A machine of a public report, unpacked once.
pub fn reported(data: &Path, name: &str) -> PathBuf {
    let dirs = ["cases", "machines-cases"].map(|dir| data.join(dir).join(name));
    let dir = unpack(dirs.iter().find(|dir| dir.exists()).expect(name), name);
    let root = dir.join("root");
    if root.exists() { root } else { dir }
}

fn unpack(from: &Path, name: &str) -> PathBuf {
    // Tests of one program run at the same time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines").join(name);
    let done = dir.join(".unpacked");
    if !done.is_file() {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let archive = from.join("root.tar.zst");
        let mut zstd = Command::new("zstd")
            .arg("-dcq")
            .arg(&archive)
            .stdout(Stdio::piped())
            .spawn()
            .expect("zstd is needed to unpack the machines of others");
        let tar = Command::new("tar")
            .args(["-x", "--no-same-owner", "-C"])
            .arg(&dir)
            .stdin(zstd.stdout.take().unwrap())
            .status()
            .unwrap();
        assert!(zstd.wait().unwrap().success() && tar.success(), "{}", archive.display());
        fs::write(done, "").unwrap();
    }
    dir
}

/// The survey of it.
pub fn machine(data: &Path, name: &str) -> Machine {
    survey(&Host::recorded(&unpacked(data, name)).unwrap(), &[])
}

/// The root of the project's own recording of this name.
pub fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("machines").join(name).join("root")
}

/// The project's own recordings: name and directory.
pub fn own() -> Vec<(String, PathBuf)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
    let mut found: Vec<(String, PathBuf)> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no recorded machines");
    found
}

/// Compares with the file, or writes it when `UPDATE_EXPECT` is set.
pub fn expect(file: &Path, text: &str) {
    if env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(file, text).unwrap();
    }
    let wanted = fs::read_to_string(file).unwrap_or_default();
    assert!(wanted == text, "{}:\n{wanted}\n--- now:\n{text}", file.display());
}
