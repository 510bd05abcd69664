//! A machine on which apply and undo run, and the comparison of two of them.

use cpushield::apply::{self, ApplyError};
use cpushield::plan::Plan;
use cpushield_linux::{Host, Store};
use cpushield_simulator::{Node, Overlay, Simulated};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// A machine in memory, and a state directory. A recording is read once for all tests.
pub struct Bench {
    pub scratch: Scratch,
    /// `None` if the machine is files, for the program itself.
    machine: Option<Overlay>,
}

/// Files with their bytes, links with their targets, and directories with nothing.
pub type Tree = BTreeMap<String, Option<Arc<[u8]>>>;

/// A file of a tree.
pub fn file(text: impl AsRef<[u8]>) -> Option<Arc<[u8]>> {
    Some(text.as_ref().into())
}

impl Bench {
    pub fn of(tree: &Tree) -> Bench {
        let bench = Bench { scratch: Scratch::new(), machine: Some(Overlay::empty()) };
        bench.add(tree);
        bench
    }

    /// More files.
    pub fn add(&self, tree: &Tree) {
        for (path, bytes) in tree {
            let node = bytes.clone().map_or(Node::Directory, Node::File);
            self.put_node(&format!("/{path}"), node);
        }
    }

    /// A recorded machine.
    pub fn of_recording(root: &Path) -> Bench {
        static READ: Mutex<BTreeMap<PathBuf, Overlay>> = Mutex::new(BTreeMap::new());
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Overlay::of_recording(root);
        let recorded = read.entry(root.to_owned()).or_insert_with(made).fork();
        Bench { scratch: Scratch::new(), machine: Some(recorded) }
    }

    /// This machine as files, for the program itself.
    pub fn into_files(mut self) -> Bench {
        for (path, node) in self.machine.take().unwrap().all() {
            self.put_node(&path, node);
        }
        self
    }

    /// A copy of this machine in memory and of its state directory.
    pub fn copy(&self) -> Bench {
        let machine = Some(self.machine.as_ref().unwrap().fork());
        let copy = Bench { scratch: Scratch::new(), machine };
        if let Ok(entries) = fs::read_dir(self.scratch.0.join("state")) {
            let state = copy.scratch.0.join("state");
            fs::create_dir(&state).unwrap();
            for entry in entries.map(Result::unwrap) {
                fs::copy(entry.path(), state.join(entry.file_name())).unwrap();
            }
        }
        copy
    }

    pub fn host(&self) -> Host {
        match &self.machine {
            Some(machine) => machine.host(),
            None => Host::recorded(&self.local("/")).unwrap().simulated(),
        }
    }

    /// Where a file of the machine is, if it is files.
    fn local(&self, path: &str) -> PathBuf {
        self.scratch.0.join(format!("root{path}"))
    }

    fn put_node(&self, path: &str, node: Node) {
        let Some(machine) = &self.machine else {
            let place = self.local(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            return match node {
                Node::Directory => fs::create_dir_all(place),
                Node::File(bytes) => fs::write(place, bytes),
                Node::Link(target) => std::os::unix::fs::symlink(target, place),
            }
            .unwrap();
        };
        machine.put(path, node);
    }

    /// Sets the text of a file as another process does, or as the recording should have had it.
    pub fn put(&self, path: &str, text: &str) {
        self.put_node(path, Node::File(text.as_bytes().into()));
    }

    /// Makes a directory, and those above it.
    pub fn make_dir(&self, path: &str) {
        self.put_node(path, Node::Directory);
    }

    /// Changes the text of a file. It must have what is replaced.
    pub fn replace(&self, path: &str, from: &str, to: &str) {
        let text = self.text(path).unwrap();
        assert!(text.contains(from), "{path}: {text}");
        self.put(path, &text.replace(from, to));
    }

    /// From now on, the kernel answers these calls with errors: lines of `errors.tsv`.
    pub fn answer(&self, lines: &str) {
        self.put("/errors.tsv", &(self.text("/errors.tsv").unwrap_or_default() + lines));
    }

    /// The text of a file; `None` if there is none.
    pub fn text(&self, path: &str) -> Option<String> {
        self.host().read(path).ok()
    }

    /// Puts a symbolic link at a path.
    pub fn link(&self, path: &str, target: &str) {
        self.put_node(path, Node::Link(target.to_owned()));
    }

    /// Removes a path and all below it.
    pub fn remove(&self, path: &str) {
        match (&self.machine, self.local(path)) {
            (Some(machine), _) => machine.remove(path),
            (None, place) if place.is_dir() => fs::remove_dir_all(place).unwrap(),
            (None, place) => fs::remove_file(place).unwrap(),
        }
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
        let files = || Overlay::of_recording(&self.local("/"));
        let all = self.machine.clone().unwrap_or_else(files).all().into_iter();
        // The mask that the kernel remembers can neither be read nor reset.
        let seen = all.filter(|(path, _)| path != "/" && !path.starts_with("/asked_cpus"));
        let bytes = |node| match node {
            Node::File(bytes) => Some(bytes),
            Node::Link(target) => Some(target.into_bytes().into()),
            Node::Directory => None,
        };
        seen.map(|(path, node)| (path[1..].to_owned(), bytes(node))).collect()
    }
}

#[track_caller]
pub fn same(before: &Tree, after: &Tree, when: &str) {
    if before == after {
        return;
    }
    let text = |tree: &Tree, path: &String| match tree.get(path) {
        Some(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(None) => "(directory)".to_owned(),
        None => "(absent)".to_owned(),
    };
    let paths = before.keys().chain(after.keys());
    let differing: BTreeMap<&String, (String, String)> = paths
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|path| (path, (text(before, path), text(after, path))))
        .collect();
    panic!("{when}: {differing:#?}");
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
