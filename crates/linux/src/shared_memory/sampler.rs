//! The gap sampler: a loop that does nothing but read the clock, so that every jump of the clock is
//! time that the CPU spent on something else. The hot loop is a free function on primitives. A
//! [`Spinner`] runs it in a separate process that shares this one's memory. So the loop can be in
//! another cgroup, and `membarrier(2)` of this process reaches it.
//!
//! Elsewhere: which CPUs, which cgroup, what the gaps mean.

mod ring;

pub use ring::{GapRing, GapRingReader, GapSink};

use crate::processes::process::wait_for_child;
use crate::shared_memory::{AtomicCells, MemoryMapping};
use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions};
use rustix::thread::sched_yield;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A gap: the time between two clock reads, if it was longer than the threshold; in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Gap {
    /// The last clock read before it.
    pub start: u64,
    /// The first clock read after it.
    pub end: u64,
}

/// The result of one run of the loop. All times are in ticks of [`ticks`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LoopSample {
    /// The first clock read.
    pub first: u64,
    /// The last clock read.
    pub last: u64,
    /// The number of clock reads.
    pub loops: u64,
    /// The number of gaps of the threshold or more, and of the gap that was under way at the end.
    pub gaps: u64,
    /// The longest gap.
    pub max: u64,
    /// The sum of all gaps.
    pub sum: u64,
    /// The longest time without a gap.
    pub longest: u64,
    /// How often the clock went backwards.
    pub backwards: u64,
}

/// When the loop begins and ends, and which gaps it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopLimits {
    /// The first clock read, just before the loop.
    pub first: u64,
    /// The loop runs while the shared word has this value.
    pub phase: u32,
    /// The loop ends at this tick, whatever the value of the shared word.
    pub deadline: u64,
    /// The shortest gap that counts, in ticks.
    pub threshold: u64,
    /// The shortest gap under way at the end that counts, in ticks.
    pub end_threshold: u64,
}

/// The counter of [`crate::sys::clock::ticks`], without its fence on x86-64: reads of the loop need
/// no order with other instructions.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 CPU has the instruction, and Linux lets user space use it.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        crate::sys::clock::ticks().0
    }
}

/// The hot loop. It allocates nothing, takes no lock and calls nothing; `phase` is the only shared
/// memory that it reads. It writes every clock read to `last_tick`, which shows other processes
/// that it is on its CPU, and writes each gap to `gaps`.
#[inline(never)]
pub fn spin(
    phase: &AtomicU32,
    last_tick: &AtomicU64,
    limits: LoopLimits,
    gaps: GapSink<'_>,
) -> LoopSample {
    let mut seen = LoopSample { first: limits.first, last: limits.first, ..LoopSample::default() };
    let mut since = limits.first;
    while phase.load(Ordering::Relaxed) == limits.phase && seen.last < limits.deadline {
        seen.count(ticks(), limits.threshold, &mut since, gaps);
        // After its gap: a reader of this tick sees all gaps before it.
        last_tick.store(seen.last, Ordering::Release);
    }
    // The phase may have changed while the loop was off its CPU: that gap was under way at the end.
    // The change itself costs the loop one load of a cache line, which `end_threshold` leaves out.
    seen.count(ticks(), limits.threshold.max(limits.end_threshold), &mut since, gaps);
    last_tick.store(seen.last, Ordering::Release);
    seen.longest = seen.longest.max(seen.last.wrapping_sub(since));
    seen
}

impl LoopSample {
    /// Counts a clock read, and the gap before it if that is long enough. `since` is the end of the
    /// gap before.
    #[inline(always)]
    fn count(&mut self, now: u64, threshold: u64, since: &mut u64, gaps: GapSink<'_>) {
        let took = now.wrapping_sub(self.last);
        if now < self.last {
            self.backwards = self.backwards.wrapping_add(1);
        } else if took >= threshold {
            self.gaps = self.gaps.wrapping_add(1);
            self.sum = self.sum.wrapping_add(took);
            self.max = self.max.max(took);
            self.longest = self.longest.max(self.last.wrapping_sub(*since));
            *since = now;
            gaps.push(self.last, now);
        }
        self.loops = self.loops.wrapping_add(1);
        self.last = now;
    }
}

