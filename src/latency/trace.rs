//! A run of one of the kernel's tracers: its settings, a private instance, the threads it measures,
//! and its records, counted into tallies. Everything is read and written from a housekeeping CPU.

use super::kthreads::{kernels, kernels_own, ran_ns};
use super::measurement_process::{MeasurementProcess, MeasurementTimes, ThreadPlacement};
use super::order::{LatencyError, MeasureRequest};
use super::sample_source::{self, FinalFacts, SeriesLabel};
use super::settings::ChangedSettings;
use super::tracer::{
    LatencyTracer, MeasuredThreads, RecordLayout, TracerJob, TracerRecord, TracerSample, TracerUse,
};
use super::{LatencyDoubt, ThreadDoubt};
use crate::verify::firmware::{self, SmiCounter, SmiCounts};
use cpushield_linux::latency_stats::{
    DeferredRecorder, LIMITS, LatencyBoard, LatencyStats, ThreadSettings,
};
use cpushield_linux::ring_buffer::{self, LostRecords, PageLayout};
use cpushield_linux::tracefs::{InstanceSettings, TraceInstance, TracePipe, Tracefs};
use cpushield_linux::{CpuSet, Error, Host, clock};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The clock of the records, that of all figures.
const CLOCK: &str = "mono";
/// An event that is under way is waited for as long, and its period.
const GRACE: Duration = Duration::from_secs(2);
/// Pages read in one go, so that a writer faster than this reader does not keep it here.
const PAGES_MAX: usize = 4096;
/// EBUSY (asm-generic/errno-base.h).
const EBUSY: i32 = 16;

/// See the file. What is first is dropped first: no thread of ours may have the tracer's file when
/// the instance goes, as the kernel kills whoever has it then.
#[derive(Debug)]
pub(super) struct LatencyTrace<'h> {
    crew: Option<MeasurementProcess>,
    channels: RefCell<Vec<TracerChannel>>,
    instance: Option<RefCell<TraceInstance<'h>>>,
    settings: ChangedSettings<'h>,
    board: LatencyBoard,
    rows: Vec<SeriesLabel>,
    notes: Vec<String>,
    doubts: RefCell<Vec<LatencyDoubt>>,
    tracer: &'static dyn LatencyTracer,
    form: RecordLayout,
    cpus: CpuSet,
    period_ns: u64,
    stages: usize,
    limits_ns: [u64; LIMITS],
    host: &'h Host,
    /// What counts SMIs, and what it said before; `None` where nobody asks for them.
    smis: Option<(SmiCounter<'h>, SmiCounts)>,
    /// Threads that may see nothing for long: that they looked must be known.
    lookers: Option<TracerThreads>,
}

/// Threads of the kernel that look for something.
#[derive(Debug)]
struct TracerThreads {
    name: &'static str,
    /// Number, when that was, and how long it had run by then, of each CPU's.
    threads: Vec<(i32, u64, Option<u64>)>,
}

/// One that ran for less than this part of the time says nothing by its silence.
const LOOKED: u64 = 8;

