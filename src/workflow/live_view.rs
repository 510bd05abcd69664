//! The live view of all CPUs: reads counters and the trace, and draws a frame per interval.

use super::cpu_names::read_cpu_list;
use super::trace_disturbance::check_disturbance;
use super::watch_target::check_cpus;
use super::{WorkContext, catch_stops};
use crate::apply;
use crate::failure::Failure;
use crate::live::{self, LiveFrame, LiveModel, LiveReading, LiveSetup, ViewOptions};
use crate::observe::counters;
use crate::policy::DisturbanceConsent;
use crate::report::blocks::{ReportBlock, TextPainter, terminal_blocks, unpainted};
use crate::run::{RunError, ShieldPlacement};
use crate::screen::{Screen, UserAction};
use crate::survey;
use crate::trace::{RecordRequest, TraceRecorder};
use crate::ui::{OutputFormat, Ui, paint};
use cpushield_linux::{AffinityGuard, CpuSet, FileStamp, Host, sys::signal};
use std::time::{Duration, Instant};

/// The first interval is short, so that the view appears soon.
const FIRST_INTERVAL: Duration = Duration::from_millis(400);
/// How often the trace is read and signals are checked.
const STEP: Duration = Duration::from_millis(100);
/// Columns if there is no terminal.
const COLUMNS: u16 = 120;

/// What the view shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveRequest {
    /// Time between two updates.
    pub interval: Duration,
    /// Whether the view ends after one frame.
    pub once: bool,
    /// CPUs to treat as shielded; those of the active shield if `None`.
    pub cpus: Option<CpuSet>,
    /// Whether the CPUs that are shielded at the start are traced.
    pub trace: bool,
    /// Whether the trace may interrupt other shields.
    pub disturbance: DisturbanceConsent,
}

/// Shows the view: on a terminal until the user quits, else one frame, or a line of JSON per
/// interval.
///
/// # Errors
/// The machine cannot be read, or the terminal cannot be used.
pub fn show_live_view(work: &WorkContext<'_>, request: &LiveRequest) -> Result<(), Failure> {
    let WorkContext { ui, host, .. } = work;
    if let Some(cpus) = &request.cpus {
        check_cpus(host, cpus)?;
    }
    let mut reader = LiveReader::open(work, request);
    if request.trace {
        check_disturbance(work, &reader.setup.shielded, request.disturbance)?;
    }
    catch_stops()?;
    if request.trace {
        reader.recorder = start_trace(ui, host, &reader.setup.shielded);
    }
    let model = reader.first_model();
    if ui.format == OutputFormat::Json {
        print_json_lines(ui, request, reader, model)
    } else if request.once || !ui.is_terminal() {
        print_one_frame(ui, request, reader, model)
    } else {
        run_on_screen(ui, request, reader, model)
    }
}

/// The active shield that is named, or that has the given CPUs; otherwise all of them. Also whether
/// the shielded CPUs are unknown: a normal user cannot read the journal, but can watch all CPUs.
pub(super) fn find_places(
    work: &WorkContext<'_>,
    request: &LiveRequest,
) -> (Vec<ShieldPlacement>, bool) {
    look_up_places(work, request).unwrap_or_else(|error| {
        work.ui.warn(&error.to_string());
        (Vec::new(), request.cpus.is_none())
    })
}

/// The same, without a warning.
fn look_up_places(
    work: &WorkContext<'_>,
    request: &LiveRequest,
) -> Result<(Vec<ShieldPlacement>, bool), RunError> {
    let plans = match (&work.shield, &request.cpus) {
        (None, Some(cpus)) => work.active_on(cpus),
        _ => work.chosen(),
    };
    match plans {
        Ok(plans) => {
            let places = plans.iter().map(|plan| ShieldPlacement::new(&work.host, plan));
            Ok((places.collect(), false))
        }
        Err(error) if error.is_denied() => Ok((Vec::new(), request.cpus.is_none())),
        Err(error) => Err(error),
    }
}

pub(super) fn live_setup(
    host: &Host,
    request: &LiveRequest,
    places: &[ShieldPlacement],
) -> LiveSetup {
    let idle: CpuSet = places.iter().map(|place| &place.idle).collect();
    let in_shield: CpuSet = places.iter().map(|place| &place.cpus).chain([&idle]).collect();
    let watched = request.cpus.clone().unwrap_or(in_shield);
    let shielded = watched.intersection(&read_cpu_list(host, "online"));
    let at_boot = read_cpu_list(host, "isolated").union(&read_cpu_list(host, "nohz_full"));
    let isolated = at_boot.difference(&shielded);
    LiveSetup { idle: idle.intersection(&shielded), shielded, isolated, ..LiveSetup::default() }
}

