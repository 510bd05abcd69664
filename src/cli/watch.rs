//! `cpushield watch`: a live view of all CPUs.

use super::standing::ActiveArgs;
use super::watch_target::{ActiveShield, active_shield};
use super::{GlobalArgs, input};
use crate::failure::Failure;
use crate::live::{self, LiveFrame, LiveModel, LiveReading, LiveSetup, ViewOptions};
use crate::run::ShieldPlacement;
use crate::screen::{Screen, UserAction};
use crate::survey;
use crate::ui::{OutputFormat, Ui};
use crate::verify::counters;
use crate::verify::trace::{RecordRequest, TraceRecorder};
use cpushield_linux::{CpuSet, Host, sched, signal};
use std::time::{Duration, Instant};

/// Show a live view of all CPUs
///
/// Shows which CPUs are shielded and what enters the kernel there. The rates come from kernel
/// counters, which rarely name a culprit. The view itself never runs on a shielded CPU.
///
/// On a terminal, `q` quits, `s` shows shielded CPUs only, and the arrow keys scroll. Otherwise it
/// prints one frame. With --json it prints a line per interval until it is stopped.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    /// Time between two updates
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one frame and exit
    #[arg(long)]
    once: bool,
    /// Treat these CPUs as shielded [default: the CPUs of the active shield]
    #[arg(long, value_name = "LIST", value_parser = input::cpu_list)]
    cpus: Option<CpuSet>,
    /// Trace the shielded CPUs to name culprits; starting and stopping the trace interrupts every
    /// CPU
    #[arg(long)]
    trace: bool,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// The first look is short, so that there is something to see.
const FIRST: Duration = Duration::from_millis(400);
/// The trace is read at least so often, and a signal is seen so soon.
const STEP: Duration = Duration::from_millis(100);
/// Columns where no terminal says how many.
const COLUMNS: u16 = 120;

/// Runs it.
///
/// # Errors
/// The machine cannot be read, or the terminal cannot be used.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &WatchArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine does not run: nothing to watch"));
    }
    args.active.check(&host, &global.store())?;
    if let Some(cpus) = &args.cpus {
        input::check_cpus(&host, cpus)?;
    }
    // A normal user cannot read the journal, and can watch all the same.
    let active = active_shield(&host, &global.store()).unwrap_or_else(|failure| {
        ui.warn(&failure.message);
        ActiveShield::Denied
    });
    let unread = matches!(active, ActiveShield::Denied) && args.cpus.is_none();
    let place = active.plan().map(|plan| ShieldPlacement::new(&host, &plan));
    let mut scene = LiveSetup { unread, ..scene(&host, args, place.as_ref()) };
    scene.from = keep_off(&scene);
    scene.topology = survey::topology(&host);
    signal::catch_stops()
        .map_err(|e| Failure::machine(format!("signals cannot be caught: {e}")))?;
    let recorder = args.trace.then(|| trace(ui, &host, &scene.shielded)).flatten();
    let begun = Instant::now();
    let mut watcher =
        LiveReader { host: &host, place, cpus: scene.shielded.clone(), recorder, begun };
    let first = watcher.read();
    let model = LiveModel::new(scene, first);
    if ui.format == OutputFormat::Json {
        stream(ui, args, watcher, model)
    } else if args.once || !ui.is_terminal() {
        once(ui, args, watcher, model)
    } else {
        on_screen(ui, args, watcher, model)
    }
}

fn scene(host: &Host, args: &WatchArgs, place: Option<&ShieldPlacement>) -> LiveSetup {
    let list = |name: &str| -> CpuSet {
        let text = host.read_line(&format!("/sys/devices/system/cpu/{name}"));
        text.ok().and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let idle = place.map(|place| place.idle.clone()).unwrap_or_default();
    let shielded = place.map(|place| place.cpus.union(&idle)).unwrap_or_default();
    let shielded = args.cpus.clone().unwrap_or(shielded).and(&list("online"));
    let isolated = list("isolated").union(&list("nohz_full")).minus(&shielded);
    LiveSetup { idle: idle.and(&shielded), shielded, isolated, ..LiveSetup::default() }
}

/// Keeps this thread, the only one, off all CPUs that are to be left alone, and says where it may
/// be; `None` when there are none to keep off, or when it could not.
fn keep_off(scene: &LiveSetup) -> Option<CpuSet> {
    let avoid = scene.shielded.union(&scene.isolated);
    if avoid.is_empty() {
        return None;
    }
    let kept = sched::affinity(0).ok()?.minus(&avoid);
    // With all of them shielded or isolated there is nowhere else to be.
    (!kept.is_empty() && sched::set_affinity(0, &kept).is_ok()).then_some(kept)
}

/// A trace that runs; without one the counters remain, and why is said.
fn trace<'h>(ui: &Ui, host: &'h Host, cpus: &CpuSet) -> Option<TraceRecorder<'h>> {
    if cpus.is_empty() {
        ui.warn("nothing is traced, because no CPU is shielded (--cpus names some)");
        return None;
    }
    let armed = TraceRecorder::arm(
        host,
        &RecordRequest { cpus: cpus.clone(), syscalls: false, stacks: false },
    );
    let started = armed.map_err(|absent| absent.to_string()).and_then(|mut recorder| {
        recorder.start().map_err(|error| error.to_string())?;
        Ok(recorder)
    });
    started.inspect_err(|why| ui.warn(&format!("no trace: {why}"))).ok()
}