/// One CPU's records.
#[derive(Debug)]
struct TracerChannel {
    pipe: TracePipe,
    cpu: usize,
    /// One for each stage, from when it began.
    books: Vec<ChannelRecorder>,
    /// Records that are not here, as far as their number is known, and whether there are others.
    lost: u64,
    torn: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct ChannelRecorder {
    ledger: Option<DeferredRecorder>,
    /// The number of the last event.
    last: Option<u32>,
    /// When it was due.
    due_ns: u64,
    /// Events whose numbers were never seen.
    gone: u64,
}

impl<'h> LatencyTrace<'h> {
    /// Makes everything ready, or says why it cannot be. What was changed until then goes back.
    pub(super) fn start(
        host: &'h Host,
        order: &MeasureRequest<'_>,
        tracer: &'static dyn LatencyTracer,
        seats: &[ThreadPlacement],
    ) -> Result<LatencyTrace<'h>, LatencyError> {
        let impossible =
            |why: String| LatencyError::Impossible { instrument: order.instrument.name(), why };
        let tracefs = Tracefs::find(host)?;
        let mut settings =
            ChangedSettings::claim(host, &order.store, &tracefs).map_err(|error| {
                match error.is_held() {
                    true => {
                        impossible(format!("another cpushield has the kernel's tracers ({error})"))
                    }
                    false => impossible(format!(
                        "what its settings were cannot be kept, so they are not touched: {error}"
                    )),
                }
            })?;
        if let Some((dir, name)) = tracefs.active_tracers(host, tracer.rivals()).first() {
            return Err(impossible(format!(
                "another process uses the {name} tracer in {dir}, which the settings would change; \
                 wait until it ends (rtla?), or stop it: echo nop > {dir}/current_tracer"
            )));
        }
        let period_ns = seats.first().map_or(0, |seat| seat.period_ns);
        let job = TracerJob { cpus: &order.cpus, period_ns };
        let uses = tracer.uses(host, &tracefs, &job).map_err(impossible)?;
        let format = tracefs.format(host, "ftrace", tracer.name())?;
        let form = format.ok_or("its format").and_then(|format| RecordLayout::new(tracer, &format));
        let form = form.map_err(|what| {
            impossible(format!("the records of {} have no {what} here", tracer.name()))
        })?;
        settings.change(uses.settings.clone()).map_err(|e| impossible(e.to_string()))?;
        let mut instance = instance(host, tracefs, &order.cpus).map_err(impossible)?;
        employ(&mut instance, tracer).map_err(impossible)?;
        // Afterwards: while a pipe is open, the kernel lets nobody change the tracer.
        let channels = channels(&instance, &order.cpus, uses.stages.len())?;
        settings.change_at_work()?;
        let mut trace = LatencyTrace {
            crew: None,
            channels: RefCell::new(channels),
            instance: Some(RefCell::new(instance)),
            settings,
            board: LatencyBoard::new(seats.len() * uses.stages.len())
                .map_err(|e| LatencyError::Threads { why: e.to_string() })?,
            rows: Vec::new(),
            notes: uses.notes.clone(),
            doubts: RefCell::default(),
            tracer,
            form,
            cpus: order.cpus.clone(),
            period_ns,
            stages: uses.stages.len(),
            limits_ns: sample_source::limits(order),
            host,
            smis: None,
            lookers: None,
        };
        if uses.counts_smis {
            let meter = SmiCounter::start(host, &trace.cpus);
            let before = meter.take();
            trace.smis = Some((meter, before));
        }
        trace.threads(host, order, seats, &uses)?;
        Ok(trace)
    }