/// Moves this process, which has one thread, off all shielded and isolated CPUs. Returns where it
/// may now run; `None` if there is nothing to avoid, or if it cannot move.
fn leave_shielded_cpus(host: &Host, setup: &LiveSetup) -> Option<CpuSet> {
    let avoid = setup.shielded.union(&setup.isolated);
    if avoid.is_empty() {
        return None;
    }
    // If every CPU is shielded or isolated, there is no other place to run.
    host.step_aside(&read_cpu_list(host, "online").difference(&avoid)).map(AffinityGuard::stay).ok()
}

/// Starts a trace. Without one, warns why; the view then uses counters only.
fn start_trace<'h>(ui: &Ui, host: &'h Host, cpus: &CpuSet) -> Option<TraceRecorder<'h>> {
    if cpus.is_empty() {
        ui.warn("no trace, because no CPU is shielded; name CPUs with --cpus");
        return None;
    }
    let armed =
        TraceRecorder::arm(host, &RecordRequest { cpus: cpus.clone(), ..RecordRequest::default() });
    let started = armed.map_err(|absent| absent.to_string()).and_then(|mut recorder| {
        recorder.start().map_err(|error| error.to_string())?;
        Ok(recorder)
    });
    started.inspect_err(|why| ui.warn(&format!("no trace: {why}"))).ok()
}

/// Reads the counters, the trace, and which CPUs are online and shielded.
pub(super) struct LiveReader<'w> {
    work: &'w WorkContext<'w>,
    request: &'w LiveRequest,
    places: Vec<ShieldPlacement>,
    setup: LiveSetup,
    /// The journal that `places` are from; `None` until the first look at it.
    journal: Option<FileStamp>,
    /// It keeps the CPUs that were shielded at the start: arming a trace interrupts every CPU.
    recorder: Option<TraceRecorder<'w>>,
    started: Instant,
}