/// The phase of the loop; the values of the shared word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum LoopPhase {
    /// Not yet placed: yields its CPU.
    Parked = 0,
    /// Spins without counting: before, between and after the phases that count.
    Idle = 1,
    /// The positive control.
    Control = 2,
    /// The span that is judged.
    Span = 3,
    /// Ends.
    End = 4,
}

/// The state that the spinner shares with its parent, which writes it before the spinner starts.
#[derive(Debug)]
#[repr(C)]
struct SpinnerState {
    phase: AtomicU32,
    /// The last phase with a sample that has begun.
    begun: AtomicU32,
    /// The last phase whose sample is written.
    done: AtomicU32,
    deadline: AtomicU64,
    /// Thresholds of control and span in ticks.
    thresholds: [AtomicU64; 2],
    end_threshold: AtomicU64,
    samples: [SharedSample; 2],
}

// SAFETY: it consists of atomic numbers only.
unsafe impl AtomicCells for SpinnerState {}

/// A [`LoopSample`] in shared memory, which the spinner writes once.
#[derive(Debug)]
#[repr(C)]
struct SharedSample([AtomicU64; 8]);

impl SharedSample {
    fn store(&self, sample: LoopSample) {
        let LoopSample { first, last, loops, gaps, max, sum, longest, backwards } = sample;
        let values = [first, last, loops, gaps, max, sum, longest, backwards];
        for (cell, value) in self.0.iter().zip(values) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    fn load(&self) -> LoopSample {
        let [first, last, loops, gaps, max, sum, longest, backwards] =
            self.0.each_ref().map(|cell| cell.load(Ordering::Relaxed));
        LoopSample { first, last, loops, gaps, max, sum, longest, backwards }
    }
}

/// Memory of this process that the spinner uses as well.
#[derive(Debug)]
struct SpinnerMemory {
    /// The stack, and after it the state.
    memory: MemoryMapping,
    /// Where the gaps of control and span go.
    rings: [GapRing; 2],
}

impl SpinnerMemory {
    fn state(&self) -> &SpinnerState {
        self.memory.cell(STACK_BYTES)
    }
}

/// The settings of a spinner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpinnerSettings {
    /// The tick at which it ends itself.
    pub deadline: u64,
    /// The shortest gap that counts in the control phase, in ticks.
    pub control_threshold: u64,
    /// The shortest gap that counts in the span phase, in ticks.
    pub span_threshold: u64,
    /// The shortest gap under way at the end of a phase that counts, in ticks.
    pub end_threshold: u64,
    /// How many gaps the ring holds.
    pub ring_capacity: usize,
}

/// A process that runs the loop in this process's memory.
#[derive(Debug)]
pub struct Spinner {
    process: Pid,
    /// Freed after the process has ended, see `drop`.
    shared: Arc<SpinnerMemory>,
    /// Whether the memory could be locked; otherwise it is only touched beforehand.
    pub locked: bool,
}

const STACK_BYTES: usize = 64 << 10;

