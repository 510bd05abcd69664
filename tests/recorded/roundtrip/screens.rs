//! What a user sees while shields are made, changed and taken down on a recorded machine: the
//! screens of `apply`, `status`, `plan` and `undo`, as snapshots in `screens/`.
//! `SNAPSHOTS=overwrite` renews them.

use super::bench::Bench;
use super::status::cpushield;
use crate::recordings;
use crate::screen;
use cpushield::apply::UnrestoredChanges;
use cpushield::report::blocks::ReportBlock;
use cpushield::report::{StatusAudience, applied_blocks, status_blocks, undo_blocks};
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::apply_shield::{PlanSource, ProgramsInTheWay, apply_source};
use cpushield::workflow::shield_options::ShieldOptions;
use cpushield::workflow::shield_status::read_status;
use cpushield::workflow::undo_shields::{UndoTarget, undo_shields};
use std::fs;

/// The screens of one machine, in order.
struct Screens {
    bench: Bench,
    ui: Ui,
    text: String,
}

impl Screens {
    fn of(machine: &str) -> Screens {
        let root = recordings::root(machine);
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        Screens { bench: Bench::of_recording(&root).into_files(), ui, text: String::new() }
    }

    fn work(&self, shield: Option<&str>) -> WorkContext<'_> {
        let (host, store) = (self.bench.host(), self.bench.store());
        let state_dir = self.bench.scratch.0.join("state");
        WorkContext { ui: &self.ui, host, store, state_dir, shield: shield.map(str::to_owned) }
    }

    fn add(&mut self, title: &str, blocks: &[ReportBlock]) {
        let screen = screen::text(blocks);
        let screen = screen.replace(&self.bench.scratch.0.display().to_string(), "[DIR]");
        self.text.push_str(&format!("== {title}\n{screen}\n"));
    }

    fn apply(&mut self, shield: &str, cpus: &str, off: &[&str]) {
        let options = ShieldOptions {
            shield: Some(shield.to_owned()),
            off: off.iter().map(|&name| name.to_owned()).collect(),
            ..ShieldOptions::of_list(&cpus.parse().unwrap())
        };
        let title = format!("apply --shield {shield} --cpus {cpus} --off {}", off.join(","));
        let source = PlanSource::Options(options);
        let applied = apply_source(&self.work(None), &source, ProgramsInTheWay::Refuse);
        let (applied, plan) = applied.unwrap_or_else(|failure| panic!("{title}: {failure:?}"));
        self.add(title.trim_end_matches(" --off "), &applied_blocks(&applied, &plan));
    }

    fn status(&mut self, title: &str) {
        let document = read_status(&self.work(None)).unwrap();
        let blocks = status_blocks(&document.status, &document.at_every_boot, StatusAudience::Root);
        self.add(&format!("status {title}"), &blocks);
    }

    fn undo(&mut self, shield: Option<&str>) {
        let target = if shield.is_some() { UndoTarget::One } else { UndoTarget::All };
        let document = undo_shields(&self.work(shield), target, UnrestoredChanges::Keep).unwrap();
        let title = shield.map_or("undo --all".to_owned(), |name| format!("undo --shield {name}"));
        self.add(&title, &undo_blocks(&document.shields, &document.at_every_boot));
    }

    /// A screen of the program itself, which only reads the machine.
    fn program(&mut self, words: &[&str]) {
        let done = cpushield(&self.bench, words);
        let (out, error) = (String::from_utf8(done.stdout), String::from_utf8(done.stderr));
        let screen =
            format!("{}{}exit code {:?}", out.unwrap(), error.unwrap(), done.status.code());
        let screen = screen.replace(&self.bench.scratch.0.display().to_string(), "[DIR]");
        self.text.push_str(&format!("== {}\n{screen}\n\n", words.join(" ")));
    }

    fn compare(self, name: &str) {
        screen::check(&self.text, &format!("tests/recorded/roundtrip/screens/{name}.txt"));
    }
}

#[test]
fn two_shields_are_made_shown_changed_and_taken_down() {
    let mut screens = Screens::of("6.12-rt-smt");
    screens.apply("mill", "6-7", &[]);
    screens.status("with one shield");
    screens.program(&["status", "--shield", "lathe"]);
    screens.apply("lathe", "4-5", &[]);
    screens.status("with two shields");
    screens.program(&["plan", "--free"]);
    screens.program(&["plan", "--shield", "drill", "--cpus", "5"]);
    screens.program(&["plan", "--shield", "mill", "--cpus", "6-7", "--off", "irq-affinity"]);
    screens.apply("mill", "6-7", &["irq-affinity"]);
    screens.apply("mill", "6-7", &["irq-affinity"]);
    screens.undo(Some("lathe"));
    screens.undo(None);
    screens.status("without a shield");
    screens.compare("two-shields");
}

#[test]
fn a_changed_setting_and_an_incomplete_shield_are_shown_until_they_are_undone() {
    let mut screens = Screens::of("6.1-rt-v1");
    screens.apply("cpushield", "3", &[]);
    screens.bench.host().write("/proc/irq/default_smp_affinity", "f").unwrap();
    screens.status("after another process changed a setting");
    screens.undo(None);
    screens.apply("cpushield", "3", &[]);
    let journal = fs::read_to_string(screens.bench.journal()).unwrap();
    let last_line = journal.trim_end().rfind('\n').unwrap();
    fs::write(screens.bench.journal(), &journal[..=last_line]).unwrap();
    screens.status("after apply was killed");
    screens.undo(None);
    screens.compare("drift-and-kill");
}