impl<'w> LiveReader<'w> {
    /// A reader without a trace. Moves this process off the shielded CPUs.
    pub(super) fn open(work: &'w WorkContext<'w>, request: &'w LiveRequest) -> LiveReader<'w> {
        let (places, unread) = find_places(work, request);
        let mut setup = LiveSetup { unread, ..live_setup(&work.host, request, &places) };
        setup.from = leave_shielded_cpus(&work.host, &setup);
        setup.topology = survey::topology(&work.host);
        let started = Instant::now();
        LiveReader { work, request, places, setup, journal: None, recorder: None, started }
    }

    /// A model that starts with a reading of now.
    pub(super) fn first_model(&mut self) -> LiveModel {
        LiveModel::new(self.setup.clone(), self.read())
    }

    /// The frame of the interval that ends now, with the CPUs and shields of now.
    pub(super) fn next_frame(&mut self, model: &mut LiveModel) -> LiveFrame {
        if self.refresh_setup() {
            model.setup = self.setup.clone();
        }
        model.next(self.read())
    }

    /// Reads the setup again if the journal or the online CPUs have changed. Otherwise this costs
    /// one look at the journal's inode and one small file.
    fn refresh_setup(&mut self) -> bool {
        let host = &self.work.host;
        let online = read_cpu_list(host, "online");
        let hotplugged = !online.is_empty() && online != self.setup.topology.online;
        let reread = self.refresh_places();
        if !hotplugged && !reread {
            return false;
        }
        let unread = self.setup.unread;
        let mut setup = LiveSetup { unread, ..live_setup(host, self.request, &self.places) };
        // If no CPU has to be avoided now, this process stays where it is.
        setup.from = leave_shielded_cpus(host, &setup).or_else(|| self.setup.from.take());
        setup.topology = match hotplugged {
            true => survey::topology(host),
            false => std::mem::take(&mut self.setup.topology),
        };
        self.setup = setup;
        true
    }

    /// Reads the shields again if the journal has changed. The shields before stay while another
    /// process changes them, and after a change that was interrupted.
    fn refresh_places(&mut self) -> bool {
        let WorkContext { store, .. } = self.work;
        let journal = Some(store.stamp(apply::JOURNAL));
        if journal == self.journal || matches!(store.holder(), Ok(Some(_))) {
            return false;
        }
        self.journal = journal;
        (self.places, self.setup.unread) = match look_up_places(self.work, self.request) {
            Ok(found) => found,
            Err(RunError::NoSuchShield { .. }) => (Vec::new(), false),
            Err(_) => return false,
        };
        true
    }

    fn read(&mut self) -> LiveReading {
        let host = &self.work.host;
        let members: Vec<i32> =
            self.places.iter().filter_map(|place| place.members(host).ok()).flatten().collect();
        let mut traced = Vec::new();
        if let Some(recorder) = &mut self.recorder {
            recorder.set_workload(&members);
            // An error ends the trace; from then on only counters are shown.
            match recorder.end_phase() {
                Ok(interruptions) => traced = interruptions,
                Err(_) => self.recorder = None,
            }
        }
        let counters = counters::read(host);
        LiveReading { at: self.started.elapsed(), counters, traced, own: members }
    }

    fn poll(&mut self) {
        if self.recorder.as_mut().is_some_and(|recorder| recorder.poll().is_err()) {
            self.recorder = None;
        }
    }

    /// Waits, and reads the trace during the wait. Returns `false` if a signal stopped it.
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

/// Prints a line of JSON for every interval, or for one.
fn print_json_lines(
    ui: &Ui,
    request: &LiveRequest,
    mut reader: LiveReader<'_>,
    mut model: LiveModel,
) -> Result<(), Failure> {
    while reader.wait(request.interval) {
        let has_reader = ui.line(&reader.next_frame(&mut model))?;
        if request.once || !has_reader {
            break;
        }
    }
    Ok(())
}

/// Prints one frame as text.
fn print_one_frame(
    ui: &Ui,
    request: &LiveRequest,
    mut reader: LiveReader<'_>,
    mut model: LiveModel,
) -> Result<(), Failure> {
    if !reader.wait(request.interval) {
        return Ok(());
    }
    let frame = reader.next_frame(&mut model);
    let columns = ui.columns().unwrap_or(COLUMNS);
    ui.show(&frame, || live::plain_lines(&frame, usize::from(columns)).join("\n"))
}

/// Draws frames on the terminal until the user quits.
fn run_on_screen(
    ui: &Ui,
    request: &LiveRequest,
    mut reader: LiveReader<'_>,
    mut model: LiveModel,
) -> Result<(), Failure> {
    let mut screen = Screen::take().map_err(terminal_failure)?;
    let painter: TextPainter<'_> = if ui.is_coloured() { &paint } else { &unpainted };
    let mut options = ViewOptions::default();
    let mut until = Instant::now() + FIRST_INTERVAL.min(request.interval);
    let mut frame: Option<LiveFrame> = None;
    while signal::stopped_by().is_none() {
        let left = until.saturating_duration_since(Instant::now());
        let key = screen.wait(left.min(STEP)).map_err(terminal_failure)?;
        reader.poll();
        match key {
            Some(UserAction::Quit | UserAction::Gone) => break,
            Some(UserAction::Up(lines)) => {
                let lines_in_all = frame.as_ref().map_or(0, |frame| 2 * frame.cpus.len());
                let scroll = options.scroll.saturating_add_signed(lines.saturating_neg());
                options.scroll = scroll.min(lines_in_all);
            }
            Some(UserAction::Letter('s')) => {
                let shielded_only = !options.shielded_only;
                options = ViewOptions { shielded_only, scroll: 0 };
            }
            Some(UserAction::Redraw | UserAction::Letter(_)) => {}
            None if Instant::now() < until => continue,
            None => {}
        }
        if Instant::now() >= until {
            frame = Some(reader.next_frame(&mut model));
            until = Instant::now() + request.interval;
        }
        if let Some(frame) = &frame {
            let (columns, rows) = screen.size().map_err(terminal_failure)?;
            let lines = ReportBlock::Lines(live::screen_lines(frame, options, (columns, rows)));
            screen.draw(&terminal_blocks(&[lines], columns, painter)).map_err(terminal_failure)?;
        }
    }
    Ok(())
}

fn terminal_failure(error: std::io::Error) -> Failure {
    Failure::machine(format!("cannot use the terminal: {error}"))
}
