//! Commands that are about one of several shields, on a recorded machine.

use super::WorkContext;
use super::active_shields::known_shields;
use super::apply_shield::{PlanSource, ProgramsInTheWay, apply_source};
use super::live_view::{self, LiveRequest};
use super::load_options::{LoadCpus, LoadOptions};
use super::shield_options::ShieldOptions;
use super::undo_watchdog::guard;
use super::verify_shield::run_arguments;
use super::watch_target::WatchTarget;
use crate::policy::DisturbanceConsent;
use crate::ui::{OutputFormat, StatusLines, Ui};
use cpushield_linux::CpuSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Copies a recording, which a test then changes.
pub(super) fn copy_recording(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_recording(&entry.path(), &to);
        } else if kind.is_symlink() {
            let target = std::fs::read_link(entry.path()).unwrap();
            std::os::unix::fs::symlink(target, to).unwrap();
        } else {
            std::fs::write(to, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// A copy of a recorded machine with SMT, with shield `a` on CPU 2 and shield `b` on CPU 4. Their
/// siblings, CPU 3 and CPU 5, stay idle.
struct TwoShields(PathBuf);

impl TwoShields {
    fn new(name: &str) -> TwoShields {
        let scratch = std::env::temp_dir().join(format!("cpushield-{name}-{}", std::process::id()));
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
        copy_recording(&machines.join("6.12-rt-smt/root"), &scratch.join("root"));
        let shields = TwoShields(scratch);
        let ui = quiet();
        for (name, cpus) in [("a", "2"), ("b", "4")] {
            let work = shields.open(&ui, None);
            let (name, cpus) = (Some(name.to_owned()), Some(cpus.to_owned()));
            let options = ShieldOptions { shield: name, cpus, ..ShieldOptions::default() };
            let source = PlanSource::Options(options);
            apply_source(&work, &source, ProgramsInTheWay::Refuse).unwrap();
        }
        shields
    }

    fn open<'a>(&self, ui: &'a Ui, shield: Option<&str>) -> WorkContext<'a> {
        let (root, state) = (self.0.join("root"), self.0.join("state"));
        let work = WorkContext::open(ui, Some(&root), Some(&state), None).unwrap();
        WorkContext { shield: shield.map(str::to_owned), ..work }
    }
}

impl Drop for TwoShields {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn quiet() -> Ui {
    Ui::new(OutputFormat::Text, StatusLines::Suppressed)
}

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn a_program_that_verify_starts_runs_where_it_is_watched() {
    let (shields, ui) = (TwoShields::new("verify-program"), quiet());
    let words = |shield: Option<&str>, cpus: Option<CpuSet>| {
        let work = shields.open(&ui, shield);
        let target = WatchTarget::find(&work, cpus.as_ref(), "verify").unwrap();
        let args = run_arguments(&work, &target, &["./control".into()]);
        let args: Vec<String> = args.into_iter().map(|arg| arg.into_string().unwrap()).collect();
        args.join(" ").split_once("/state ").unwrap().1.to_owned()
    };
    assert_eq!(words(Some("b"), None), "--shield b -- ./control");
    assert_eq!(words(None, Some(set("4"))), "--shield b -- ./control");
    let work = shields.open(&ui, None);
    let (shield, cpus) = (Some("b".to_owned()), Some("4,6".to_owned()));
    let options = ShieldOptions { shield, cpus, ..ShieldOptions::default() };
    apply_source(&work, &PlanSource::Options(options), ProgramsInTheWay::Refuse).unwrap();
    assert_eq!(words(None, Some(set("6"))), "--shield b --cpu 6 -- ./control");
    assert_eq!(words(Some("b"), None), "--shield b -- ./control");
}

#[test]
fn a_load_spares_every_shield_and_the_idle_siblings() {
    let (shields, ui) = (TwoShields::new("load-cpus"), quiet());
    let work = shields.open(&ui, Some("b"));
    let load = |cpus| LoadOptions { kinds: vec!["messages".to_owned()], cpus };
    let runs_on = |cpus| {
        let request = load(cpus).request(&work, &set("4"), &CpuSet::new());
        request.map(|request| request.cpus).map_err(|failure| failure.message)
    };
    assert_eq!(runs_on(LoadCpus::Rest), Ok(set("0-1,6-7")));
    assert_eq!(runs_on(LoadCpus::All), Ok(set("0-1,6-7")));
    let refused = "CPU 5 is shielded from all load".to_owned();
    assert_eq!(runs_on(LoadCpus::These(set("5-6"))), Err(refused));
}

#[test]
fn a_watchdog_undoes_only_its_own_shield() {
    let (shields, ui) = (TwoShields::new("watchdog"), quiet());
    let work = shields.open(&ui, None);
    // No process has this number (PID_MAX_LIMIT, include/linux/threads.h, 6.12).
    guard(&work, 1 << 22, "a").unwrap();
    let left = known_shields(&work.host, &work.store).unwrap();
    let left: Vec<&str> = left.iter().map(|shield| shield.name.as_str()).collect();
    assert_eq!(left, ["b"]);
}

#[test]
fn the_live_view_shows_all_shields_or_the_named_one() {
    let (shields, ui) = (TwoShields::new("live-view"), quiet());
    let shown = |shield: Option<&str>, cpus: Option<&str>| {
        let work = shields.open(&ui, shield);
        let request = LiveRequest {
            interval: Duration::from_secs(1),
            once: true,
            cpus: cpus.map(set),
            trace: false,
            disturbance: DisturbanceConsent::NotGiven,
        };
        let (places, unread) = live_view::find_places(&work, &request);
        let setup = live_view::live_setup(&work.host, &request, &places);
        (setup.shielded.to_string(), setup.idle.to_string(), unread)
    };
    let is = |shielded: &str, idle: &str| (shielded.to_owned(), idle.to_owned(), false);
    assert_eq!(shown(None, None), is("2-5", "3,5"));
    assert_eq!(shown(Some("b"), None), is("4-5", "5"));
    assert_eq!(shown(None, Some("2")), is("2", ""));
}