impl Spinner {
    /// Starts a spinner, parked, on the CPUs of the calling thread.
    ///
    /// # Errors
    /// No memory or no process.
    pub fn start(settings: SpinnerSettings) -> io::Result<Spinner> {
        let memory = MemoryMapping::anonymous(STACK_BYTES + size_of::<SpinnerState>())?;
        let rings = [GapRing::new(settings.ring_capacity)?, GapRing::new(settings.ring_capacity)?];
        let locked = memory.lock() && rings.iter().all(|ring| ring.locked);
        let shared = Arc::new(SpinnerMemory { memory, rings });
        let state = shared.state();
        state.phase.store(LoopPhase::Parked as u32, Ordering::Relaxed);
        state.begun.store(LoopPhase::Parked as u32, Ordering::Relaxed);
        state.done.store(LoopPhase::Parked as u32, Ordering::Relaxed);
        state.deadline.store(settings.deadline, Ordering::Relaxed);
        state.thresholds[0].store(settings.control_threshold, Ordering::Relaxed);
        state.thresholds[1].store(settings.span_threshold, Ordering::Relaxed);
        state.end_threshold.store(settings.end_threshold, Ordering::Relaxed);
        let stack_top = shared.memory.start().wrapping_byte_add(STACK_BYTES);
        let argument = Arc::as_ptr(&shared).cast_mut().cast();
        // SAFETY: the stack grows down from a 16-byte aligned address inside the mapping, which
        // lives until the process was waited for (Drop). The process only runs `run`, which uses
        // `shared`, its stack and two system calls of rustix. These need no thread-local memory:
        // they store no errno, which would be that of the calling thread.
        let tid = unsafe { libc::clone(run, stack_top, libc::CLONE_VM | libc::SIGCHLD, argument) };
        match Pid::from_raw(tid.max(0)) {
            Some(process) => Ok(Spinner { process, shared, locked }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// The ID of its process and of its only thread.
    #[must_use]
    pub fn tid(&self) -> i32 {
        self.process.as_raw_nonzero().get()
    }

    /// Sets the phase, which takes effect at the next clock read.
    pub fn set_phase(&self, phase: LoopPhase) {
        self.shared.state().phase.store(phase as u32, Ordering::Release);
    }

    /// Its last clock read, in ticks; 0 before the first.
    #[must_use]
    pub fn last_tick(&self) -> u64 {
        self.shared.rings[1].last_tick().load(Ordering::Relaxed)
    }

    /// The file descriptor by which another process opens the gaps of the span.
    #[must_use]
    pub fn ring_number(&self) -> i32 {
        self.shared.rings[1].number()
    }

    /// Whether [`LoopPhase::Control`] or [`LoopPhase::Span`] has begun: from then on, every gap
    /// counts.
    #[must_use]
    pub fn has_begun(&self, phase: LoopPhase) -> bool {
        self.shared.state().begun.load(Ordering::Acquire) >= phase as u32
    }

    /// The result of [`LoopPhase::Control`] or [`LoopPhase::Span`] once that phase is over; for the
    /// control with its last gaps. `None` before that, or for another phase.
    #[must_use]
    pub fn sample(&self, phase: LoopPhase) -> Option<(LoopSample, Vec<Gap>)> {
        let at = sample_index(phase as u32)?;
        let state = self.shared.state();
        if state.done.load(Ordering::Acquire) < phase as u32 {
            return None;
        }
        // `done` says that the process has written this sample. It never writes it again, because
        // its parent enters each phase once.
        let sample = state.samples.get(at)?.load();
        let ring = self.shared.rings.get(at)?;
        Some((sample, if at == 0 { ring.newest() } else { Vec::new() }))
    }

    /// Whether it still runs; it ends at its deadline or when it is killed.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(process::waitid(WaitId::Pid(self.process), options), Ok(None))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.set_phase(LoopPhase::End);
        // A parked or starved spinner might not see the phase for a long time. It was not waited
        // for yet, so the process ID is still its own.
        let _ = process::kill_process(self.process, Signal::KILL);
        // The memory that it runs on is unmapped only afterwards (field `shared`).
        let _ = wait_for_child(self.process);
    }
}

fn sample_index(phase: u32) -> Option<usize> {
    match phase {
        2 => Some(0),
        3 => Some(1),
        _ => None,
    }
}

/// The main function of the spinner's process.
extern "C" fn run(shared: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the parent passes this type and wrote it completely before. It keeps the memory until
    // this process has ended, and changes only atomic numbers.
    let shared = unsafe { &*shared.cast::<SpinnerMemory>() };
    // This process dies with its parent.
    let _ = process::set_parent_process_death_signal(Some(Signal::KILL));
    let state = shared.state();
    let phase = &state.phase;
    let [control, span] = &shared.rings;
    let last_tick = span.last_tick();
    let deadline = state.deadline.load(Ordering::Relaxed);
    let end_threshold = state.end_threshold.load(Ordering::Relaxed);
    while phase.load(Ordering::Acquire) == LoopPhase::Parked as u32 {
        sched_yield();
        if ticks() >= deadline {
            return 1;
        }
    }
    loop {
        let now = phase.load(Ordering::Acquire);
        if now >= LoopPhase::End as u32 || ticks() >= deadline {
            return 0;
        }
        let Some(at) = sample_index(now) else {
            let never = u64::MAX;
            let (first, threshold, end_threshold) = (ticks(), never, never);
            let limits = LoopLimits { first, phase: now, deadline, threshold, end_threshold };
            spin(phase, last_tick, limits, control.gaps());
            continue;
        };
        let ring = if at == 0 { control } else { span };
        let threshold = state.thresholds[at].load(Ordering::Relaxed);
        let first = ticks();
        // After the first clock read, so that the parent waits for the beginning of the sample.
        state.begun.store(now, Ordering::Release);
        let limits = LoopLimits { first, phase: now, deadline, threshold, end_threshold };
        state.samples[at].store(spin(phase, last_tick, limits, ring.gaps()));
        state.done.store(now, Ordering::Release);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::processes::process::{ProcessEnd, fork_child};
    use crate::sys::membarrier::{barrier, register_barrier};
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    }

    static NO_GAPS: AtomicU64 = AtomicU64::new(0);

    /// Counts the calling thread's allocations.
    struct AllocationCounter;

    // SAFETY: every call is passed on to the system's allocator unchanged.
    unsafe impl GlobalAlloc for AllocationCounter {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            ALLOCATIONS.with(|n| n.set(n.get() + 1));
            // SAFETY: the caller promised it.
            unsafe { System.alloc(layout) }
        }
        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: the caller promised it.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: AllocationCounter = AllocationCounter;

    pub(crate) fn allocations() -> u64 {
        ALLOCATIONS.with(Cell::get)
    }

    #[test]
    fn the_hot_loop_allocates_nothing_and_ends_at_its_deadline() {
        let (phase, last_tick) = (AtomicU32::new(3), AtomicU64::new(0));
        let ring = GapRing::new(4).unwrap();
        let start = ticks();
        let deadline = start + 50_000_000;
        let limits =
            LoopLimits { first: start, phase: 3, deadline, threshold: 1, end_threshold: 1 };
        let before = allocations();
        let seen = spin(&phase, &last_tick, limits, ring.gaps());
        assert_eq!(allocations(), before);
        drop(vec![0_u8; 100]);
        assert!(allocations() > before, "the counter does not count");
        assert!(seen.last >= deadline && seen.first == start);
        // Every clock read, except those within one tick, is a gap; the ring holds the last ones.
        let gaps = ring.newest();
        assert!(seen.gaps > 4 && gaps.len() == 3, "{seen:?} {gaps:?}");
        assert_eq!(last_tick.load(Ordering::Relaxed), seen.last);
        assert!(gaps.iter().all(|gap| gap.end > gap.start && gap.end - gap.start <= seen.max));
        assert!(gaps.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }

    #[test]
    fn the_hot_loop_ends_when_the_phase_changes() {
        let (phase, last_tick) = (AtomicU32::new(1), AtomicU64::new(0));
        let limits = LoopLimits {
            first: ticks(),
            phase: 3,
            deadline: u64::MAX,
            threshold: u64::MAX,
            end_threshold: u64::MAX,
        };
        let seen = spin(&phase, &last_tick, limits, GapSink { written: &NO_GAPS, slots: &[] });
        assert_eq!((seen.loops, seen.gaps, seen.first), (1, 0, limits.first));
    }

    #[test]
    fn a_gap_under_way_when_the_phase_changes_counts() {
        let (phase, last_tick) = (AtomicU32::new(1), AtomicU64::new(0));
        let ring = GapRing::new(4).unwrap();
        // As if the loop had been off its CPU since then.
        let first = ticks() - 1_000_000;
        let limits = |threshold, end_threshold| LoopLimits {
            first,
            phase: 3,
            deadline: u64::MAX,
            threshold,
            end_threshold,
        };
        let seen = spin(&phase, &last_tick, limits(1_000, 2_000), ring.gaps());
        let gap = Gap { start: first, end: seen.last };
        assert_eq!((seen.gaps, seen.max, ring.newest()), (1, seen.last - first, vec![gap]));
        assert!(seen.max >= 1_000_000 && seen.longest == 0, "{seen:?}");
        assert_eq!(last_tick.load(Ordering::Relaxed), seen.last);
        // Too short for either threshold.
        for (threshold, end_threshold) in [(u64::MAX, 0), (1_000, u64::MAX)] {
            let seen = spin(&phase, &last_tick, limits(threshold, end_threshold), ring.gaps());
            assert_eq!((seen.gaps, seen.loops), (0, 1), "{threshold} {end_threshold}");
        }
    }

    /// Installs a filter of `seccomp(2)` that kills at every system call but these and those that
    /// end the process. (The strict mode of seccomp would also forbid the time stamp counter.)
    fn forbid_other_calls_than(allowed: &[libc::c_long]) -> libc::c_long {
        let mut program = vec![bpf_instruction(0x20, 0, 0, 0)];
        for call in allowed.iter().chain(&[libc::SYS_exit, libc::SYS_exit_group]) {
            program.push(bpf_instruction(0x15, 0, 1, u32::try_from(*call).unwrap()));
            program.push(bpf_instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW));
        }
        program.push(bpf_instruction(0x06, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
        let len = u16::try_from(program.len()).unwrap();
        let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
        rustix::thread::set_no_new_privs(true).unwrap();
        // SAFETY: the filter and its program live until the call returns.
        let answer = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter)
        };
        // Freeing the memory may take a system call.
        std::mem::forget(program);
        answer
    }

    fn bpf_instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code, jt, jf, k }
    }