    /// The threads that are measured, each in its place.
    fn threads(
        &mut self,
        host: &Host,
        order: &MeasureRequest<'_>,
        seats: &[ThreadPlacement],
        uses: &TracerUse,
    ) -> Result<(), LatencyError> {
        let tids = match uses.threads {
            MeasuredThreads::Ours => {
                let crew = sample_source::crew(order, seats)?;
                self.notes.extend(crew.notes.iter().cloned());
                let tids = crew.tids.clone();
                self.crew = Some(crew);
                tids
            }
            MeasuredThreads::Kernels(name) => kernels(host, name, seats)?,
            MeasuredThreads::Uninterruptible(name) => {
                self.lookers = Some(TracerThreads { name, threads: Vec::new() });
                vec![0; seats.len()]
            }
        };
        for (seat, tid) in seats.iter().zip(tids) {
            let threshold_ns = uses.threshold_ns;
            let row =
                |stage: &Option<_>| SeriesLabel { seat: *seat, stage: *stage, threshold_ns, tid };
            self.rows.extend(uses.stages.iter().map(row));
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> &[SeriesLabel] {
        &self.rows
    }

    pub(super) fn tallies(&self) -> &[LatencyStats] {
        self.board.tallies()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// The threads go, and what comes is recorded.
    pub(super) fn go(&mut self, times: MeasurementTimes) -> Result<(), LatencyError> {
        for (nth, channel) in self.channels.get_mut().iter_mut().enumerate() {
            let terms = ThreadSettings {
                cpu: channel.cpu,
                period_ns: self.period_ns,
                from_ns: times.from_ns,
                until_ns: times.until_ns,
                gives_up: false,
                limits_ns: self.limits_ns,
            };
            let tallies = self.board.tallies().iter().skip(nth * self.stages);
            for (book, tally) in channel.books.iter_mut().zip(tallies) {
                book.ledger = Some(DeferredRecorder::open(tally, terms));
            }
        }
        if let Some(crew) = &mut self.crew {
            crew.go(times)?;
        }
        if let Some(instance) = &self.instance {
            instance.borrow_mut().start()?;
        }
        if let Some(lookers) = &mut self.lookers {
            for cpu in self.cpus.iter() {
                let tid = kernels_own(self.host, &format!("{}{cpu}", lookers.name), &|_| true)?;
                let now = clock::monotonic_ns();
                lookers.threads.push((tid, now, ran_ns(self.host, tid)));
            }
        }
        Ok(())
    }

    /// Those that did not look for long enough.
    fn look_at_lookers(&self) {
        let Some(lookers) = &self.lookers else { return };
        for (cpu, (tid, since, before)) in self.cpus.iter().zip(&lookers.threads) {
            let span = clock::monotonic_ns().saturating_sub(*since);
            let ran =
                ran_ns(self.host, *tid).zip(*before).map(|(now, was)| now.saturating_sub(was));
            if ran.is_none_or(|ran| ran < span / LOOKED) {
                let thread = format!("{}{cpu}", lookers.name);
                let doubt = LatencyDoubt::LookerKeptAway { thread, ran_ns: ran, span_ns: span };
                self.doubts.borrow_mut().push(doubt);
            }
        }
    }

    /// Counts what was recorded since the last time.
    pub(super) fn look(&self) {
        let job = TracerJob { cpus: &self.cpus, period_ns: self.period_ns };
        let mut channels = self.channels.borrow_mut();
        for (channel, tallies) in
            channels.iter_mut().zip(self.board.tallies().chunks(self.stages.max(1)))
        {
            if let Err(error) = channel.read(self.tracer, &self.form, &job, tallies) {
                let (cpu, answer) = (channel.cpu, error.to_string());
                let doubt = LatencyDoubt::RecordsUnreadable { cpu, answer };
                let mut doubts = self.doubts.borrow_mut();
                if !doubts.contains(&doubt) {
                    doubts.push(doubt);
                }
            }
        }
    }

    /// Recording ends once the events that are due by now have come, or have had their time.
    pub(super) fn stop(&self, longest_period: Duration) {
        let now = clock::monotonic_ns();
        let until = Instant::now() + longest_period.min(GRACE) + GRACE;
        let mut came;
        loop {
            self.look();
            came = self.channels.borrow().iter().map(|it| it.came(now, self.period_ns)).collect();
            let all = |came: &Vec<Vec<bool>>| came.iter().flatten().all(|came| *came);
            if all(&came) || Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.look_at_lookers();
        if let Some(crew) = &self.crew {
            crew.stop(longest_period);
        }
        if let Some(instance) = &self.instance
            && let Err(error) = instance.borrow_mut().stop()
        {
            let answer = error.to_string();
            self.doubts.borrow_mut().push(LatencyDoubt::TracerNotStopped { answer });
        }
        self.look();
        let mut channels = self.channels.borrow_mut();
        let books = channels.iter_mut().flat_map(|channel| &mut channel.books);
        for ((book, tally), came) in books.zip(self.board.tallies()).zip(came.iter().flatten()) {
            // What did not come stays open: its series says so.
            if let Some(ledger) = book.ledger.filter(|_| *came) {
                ledger.close(tally);
            }
        }
    }

    /// How many SMIs came, and why that is not known of some.
    fn smis(&mut self, rest: &mut FinalFacts) {
        let Some((meter, before)) = self.smis.take() else { return };
        let after = meter.take();
        if let Some(why) = firmware::absent(&before, &after) {
            rest.notes.push(format!("SMIs of CPU {} cannot be counted: {why}", self.cpus));
        }
        for cpu in self.cpus.iter() {
            let came = firmware::between(&before, &after, cpu);
            rest.smis.extend(std::iter::repeat_n(came, self.stages));
        }
    }

    /// Ends everything.
    pub(super) fn dismiss(mut self) -> FinalFacts {
        if let Some(crew) = self.crew.take() {
            crew.dismiss();
        }
        let channels = std::mem::take(&mut *self.channels.borrow_mut());
        let mut rest = FinalFacts { of_all: self.doubts.take(), ..FinalFacts::default() };
        for channel in channels {
            if let Some(instance) = &self.instance
                && let Ok(stats) = instance.borrow().stats(channel.cpu)
                && stats.lost() > 0
            {
                let (cpu, count) = (channel.cpu, stats.lost());
                rest.of_all.push(LatencyDoubt::RecordsLost { cpu, count });
            }
            rest.of_each.extend(channel.books.iter().map(|book| channel.doubts(book)));
            // The pipe closes here: an instance whose pipes are open cannot be removed.
        }
        rest.of_all.extend(settings_left(self.settings.put_back_at_work()));
        if let Some(Err(error)) = self.instance.take().map(|it| it.into_inner().close()) {
            rest.of_all.push(LatencyDoubt::TraceLeft { answer: error.to_string() });
        }
        rest.of_all.extend(settings_left(self.settings.put_back()));
        self.smis(&mut rest);
        rest
    }
}

fn settings_left(answers: Vec<String>) -> impl Iterator<Item = LatencyDoubt> {
    answers.into_iter().map(|answer| LatencyDoubt::SettingLeft { answer })
}

/// An instance that records nothing yet.
fn instance<'h>(
    host: &'h Host,
    tracefs: Tracefs,
    cpus: &CpuSet,
) -> Result<TraceInstance<'h>, String> {
    let hog = host.hogs().unwrap_or_default().into_iter().next();
    let wanted = InstanceSettings {
        cpus,
        clock: CLOCK,
        events: &[],
        buffer_kib: None,
        shrink: &CpuSet::new(),
        no_work: hog.is_some(),
    };
    TraceInstance::prepare(host, tracefs, &wanted).map_err(|error| match (hog, error.errno()) {
        (Some(hog), Some(EBUSY)) => format!(
            "CPU {} is busy with the real-time task {hog}, and this kernel must run a work item on \
             every CPU before it can record anything: it would wait forever",
            hog.task.cpu
        ),
        _ => format!("the trace could not be set up: {error}"),
    })
}

fn channels(
    instance: &TraceInstance<'_>,
    cpus: &CpuSet,
    stages: usize,
) -> Result<Vec<TracerChannel>, LatencyError> {
    let channel = |cpu| -> Result<TracerChannel, Error> {
        let (pipe, books) = (instance.pipe(cpu)?, vec![ChannelRecorder::default(); stages]);
        Ok(TracerChannel { pipe, cpu, books, lost: 0, torn: false })
    };
    cpus.iter().map(|cpu| channel(cpu).map_err(LatencyError::from)).collect()
}

/// The tracer begins its work.
fn employ(instance: &mut TraceInstance<'_>, tracer: &dyn LatencyTracer) -> Result<(), String> {
    instance.set_tracer(tracer.name()).map_err(|error| match error.errno() {
        Some(EBUSY) => format!("another process uses a kernel tracer: {error}"),
        // Before 5.17 osnoise and timerlat were for the top level alone.
        Some(22) => format!("this kernel has no {} in instances (5.17)", tracer.name()),
        _ => error.to_string(),
    })
}

impl TracerChannel {
    fn read(
        &mut self,
        tracer: &dyn LatencyTracer,
        form: &RecordLayout,
        job: &TracerJob<'_>,
        tallies: &[LatencyStats],
    ) -> Result<(), Error> {
        let layout = self.pipe.layout();
        for _ in 0..PAGES_MAX {
            let Some(page) = self.pipe.next_page()? else { break };
            let mut into =
                PageSink { books: &mut self.books, lost: &mut self.lost, torn: &mut self.torn };
            into.page(&layout, page, tracer, form, job, tallies);
        }
        Ok(())
    }

    /// Whether each stage has seen an event that was due in the last period before this moment, or
    /// since.
    fn came(&self, now: u64, period_ns: u64) -> Vec<bool> {
        let after = now.saturating_sub(period_ns);
        self.books.iter().map(|book| period_ns == 0 || book.due_ns >= after).collect()
    }

    fn doubts(&self, book: &ChannelRecorder) -> Vec<ThreadDoubt> {
        let mut doubts = Vec::new();
        if book.gone > 0 {
            doubts.push(ThreadDoubt::EventsMissing { count: book.gone });
        }
        if self.lost > 0 || self.torn {
            let count = Some(self.lost).filter(|lost| *lost > 0);
            doubts.push(ThreadDoubt::RecordsLost { count });
        }
        doubts
    }
}

/// Where a page goes.
struct PageSink<'a> {
    books: &'a mut [ChannelRecorder],
    lost: &'a mut u64,
    torn: &'a mut bool,
}

impl PageSink<'_> {
    fn page(
        &mut self,
        layout: &PageLayout,
        page: &[u8],
        tracer: &dyn LatencyTracer,
        form: &RecordLayout,
        job: &TracerJob<'_>,
        tallies: &[LatencyStats],
    ) {
        let page = ring_buffer::decode(layout, page);
        match page.lost {
            LostRecords::Nothing => {}
            LostRecords::Count(count) => *self.lost = self.lost.saturating_add(count),
            LostRecords::Some => *self.torn = true,
        }
        let mut records = page.records();
        for record in records.by_ref() {
            match form.read(tracer, record.bytes, record.timestamp, job) {
                TracerRecord::Sample(sample) => self.enter(&sample, tallies),
                TracerRecord::Foreign => {}
                TracerRecord::Odd => *self.torn = true,
            }
        }
        *self.torn |= records.skipped() > 0;
    }

    fn enter(&mut self, sample: &TracerSample, tallies: &[LatencyStats]) {
        let (Some(book), Some(tally)) =
            (self.books.get_mut(sample.stage), tallies.get(sample.stage))
        else {
            *self.torn = true;
            return;
        };
        if let (Some(last), Some(number)) = (book.last, sample.number) {
            book.gone += u64::from(number.wrapping_sub(last).wrapping_sub(1));
        }
        book.last = sample.number;
        book.due_ns = sample.wake.due_ns;
        if let Some(ledger) = &mut book.ledger {
            ledger.record(tally, sample.wake);
        }
    }
}

#[cfg(test)]
mod tests;
