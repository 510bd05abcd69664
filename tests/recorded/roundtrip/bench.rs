//! A machine as files on which apply and undo run, and the comparison of two of them.

use cpushield::apply::{self, ApplyError};
use cpushield::plan::Plan;
use cpushield_linux::{Host, Store};
use cpushield_simulator::{Node, Overlay, Simulated};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A directory of one test, removed at its end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        // In memory if possible: thousands of syncs to a disk take minutes.
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = base.join(format!("roundtrip-{}-{n}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A machine, and a state directory. A recording is read once for all tests and changes in memory.
/// Other machines are files, which the program itself can use too.
pub struct Bench {
    pub scratch: Scratch,
    recorded: Option<Overlay>,
}

/// Files with their bytes, and directories with none.
pub type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

impl Bench {
    pub fn of(tree: &Tree) -> Bench {
        let bench = Bench { scratch: Scratch::new(), recorded: None };
        bench.add(tree);
        bench
    }

    /// More files.
    pub fn add(&self, tree: &Tree) {
        for (path, text) in tree {
            let place = self.scratch.0.join("root").join(path);
            match text {
                Some(text) => {
                    fs::create_dir_all(place.parent().unwrap()).unwrap();
                    fs::write(place, text).unwrap();
                }
                None => fs::create_dir_all(place).unwrap(),
            }
        }
    }

    /// A recorded machine.
    pub fn of_recording(root: &Path) -> Bench {
        static READ: Mutex<BTreeMap<PathBuf, Overlay>> = Mutex::new(BTreeMap::new());
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Overlay::of_recording(root);
        let recorded = read.entry(root.to_owned()).or_insert_with(made).fork();
        Bench { scratch: Scratch::new(), recorded: Some(recorded) }
    }

    /// This recorded machine as files, for the program itself.
    pub fn into_files(mut self) -> Bench {
        for (path, node) in self.recorded.take().unwrap().all() {
            let place = self.scratch.0.join(format!("root{path}"));
            match node {
                Node::Directory => fs::create_dir_all(place),
                Node::File(bytes) => fs::write(place, bytes),
                Node::Link(target) => std::os::unix::fs::symlink(target, place),
            }
            .unwrap();
        }
        self
    }

    /// A copy of this machine and of its state directory.
    pub fn copy(&self) -> Bench {
        let scratch = Scratch::new();
        let recorded = self.recorded.as_ref().map(Overlay::fork);
        for part in ["root", "state"].map(Path::new) {
            let from = self.scratch.0.join(part);
            if from.is_dir() {
                copy_below(&from, &scratch.0.join(part));
            }
        }
        Bench { scratch, recorded }
    }

    pub fn host(&self) -> Host {
        match &self.recorded {
            Some(machine) => machine.host(),
            None => Host::recorded(&self.scratch.0.join("root")).unwrap().simulated(),
        }
    }

    /// Sets the text of a file as another process does, or as the recording should have had it.
    pub fn put(&self, path: &str, text: &str) {
        match &self.recorded {
            Some(machine) => machine.put(path, Node::File(text.as_bytes().into())),
            None => self.add(&Tree::from([(path[1..].into(), Some(text.into()))])),
        }
    }

    /// The text of a file; `None` if there is none.
    pub fn text(&self, path: &str) -> Option<String> {
        self.host().read(path).ok()
    }

    /// Puts a symbolic link into a recorded machine.
    pub fn link(&self, path: &str, target: &str) {
        self.recorded.as_ref().unwrap().put(path, Node::Link(target.to_owned()));
    }

    pub fn store(&self) -> Store {
        Store::new(&self.scratch.0.join("state"))
    }

    pub fn journal(&self) -> PathBuf {
        self.scratch.0.join("state").join(apply::JOURNAL)
    }

    pub fn apply(&self, host: &Host, plan: &Plan) -> Result<apply::AppliedPlan, ApplyError> {
        apply::apply(host, &self.store(), plan, &mut |_| {})
    }

    pub fn tree(&self) -> Tree {
        if let Some(machine) = &self.recorded {
            let hidden = |path: &str| path.starts_with("/asked_cpus");
            let all = machine.all().into_iter().filter(|(path, _)| path != "/" && !hidden(path));
            let bytes = |node| match node {
                Node::File(bytes) => Some(bytes.to_vec()),
                Node::Link(target) => Some(target.into_bytes()),
                Node::Directory => None,
            };
            return all.map(|(path, node)| (path[1..].into(), bytes(node))).collect();
        }
        let root = self.scratch.0.join("root");
        let mut tree = Tree::new();
        read_below(&root, &root, &mut tree);
        tree
    }
}

fn copy_below(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let place = to.join(entry.file_name());
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&path).unwrap(), &place).unwrap();
        } else if kind.is_dir() {
            copy_below(&path, &place);
        } else {
            // Not fs::copy: read-only files of the tree must be writable in the copy.
            fs::write(&place, fs::read(&path).unwrap()).unwrap();
        }
    }
}

fn read_below(root: &Path, dir: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_owned();
        if name == Path::new("asked_cpus") {
            // The mask that the kernel remembers can neither be read nor reset.
            continue;
        }
        if path.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            tree.insert(name, Some(target.as_os_str().as_encoded_bytes().to_vec()));
        } else if path.is_dir() {
            tree.insert(name, None);
            read_below(root, &path, tree);
        } else {
            tree.insert(name, Some(fs::read(&path).unwrap()));
        }
    }
}

#[track_caller]
pub fn same(before: &Tree, after: &Tree, when: &str) {
    let paths = before.keys().chain(after.keys());
    let text = |tree: &Tree, path: &PathBuf| match tree.get(path) {
        Some(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(None) => "(directory)".to_owned(),
        None => "(absent)".to_owned(),
    };
    let differing: BTreeMap<String, (String, String)> = paths
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|path| (path.display().to_string(), (text(before, path), text(after, path))))
        .collect();
    assert!(differing.is_empty(), "{when}: {differing:#?}");
}

/// Whether `CPUSHIELD_EVERY_WRITE` is set, as `make test-all` does.
pub(crate) fn every_write() -> bool {
    std::env::var_os("CPUSHIELD_EVERY_WRITE").is_some()
}

/// 6 writes to disturb; 3 in `make check`; every one in `make test-all`.
pub(crate) fn disturbed_writes(count: usize) -> impl Iterator<Item = usize> {
    spread(count, [3, 6, count])
}

/// The same for tests with so many cases that every write would take more than a few minutes: 3; 2
/// in `make check`; 12 in `make test-all`.
pub(crate) fn few_disturbed_writes(count: usize) -> impl Iterator<Item = usize> {
    spread(count, [2, 3, 12])
}

/// As many of `count` writes as `make check`, `make test` and `make test-all` take, evenly spread,
/// the first and the last among them.
fn spread(count: usize, [check, test, all]: [usize; 3]) -> impl Iterator<Item = usize> {
    let few = std::env::var_os("CPUSHIELD_FEW_WRITES").is_some();
    let wanted = if every_write() { all } else { [test, check][usize::from(few)] };
    let wanted = wanted.min(count);
    (0..wanted).map(move |n| n * (count - 1) / (wanted - 1).max(1))
}
