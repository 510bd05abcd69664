//! [`Overlay`]: a machine in memory. It is a recording, or nothing, and over it what has changed
//! since. Many tests share one recording, and none copies or changes it.

use crate::Simulated;
use cpushield_linux::errno::{EEXIST, EINVAL, EISDIR, ELOOP, ENOENT, ENOTDIR, ENOTEMPTY};
use cpushield_linux::{FileAttributes, FileKind, Host, Listed, MachineFiles, OpenError};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The root of a machine in memory. No path below this device leads to a file, so a test that goes
/// around the machine fails, and cannot change a recording.
const NOWHERE: &str = "/dev/null";

/// The maximum number of links in one path, which is the kernel's limit too.
const LINKS_MAX: usize = 40;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A file with its bytes.
    File(Arc<[u8]>),
    /// A directory.
    Directory,
    /// A symbolic link with its target.
    Link(String),
}

/// A node with its owner and permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    node: Node,
    access: FileAttributes,
}

/// A machine that never changes: entries by path, and the names in each directory.
#[derive(Debug, Default)]
struct Base {
    entries: HashMap<String, Entry>,
    names: HashMap<String, Vec<String>>,
}

impl Base {
    fn put(&mut self, path: &str, entry: Entry) {
        if let Some((parent, name)) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty()) {
            let parent = if parent.is_empty() { "/" } else { parent };
            self.names.entry(parent.to_owned()).or_default().push(name.to_owned());
        }
        self.entries.insert(path.to_owned(), entry);
    }

    fn put_below(&mut self, dir: &Path, path: &str) -> io::Result<()> {
        for found in fs::read_dir(dir)? {
            let found = found?;
            let (local, metadata) = (found.path(), found.metadata()?);
            let path = format!("{path}/{}", found.file_name().to_string_lossy());
            let node = if metadata.is_symlink() {
                Node::Link(fs::read_link(&local)?.to_string_lossy().into_owned())
            } else if metadata.is_dir() {
                Node::Directory
            } else {
                Node::File(fs::read(&local)?.into())
            };
            let owner = Some((metadata.uid(), metadata.gid()));
            let access = FileAttributes { mode: metadata.permissions().mode() & 0o7777, owner };
            self.put(&path, Entry { node, access });
            if metadata.is_dir() {
                self.put_below(&local, &path)?;
            }
        }
        Ok(())
    }
}

/// The changed paths; `None` for what is gone.
type Changes = BTreeMap<String, Option<Entry>>;

/// A recording, and over it what has changed since. A clone is the same machine.
#[derive(Debug, Clone)]
pub struct Overlay {
    base: Arc<Base>,
    changes: Arc<Mutex<Changes>>,
}

impl Overlay {
    /// A machine without files.
    pub fn empty() -> Overlay {
        let mut base = Base::default();
        base.put("/", directory());
        Overlay { base: Arc::new(base), changes: Arc::default() }
    }

    /// Reads a recording.
    pub fn of_recording(root: &Path) -> Overlay {
        let mut base = Base::default();
        base.put("/", directory());
        base.put_below(root, "").unwrap();
        Overlay { base: Arc::new(base), changes: Arc::default() }
    }

    /// A machine that has changed like this one, and from now on changes alone.
    pub fn fork(&self) -> Overlay {
        Overlay { changes: Arc::new(Mutex::new(self.changes().clone())), ..self.clone() }
    }

    pub fn host(&self) -> Host {
        Host::of_files(NOWHERE.into(), Box::new(self.clone())).unwrap().simulated()
    }

    /// Every path, with what is there.
    pub fn all(&self) -> BTreeMap<String, Node> {
        let base = self.base.entries.iter().map(|(path, entry)| (path.clone(), entry.node.clone()));
        let mut all: BTreeMap<String, Node> = base.collect();
        for (path, entry) in &*self.changes() {
            match entry {
                Some(entry) => drop(all.insert(path.clone(), entry.node.clone())),
                None => drop(all.remove(path)),
            }
        }
        all
    }

    /// Puts a node at a path, with the directories above it.
    pub fn put(&self, path: &str, node: Node) {
        let mut changes = self.changes();
        for (at, _) in path.match_indices('/').skip(1) {
            if self.get(&changes, &path[..at]).is_none() {
                changes.insert(path[..at].to_owned(), Some(directory()));
            }
        }
        changes.insert(path.to_owned(), Some(Entry { node, access: access_of(0o644) }));
    }