    /// How a child ends that runs `body` and may make only these system calls.
    pub(crate) fn without_other_calls_than(
        allowed: &[libc::c_long],
        body: impl Fn() -> bool,
    ) -> ProcessEnd {
        let child = || match forbid_other_calls_than(allowed) {
            0 => u8::from(!body()),
            _ => 2,
        };
        // SAFETY: the child makes no call that needs a lock which another thread may have held at
        // the fork, except for memory, which both C libraries keep usable across a fork.
        let child = unsafe { fork_child(child) }.unwrap();
        wait_for_child(child).unwrap()
    }

    fn without_system_calls(body: fn() -> bool) -> ProcessEnd {
        without_other_calls_than(&[], body)
    }

    #[test]
    fn the_hot_loop_makes_no_system_call() {
        let spin_briefly = || {
            let (phase, last_tick) = (AtomicU32::new(3), AtomicU64::new(0));
            let first = ticks();
            let (deadline, threshold, end_threshold) = (first + 20_000_000, 1, 1);
            let limits = LoopLimits { first, phase: 3, deadline, threshold, end_threshold };
            spin(&phase, &last_tick, limits, GapSink { written: &NO_GAPS, slots: &[] }).loops > 0
        };
        assert_eq!(without_system_calls(spin_briefly), ProcessEnd::Exited(0));
        let call_kernel = || process::getppid().is_some();
        let killed = ProcessEnd::Killed(libc::SIGSYS);
        assert_eq!(without_system_calls(call_kernel), killed, "the filter did not kill");
    }

