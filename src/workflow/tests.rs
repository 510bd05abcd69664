//! Commands that are about one of several shields, on a recorded machine.

use super::WorkContext;
use super::active_shields::{known_shields, undo_named};
use super::apply_shield::{PlanSource, ProgramsInTheWay, apply_source};
use super::live_view::{self, LiveReader, LiveRequest};
use super::load_options::{LoadCpus, LoadOptions};
use super::shield_options::ShieldOptions;
use super::undo_watchdog::guard;
use super::verify_shield::run_arguments;
use super::watch_target::WatchTarget;
use crate::live::{CpuRole, LiveFrame};
use crate::policy::DisturbanceConsent;
use crate::ui::{OutputFormat, StatusLines, Ui};
use crate::worker::log_argument;
use cpushield_linux::{CpuSet, EventLog, TaskId};
use cpushield_simulator::Simulated;
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
            // Not fs::copy: read-only files of the recording must be writable in the copy.
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
            let shield = Some(name.to_owned());
            let options = ShieldOptions { shield, ..ShieldOptions::of_list(&set(cpus)) };
            let source = PlanSource::Options(options);
            apply_source(&work, &source, ProgramsInTheWay::Refuse).unwrap();
        }
        shields
    }

    fn open<'a>(&self, ui: &'a Ui, shield: Option<&str>) -> WorkContext<'a> {
        let (root, state) = (self.0.join("root"), self.0.join("state"));
        let work = WorkContext::open(ui, Some(&root), Some(&state), None).unwrap();
        let host = work.host.simulated();
        WorkContext { host, shield: shield.map(str::to_owned), ..work }
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
    let shield = Some("b".to_owned());
    let options = ShieldOptions { shield, ..ShieldOptions::of_list(&set("4,6")) };
    apply_source(&work, &PlanSource::Options(options), ProgramsInTheWay::Refuse).unwrap();
    assert_eq!(words(None, Some(set("6"))), "--shield b --cpu 6 -- ./control");
    assert_eq!(words(Some("b"), None), "--shield b -- ./control");
    // Its accesses go to the same log.
    let (work, log) = (shields.open(&ui, Some("b")), shields.0.join("log"));
    let host = work.host.logging(Some(EventLog::open(&log).unwrap()));
    let work = WorkContext { host, ..work };
    let target = WatchTarget::find(&work, None, "verify").unwrap();
    let args = run_arguments(&work, &target, &["./control".into()]);
    assert!(args.contains(&log_argument(&log)), "{args:?}");
}

#[test]
fn a_load_spares_every_shield_and_the_idle_siblings() {
    let (shields, ui) = (TwoShields::new("load-cpus"), quiet());
    let work = shields.open(&ui, Some("b"));
    let load = |cpus| LoadOptions { kinds: vec!["messages".to_owned()], command: None, cpus };
    let runs_on = |cpus| {
        let request = load(cpus).request(&work, &set("4"), &CpuSet::new());
        request.map(|request| request.cpus).map_err(|failure| failure.message)
    };
    assert_eq!(runs_on(LoadCpus::Rest), Ok(set("0-1,6-7")));
    assert_eq!(runs_on(LoadCpus::All), Ok(set("0-1,6-7")));
    let refused = "CPU 5 is shielded, so it gets no load".to_owned();
    assert_eq!(runs_on(LoadCpus::These(set("5-6"))), Err(refused));
}

#[test]
fn a_watchdog_undoes_only_its_own_shield() {
    let (shields, ui) = (TwoShields::new("watchdog"), quiet());
    let work = shields.open(&ui, None);
    // No process has this number (PID_MAX_LIMIT, include/linux/threads.h, 6.12).
    guard(&work, TaskId { tid: 1 << 22, started: 0 }, "a").unwrap();
    let left = known_shields(&work.host, &work.store).unwrap();
    let left: Vec<&str> = left.iter().map(|shield| shield.name.as_str()).collect();
    assert_eq!(left, ["b"]);
}

fn live_request(cpus: Option<&str>) -> LiveRequest {
    LiveRequest {
        interval: Duration::from_secs(1),
        once: false,
        cpus: cpus.map(set),
        trace: false,
        disturbance: DisturbanceConsent::NotGiven,
    }
}

#[test]
fn the_live_view_shows_all_shields_or_the_named_one() {
    let (shields, ui) = (TwoShields::new("live-view"), quiet());
    let shown = |shield: Option<&str>, cpus: Option<&str>| {
        let work = shields.open(&ui, shield);
        let request = live_request(cpus);
        let (places, unread) = live_view::find_places(&work, &request);
        let setup = live_view::live_setup(&work.host, &request, &places);
        (setup.shielded.to_string(), setup.idle.to_string(), unread)
    };
    let is = |shielded: &str, idle: &str| (shielded.to_owned(), idle.to_owned(), false);
    assert_eq!(shown(None, None), is("2-5", "3,5"));
    assert_eq!(shown(Some("b"), None), is("4-5", "5"));
    assert_eq!(shown(None, Some("2")), is("2", ""));
}

#[test]
fn the_live_view_follows_shields_and_cpus_that_come_and_go() {
    let (shields, ui) = (TwoShields::new("live-changes"), quiet());
    let (all, only_b) = (shields.open(&ui, None), shields.open(&ui, Some("b")));
    let request = live_request(None);
    let online = shields.0.join("root/sys/devices/system/cpu/online");
    std::fs::write(&online, "0-6\n").unwrap();
    let mut readers = [&all, &only_b].map(|work| LiveReader::open(work, &request));
    let mut models = readers.each_mut().map(LiveReader::first_model);
    let mut shown = || {
        let both = readers.iter_mut().zip(&mut models);
        let frames = both.map(|(reader, model)| reader.next_frame(model));
        let frames: Vec<LiveFrame> = frames.collect();
        let with = |frame: &LiveFrame, role: Option<CpuRole>| -> String {
            let lines = frame.cpus.iter().filter(|line| role.is_none_or(|role| role == line.role));
            lines.map(|line| line.cpu).collect::<CpuSet>().to_string()
        };
        let roles = [None, Some(CpuRole::Shielded), Some(CpuRole::Idle)];
        let [first, second] = [&frames[0], &frames[1]].map(|f| roles.map(|r| with(f, r)).join(" "));
        (first, second)
    };
    let is = |all: &str, only_b: &str| (all.to_owned(), only_b.to_owned());
    assert_eq!(shown(), is("0-6 2,4 3,5", "0-6 4 5"));
    std::fs::write(&online, "0-7\n").unwrap();
    assert_eq!(shown(), is("0-7 2,4 3,5", "0-7 4 5"));
    undo_named(&all.host, &all.store, "b").unwrap();
    assert_eq!(shown(), is("0-7 2 3", "0-7  "));
    let operations = all.host.operations();
    assert_eq!(shown(), is("0-7 2 3", "0-7  "));
    let unchanged = all.host.operations() - operations;
    let shield = Some("b".to_owned());
    let options = ShieldOptions { shield, ..ShieldOptions::of_list(&CpuSet::single(6)) };
    apply_source(&all, &PlanSource::Options(options), ProgramsInTheWay::Refuse).unwrap();
    let operations = all.host.operations();
    assert_eq!(shown(), is("0-7 2,6 3,7", "0-7 6 7"));
    let changed = all.host.operations() - operations;
    assert!(unchanged < changed, "{unchanged} operations without a change, {changed} with one");
}