    /// Removes a path and all below it.
    pub fn remove(&self, path: &str) {
        let below = format!("{path}/");
        let mut gone = self.all().into_keys().collect::<Vec<_>>();
        gone.retain(|at| at == path || at.starts_with(&below));
        assert!(!gone.is_empty(), "nothing is at {path}");
        self.changes().extend(gone.into_iter().map(|at| (at, None)));
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get<'a>(&'a self, changes: &'a Changes, path: &str) -> Option<&'a Entry> {
        match changes.get(path) {
            Some(changed) => changed.as_ref(),
            None => self.base.entries.get(path),
        }
    }

    /// The path without links and its entry; `last` says whether a link at the end is followed.
    fn find(&self, changes: &Changes, path: &str, last: bool) -> io::Result<(String, Entry)> {
        // Most paths have no link.
        if let Some(entry) = self.get(changes, path)
            && !matches!(entry.node, Node::Link(_))
        {
            return Ok((path.to_owned(), entry.clone()));
        }
        let mut remaining: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let (mut real, mut links) = (String::new(), 0);
        let mut found = directory();
        while let Some(part) = remaining.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    real.truncate(real.rfind('/').unwrap_or(0));
                    continue;
                }
                _ if found.node != Node::Directory => return errno(ENOTDIR),
                name => real = format!("{real}/{name}"),
            }
            let Some(entry) = self.get(changes, &real) else { return errno(ENOENT) };
            match &entry.node {
                Node::Link(target) if last || !remaining.is_empty() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return errno(ELOOP);
                    }
                    let up = if target.starts_with('/') { 0 } else { real.rfind('/').unwrap_or(0) };
                    real.truncate(up);
                    remaining.extend(target.rsplit('/').map(str::to_owned));
                }
                _ => found = entry.clone(),
            }
        }
        let real = if real.is_empty() { "/".to_owned() } else { real };
        Ok((real, found))
    }

    fn entry(&self, path: &str) -> io::Result<Entry> {
        self.find(&self.changes(), path, true).map(|(_, entry)| entry)
    }

    /// Changes the entry of a path that exists.
    fn change(&self, path: &str, change: impl FnOnce(&mut Entry)) -> io::Result<()> {
        let mut changes = self.changes();
        let (real, mut entry) = self.find(&changes, path, true)?;
        change(&mut entry);
        changes.insert(real, Some(entry));
        Ok(())
    }

    /// Creates an entry in an existing directory.
    fn create(&self, path: &str, entry: Entry) -> io::Result<()> {
        let mut changes = self.changes();
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (parent, above) = self.find(&changes, parent, true)?;
        if above.node != Node::Directory {
            return errno(ENOTDIR);
        }
        changes.insert(format!("{}/{name}", parent.trim_end_matches('/')), Some(entry));
        Ok(())
    }
}

impl MachineFiles for Overlay {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match self.entry(path)?.node {
            Node::File(bytes) => Ok(bytes.to_vec()),
            _ => errno(EISDIR),
        }
    }

    fn read_regular(&self, path: &str) -> Result<Vec<u8>, OpenError> {
        match self.is_dir(path) {
            Some(true) => Err(OpenError::Not(FileKind::Directory)),
            _ => Ok(self.read(path)?),
        }
    }

    fn list(&self, path: &str, listed: Listed) -> io::Result<Vec<String>> {
        let changes = self.changes();
        let (real, entry) = self.find(&changes, path, true)?;
        if entry.node != Node::Directory {
            return errno(ENOTDIR);
        }
        let inside = format!("{}/", real.trim_end_matches('/'));
        let known = self.base.names.get(&real).into_iter().flatten();
        let known = known.map(|name| format!("{inside}{name}"));
        let mut paths: Vec<String> = known.filter(|path| !changes.contains_key(path)).collect();
        let changed = changes.range(inside.clone()..).map(|(path, _)| path);
        let changed = changed.take_while(|path| path.starts_with(&inside));
        paths.extend(changed.filter(|path| !path[inside.len()..].contains('/')).cloned());
        paths.retain(|path| match self.get(&changes, path) {
            Some(entry) => listed == Listed::All || entry.node == Node::Directory,
            None => false,
        });
        Ok(paths.iter().map(|path| path[inside.len()..].to_owned()).collect())
    }

    fn is_dir(&self, path: &str) -> Option<bool> {
        self.entry(path).ok().map(|entry| entry.node == Node::Directory)
    }

    fn read_link(&self, path: &str) -> io::Result<String> {
        match self.find(&self.changes(), path, false)?.1.node {
            Node::Link(target) => Ok(target),
            _ => errno(EINVAL),
        }
    }

    fn resolve(&self, path: &str) -> Option<String> {
        self.find(&self.changes(), path, true).ok().map(|(real, _)| real)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let node = Node::File(bytes.into());
        match self.entry(path) {
            Ok(entry) if entry.node == Node::Directory => errno(EISDIR),
            Ok(_) => self.change(path, |entry| entry.node = node),
            // A link that leads nowhere: its target is created.
            Err(error) if error.kind() == io::ErrorKind::NotFound => match self.read_link(path) {
                Ok(target) if target.starts_with('/') => self.write(&target, bytes),
                Ok(target) => {
                    let (dir, _) = path.rsplit_once('/').unwrap_or(("", path));
                    self.write(&format!("{dir}/{target}"), bytes)
                }
                Err(_) => self.create(path, Entry { node, access: access_of(0o644) }),
            },
            Err(error) => Err(error),
        }
    }

    fn replace(&self, path: &str, bytes: &[u8], access: FileAttributes) -> io::Result<()> {
        let found = self.find(&self.changes(), path, false);
        if found.is_ok_and(|(_, entry)| entry.node == Node::Directory) {
            return errno(EISDIR);
        }
        let access = FileAttributes { owner: access.owner.or(access_of(0).owner), ..access };
        self.create(path, Entry { node: Node::File(bytes.into()), access })
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        let found = self.find(&self.changes(), path, false);
        match found {
            Ok(_) => errno(EEXIST),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path, directory()),
            Err(error) => Err(error),
        }
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let names = self.list(path, Listed::All);
        let mut changes = self.changes();
        let (real, entry) = self.find(&changes, path, false)?;
        match names {
            _ if entry.node != Node::Directory => errno(ENOTDIR),
            Ok(names) if names.is_empty() => {
                changes.insert(real, None);
                Ok(())
            }
            _ => errno(ENOTEMPTY),
        }
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut changes = self.changes();
        let (real, entry) = self.find(&changes, path, false)?;
        if entry.node == Node::Directory {
            return errno(EISDIR);
        }
        changes.insert(real, None);
        Ok(())
    }

    fn sync_dir_of(&self, _path: &str) -> io::Result<()> {
        Ok(())
    }

    fn access(&self, path: &str) -> io::Result<FileAttributes> {
        self.entry(path).map(|entry| entry.access)
    }

    fn set_access(&self, path: &str, access: FileAttributes) -> io::Result<()> {
        self.change(path, |entry| {
            entry.access = FileAttributes { owner: access.owner.or(entry.access.owner), ..access };
        })
    }
}