    #[test]
    fn a_spinner_runs_its_phases_and_sees_a_provoked_gap() {
        register_barrier().unwrap();
        let deadline = ticks().saturating_add(1 << 36);
        let settings = SpinnerSettings {
            deadline,
            control_threshold: 1,
            span_threshold: 1,
            end_threshold: 1,
            ring_capacity: 100,
        };
        let spinner = Spinner::start(settings).unwrap();
        assert_ne!(spinner.tid(), 0);
        assert!(spinner.is_running() && spinner.sample(LoopPhase::Span).is_none());
        assert!(!spinner.has_begun(LoopPhase::Control) && !spinner.has_begun(LoopPhase::Span));
        spinner.set_phase(LoopPhase::Idle);
        spinner.set_phase(LoopPhase::Span);
        let pause = || std::thread::sleep(std::time::Duration::from_millis(5));
        for _ in 0..1000 {
            pause();
            if spinner.has_begun(LoopPhase::Span) {
                break;
            }
        }
        let begun = ticks();
        barrier().unwrap();
        pause();
        let ended = ticks();
        spinner.set_phase(LoopPhase::Idle);
        let sample = (0..1000).find_map(|_| {
            pause();
            spinner.sample(LoopPhase::Span)
        });
        let (sample, _) = sample.unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut reader =
            GapRingReader::open(pid, spinner.ring_number(), settings.ring_capacity).unwrap();
        let mut gaps = Vec::new();
        let horizon = reader.drain(&mut gaps);
        assert_eq!(gaps.len() as u64 + reader.lost, sample.gaps, "{sample:?}");
        assert!(sample.loops > 0 && horizon >= sample.last);
        assert!(sample.first <= begun && sample.last >= ended, "{sample:?} {begun} {ended}");
        assert!(gaps.iter().all(|gap| gap.start >= sample.first && gap.end <= sample.last));
        drop(spinner);
    }
}