/// Who reads.
struct LiveReader<'h> {
    host: &'h Host,
    place: Option<ShieldPlacement>,
    /// The shielded CPUs.
    cpus: CpuSet,
    recorder: Option<TraceRecorder<'h>>,
    begun: Instant,
}

impl LiveReader<'_> {
    fn read(&mut self) -> LiveReading {
        let own = self.place.as_ref().and_then(|place| place.members(self.host).ok());
        let own = own.unwrap_or_default();
        let mut traced = Vec::new();
        if let Some(recorder) = &mut self.recorder {
            recorder.set_workload(&own);
            // An error ends the trace; from then on the counters speak.
            match recorder.end_phase() {
                Ok(seen) => traced = seen,
                Err(_) => self.recorder = None,
            }
        }
        let counters = counters::take(self.host, &self.cpus);
        LiveReading { at: self.begun.elapsed(), counters, traced, own }
    }

    fn poll(&mut self) {
        if self.recorder.as_mut().is_some_and(|recorder| recorder.poll().is_err()) {
            self.recorder = None;
        }
    }

    /// Lets time go by; `false` when it is to end.
    fn wait(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if signal::stopped_by().is_some() {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(STEP));
            self.poll();
        }
    }
}

/// A line of JSON for every interval, or for one.
fn stream(
    ui: &Ui,
    args: &WatchArgs,
    mut watcher: LiveReader<'_>,
    mut model: LiveModel,
) -> Result<(), Failure> {
    while watcher.wait(args.interval) {
        let read = ui.line(&model.next(watcher.read()))?;
        if args.once || !read {
            break;
        }
    }
    Ok(())
}

/// One frame as text.
fn once(
    ui: &Ui,
    args: &WatchArgs,
    mut watcher: LiveReader<'_>,
    mut model: LiveModel,
) -> Result<(), Failure> {
    if !watcher.wait(args.interval) {
        return Ok(());
    }
    let frame = model.next(watcher.read());
    let columns = ui.columns().unwrap_or(COLUMNS);
    ui.show(&frame, || live::plain_lines(&frame, usize::from(columns)).join("\n"))
}

/// On a terminal, until it is ended.
fn on_screen(
    ui: &Ui,
    args: &WatchArgs,
    mut watcher: LiveReader<'_>,
    mut model: LiveModel,
) -> Result<(), Failure> {
    let lost = |e| Failure::machine(format!("the terminal cannot be used: {e}"));
    let mut screen = Screen::take().map_err(lost)?;
    let mut look = ViewOptions { colour: ui.is_coloured(), ..ViewOptions::default() };
    let mut until = Instant::now() + FIRST.min(args.interval);
    let mut frame: Option<LiveFrame> = None;
    while signal::stopped_by().is_none() {
        let left = until.saturating_duration_since(Instant::now());
        let key = screen.wait(left.min(STEP)).map_err(lost)?;
        watcher.poll();
        match key {
            Some(UserAction::Quit | UserAction::Gone) => break,
            Some(UserAction::Up(lines)) => {
                let lines_in_all = frame.as_ref().map_or(0, |frame| 2 * frame.cpus.len());
                look.scroll = look.scroll.saturating_add_signed(lines.saturating_neg());
                look.scroll = look.scroll.min(lines_in_all);
            }
            Some(UserAction::Letter('s')) => {
                look = ViewOptions { shielded_only: !look.shielded_only, scroll: 0, ..look };
            }
            Some(UserAction::Redraw | UserAction::Letter(_)) => {}
            None if Instant::now() < until => continue,
            None => {}
        }
        if Instant::now() >= until {
            frame = Some(model.next(watcher.read()));
            until = Instant::now() + args.interval;
        }
        if let Some(frame) = &frame {
            screen.draw(|on| live::draw(on, frame, look)).map_err(lost)?;
        }
    }
    Ok(())
}

/// A time from 50 ms on: faster than that, reading is most of what would be seen.
fn interval(text: &str) -> Result<Duration, String> {
    match input::time(text)? {
        time if time < Duration::from_millis(50) => Err("50ms is the shortest".to_owned()),
        time => Ok(time),
    }
}