fn errno<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

/// This user's file with these permissions.
fn access_of(mode: u32) -> FileAttributes {
    static OWNER: LazyLock<(u32, u32)> = LazyLock::new(|| {
        let own = fs::metadata("/proc/self").unwrap();
        (own.uid(), own.gid())
    });
    FileAttributes { mode, owner: Some(*OWNER) }
}

fn directory() -> Entry {
    Entry { node: Node::Directory, access: access_of(0o755) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::LocalFiles;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    const PATHS: [&str; 10] = [
        "/a", "/a/file", "/a/dir", "/a/dir/x", "/near", "/near/x", "/up/file", "/loop", "/new", "/",
    ];

    /// What an operation has returned: its values, or the error number.
    fn outcome(files: &dyn MachineFiles, call: usize, path: &str, other: &str) -> String {
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names.join(" ")
        };
        let answer = match call {
            0 => files.read(path).map(|bytes| String::from_utf8(bytes).unwrap()),
            1 => files.list(path, Listed::All).map(sorted),
            2 => files.list(path, Listed::Directories).map(sorted),
            3 => Ok(format!("{:?} {:?}", files.is_dir(path), files.resolve(path))),
            4 => files.read_link(path),
            5 => files.write(path, other.as_bytes()).map(|()| String::new()),
            6 => files.make_dir(path).map(|()| String::new()),
            7 => files.remove_dir(path).map(|()| String::new()),
            8 => {
                let access = FileAttributes { mode: 0o640, owner: None };
                files.replace(path, other.as_bytes(), access).map(|()| String::new())
            }
            9 => files.access(path).map(|access| format!("{access:?}")),
            _ => files.remove_file(path).map(|()| String::new()),
        };
        answer.unwrap_or_else(|error| format!("{:?}", error.raw_os_error()))
    }

    proptest! {
        #[test]
        fn the_overlay_answers_as_a_directory_does(
            calls in proptest::collection::vec((0..11_usize, 0..PATHS.len(), 0..PATHS.len()), 1..24),
        ) {
            let dir = std::env::temp_dir().join(format!("cpushield-overlay-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(dir.join("a/dir")).unwrap();
            fs::write(dir.join("a/file"), "text").unwrap();
            fs::write(dir.join("a/dir/x"), "x").unwrap();
            for (link, target) in [("near", "a/dir"), ("up", "near/.."), ("loop", "loop")] {
                symlink(target, dir.join(link)).unwrap();
            }
            let root = dir.canonicalize().unwrap();
            let overlay = Overlay::of_recording(&root);
            let local = LocalFiles::recorded(root).unwrap();
            for (call, path, other) in calls {
                let (path, other) = (PATHS[path], PATHS[other]);
                // The directories of these tests keep their root.
                if call > 4 && path == "/" {
                    continue;
                }
                let answers = [&local as &dyn MachineFiles, &overlay]
                    .map(|files| outcome(files, call, path, other));
                prop_assert_eq!(&answers[0], &answers[1], "{} {}", call, path);
            }
            let again = Overlay::of_recording(&dir);
            prop_assert_eq!(overlay.all(), again.all());
            fs::remove_dir_all(dir).unwrap();
        }
    }
}
