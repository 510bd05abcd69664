//! Runs an experiment from the step that its journal has reached: measures, reboots into other
//! kernel parameters, and returns to the original boot. The machine is an [`ExperimentMachine`], so
//! that every crash can be tested without a real one.
//!
//! The journal records each action before it happens. A reboot counts before it is made and a
//! measurement before it starts, so nothing is tried forever. A reboot that did not happen does not
//! count.

use super::journal::{BootState, ExperimentJournal, ExperimentPhase, ExperimentStore, StepEnd};
use super::{BootMismatch, MeasurementStep, RowBoot, Schedule, UnmeasuredReason};
use serde::Serialize;

/// How often the machine reboots for a step, and how often a step is measured.
const TRIES: u32 = 2;

/// What goes wrong in an [`ExperimentMachine`].
#[derive(Debug)]
pub enum MachineTrouble<E> {
    /// A signal stopped it; everything is restored.
    Stopped,
    /// This cell cannot be measured, with the reason; others may be possible.
    Cell(String),
    /// The experiment cannot continue.
    Machine(E),
}

impl<E> From<E> for MachineTrouble<E> {
    fn from(error: E) -> MachineTrouble<E> {
        MachineTrouble::Machine(error)
    }
}

/// The machine of an experiment. Every change can be requested twice.
pub trait ExperimentMachine {
    /// An error after which the experiment cannot continue.
    type Error: From<cpushield_linux::Error>;
    /// The document of a measurement.
    type Measured: Serialize;

    /// Reads the kernel's identifier of the current boot.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_boot_id(&self) -> Result<String, Self::Error>;

    /// Undoes a shield that a killed experiment has left.
    ///
    /// # Errors
    /// It cannot be undone.
    fn undo_shield(&mut self) -> Result<(), Self::Error>;

    /// Compares the current boot with the original one as changed by `boot`. Returns how they
    /// differ; `None` when it is that kernel, its parameters are in force, and there are no others.
    ///
    /// # Errors
    /// The kernel's parameters cannot be read.
    fn find_boot_mismatch(&mut self, boot: &RowBoot) -> Result<Option<BootMismatch>, Self::Error>;

    /// Makes each boot resume the experiment.
    ///
    /// # Errors
    /// A file cannot be written.
    fn enable_resume_at_boot(&mut self) -> Result<(), Self::Error>;

    /// Makes boots no longer resume the experiment.
    ///
    /// # Errors
    /// A file cannot be removed.
    fn disable_resume_at_boot(&mut self) -> Result<(), Self::Error>;

    /// Makes the next boot, and only that one, be of this kind.
    ///
    /// # Errors
    /// The boot loader's files cannot be written, or it cannot boot this.
    fn prepare_boot(&mut self, boot: &RowBoot) -> Result<(), MachineTrouble<Self::Error>>;

    /// Restores every boot file.
    ///
    /// # Errors
    /// A file cannot be restored.
    fn restore_boot_files(&mut self) -> Result<(), Self::Error>;

    /// Reboots the machine; this process ends soon after.
    ///
    /// # Errors
    /// The machine does not reboot.
    fn reboot(&mut self) -> Result<(), Self::Error>;

    /// Applies the configuration of a row, measures, and restores everything.
    ///
    /// # Errors
    /// It cannot be measured.
    fn measure(
        &mut self,
        step: &MeasurementStep,
    ) -> Result<Self::Measured, MachineTrouble<Self::Error>>;
}

/// How a run of the experiment ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExperimentEnd {
    /// Every step has an end, and the machine is in its original state.
    Finished,
    /// The machine reboots; the experiment resumes then.
    Rebooting,
    /// A signal stopped it; it can be resumed.
    Interrupted,
    /// The machine is neither in its original boot nor in one of the experiment.
    Elsewhere(BootMismatch),
    /// The machine does not return to its original boot.
    NotReturned {
        /// How often it was rebooted for that.
        reboots: u32,
    },
}

/// Runs the steps that have no end yet.
///
/// # Errors
/// The experiment cannot continue now. Its measurements are saved, and it can be resumed.
pub fn run_remaining<M: ExperimentMachine>(
    machine: &mut M,
    store: &ExperimentStore,
    journal: &mut ExperimentJournal,
    schedule: &Schedule,
) -> Result<ExperimentEnd, M::Error> {
    if let Some(end) = run_open_steps(machine, store, journal, schedule)? {
        return Ok(end);
    }
    ScheduleWalk { machine, store, journal, schedule }.finish()
}

/// Runs the steps that have no end yet, and stays in the last boot. Returns how the run ends;
/// `None` when every step has an end.
///
/// # Errors
/// As [`run_remaining`].
pub fn run_open_steps<M: ExperimentMachine>(
    machine: &mut M,
    store: &ExperimentStore,
    journal: &mut ExperimentJournal,
    schedule: &Schedule,
) -> Result<Option<ExperimentEnd>, M::Error> {
    machine.undo_shield()?;
    let mut walk = ScheduleWalk { machine, store, journal, schedule };
    if walk.journal.phase != ExperimentPhase::Running {
        walk.machine.disable_resume_at_boot()?;
        return Ok(Some(ExperimentEnd::Finished));
    }
    if let Some(mismatch) = walk.locate_boot()? {
        return Ok(Some(ExperimentEnd::Elsewhere(mismatch)));
    }
    while let Some((n, step)) = walk.next_step(|_| true) {
        let ended = match walk.needs_reboot(&step)? {
            true => walk.boot_for_step(n, &step)?,
            false => walk.measure_step(n, &step)?,
        };
        if ended.is_some() {
            return Ok(ended);
        }
    }
    Ok(None)
}

/// Ends an experiment early and restores everything. Returns whether the kernel still runs with
/// parameters of the experiment, so that only a reboot removes them.
///
/// # Errors
/// Something cannot be restored.
pub fn stop<M: ExperimentMachine>(
    machine: &mut M,
    store: &ExperimentStore,
    journal: &mut ExperimentJournal,
    now_s: u64,
) -> Result<bool, M::Error> {
    machine.undo_shield()?;
    machine.restore_boot_files()?;
    let needs_reboot = journal.boot_state != BootState::Original
        && machine.find_boot_mismatch(&RowBoot::default())?.is_some();
    journal.phase = ExperimentPhase::Stopped;
    journal.ended_s = Some(now_s);
    store.save(journal)?;
    // Last: until then, the next boot completes this after a kill.
    machine.disable_resume_at_boot()?;
    Ok(needs_reboot)
}

/// The way through the schedule.
struct ScheduleWalk<'a, M> {
    machine: &'a mut M,
    store: &'a ExperimentStore,
    journal: &'a mut ExperimentJournal,
    schedule: &'a Schedule,
}

impl<M: ExperimentMachine> ScheduleWalk<'_, M> {
    /// Writes the journal.
    fn save(&self) -> Result<(), M::Error> {
        Ok(self.store.save(self.journal)?)
    }

    /// The kind of boot that the machine is in.
    fn current_boot(&self) -> usize {
        match self.journal.boot_state {
            BootState::Original => 0,
            BootState::Booted { boot, .. } => boot,
            BootState::Rebooting { from, .. } => from,
        }
    }

    /// Whether a step needs another boot than the current one: another kind of boot, or a new one
    /// of this kind, because another visit was measured in the current one.
    fn needs_reboot(&self, step: &MeasurementStep) -> Result<bool, M::Error> {
        if step.boot != self.current_boot() {
            return Ok(true);
        }
        let now = self.machine.read_boot_id()?;
        let mut steps = self.schedule.steps.iter().enumerate();
        Ok(steps.any(|(n, other)| {
            let tries = self.journal.tries.get(&n);
            other.visit != step.visit
                && tries.is_some_and(|tries| tries.boot_id.as_ref() == Some(&now))
        }))
    }

    /// What a kind of boot changes.
    fn row_boot(&self, boot: usize) -> RowBoot {
        self.schedule.boots.get(boot).cloned().unwrap_or_default()
    }

    /// The first step without an end among these, with its number.
    fn next_step(
        &self,
        is_wanted: impl Fn(&MeasurementStep) -> bool,
    ) -> Option<(usize, MeasurementStep)> {
        let mut steps = self.schedule.steps.iter().copied().enumerate();
        steps.find(|(n, step)| is_wanted(step) && !self.journal.ends.contains_key(n))
    }

    /// Finds out which kind of boot the machine is in. Returns why the experiment cannot continue
    /// in it; `None` when it can.
    fn locate_boot(&mut self) -> Result<Option<BootMismatch>, M::Error> {
        let now = self.machine.read_boot_id()?;
        match self.journal.boot_state.clone() {
            BootState::Booted { boot_id, .. } if boot_id == now => return Ok(None),
            // The machine did not reboot.
            BootState::Rebooting { from, boot_id, .. } if boot_id == now => {
                self.machine.restore_boot_files()?;
                self.uncount_reboot();
                self.journal.boot_state = make_boot_state(from, now);
                self.save()?;
                return Ok(None);
            }
            BootState::Rebooting { to, prepared, .. } if to != 0 => {
                return self.arrive(to, prepared, now);
            }
            BootState::Original => {}
            // A reset in between boots the default, which is the original entry. Or it returned.
            BootState::Booted { .. } | BootState::Rebooting { .. } => {
                self.machine.restore_boot_files()?;
                self.journal.boot_state = BootState::Original;
                self.save()?;
            }
        }
        self.machine.find_boot_mismatch(&RowBoot::default())
    }

    /// Checks the boot after a reboot into the boot `to`. `prepared` is that of
    /// [`BootState::Rebooting`]. Returns why the experiment cannot continue; `None` when it can.
    fn arrive(
        &mut self,
        to: usize,
        prepared: bool,
        now: String,
    ) -> Result<Option<BootMismatch>, M::Error> {
        let mut boot = to;
        if let Some(mismatch) = self.machine.find_boot_mismatch(&self.row_boot(to))? {
            let is_original = self.machine.find_boot_mismatch(&RowBoot::default())?.is_none();
            if !prepared && !is_original {
                return Ok(Some(mismatch));
            }
            self.machine.restore_boot_files()?;
            // In the original boot, the new one hung or the power failed: it gets another try.
            if prepared && !(is_original && self.may_boot_again(to)) {
                let why = UnmeasuredReason::DidNotComeUp { mismatch };
                self.mark_missing(&why, |step| step.boot == to);
            }
            if is_original {
                boot = 0;
            }
        }
        self.journal.boot_state = make_boot_state(boot, now);
        self.save()?;
        Ok(None)
    }

    /// A reboot that did not happen is no try: nothing went down.
    fn uncount_reboot(&mut self) {
        let next = self.next_step(|_| true).map(|(n, _)| n);
        let count = match next {
            Some(n) => self.journal.tries.get_mut(&n).map(|tries| &mut tries.boots),
            // Every step has an end: it was the way back to the original boot.
            None => Some(&mut self.journal.return_reboots),
        };
        if let Some(count) = count {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether the machine may reboot once more for the next step in a kind of boot.
    fn may_boot_again(&self, boot: usize) -> bool {
        let next = self.next_step(|step| step.boot == boot);
        let tries = next.and_then(|(n, _)| self.journal.tries.get(&n));
        tries.is_none_or(|tries| tries.boots < TRIES)
    }

    /// Ends these steps without a measurement, unless they have an end.
    fn mark_missing(&mut self, why: &UnmeasuredReason, is_lost: impl Fn(&MeasurementStep) -> bool) {
        for (n, _) in self.schedule.steps.iter().enumerate().filter(|(_, step)| is_lost(step)) {
            let end = StepEnd::Missing { why: why.clone() };
            self.journal.ends.entry(n).or_insert(end);
        }
    }

    /// Measures a step; returns how the run ends, if it does.
    fn measure_step(
        &mut self,
        n: usize,
        step: &MeasurementStep,
    ) -> Result<Option<ExperimentEnd>, M::Error> {
        let now = self.machine.read_boot_id()?;
        let tries = self.journal.tries.entry(n).or_default();
        if tries.measures >= TRIES {
            // A row that crashes the machine does so each time.
            let crashed = tries.boot_id.as_ref() != Some(&now);
            let why = match crashed {
                true => UnmeasuredReason::WentDownWhileMeasuring { times: TRIES },
                false => UnmeasuredReason::MeasurementKilled { times: TRIES },
            };
            self.mark_missing(&why, |it| it == step || crashed && it.row == step.row);
            self.save()?;
            return Ok(None);
        }
        tries.measures += 1;
        tries.boot_id = Some(now);
        self.save()?;
        match self.machine.measure(step) {
            Ok(measured) => {
                let file = self.store.save_measurement(n, &measured)?;
                self.journal.ends.insert(n, StepEnd::Measured { file });
            }
            Err(MachineTrouble::Cell(why)) => {
                let why = UnmeasuredReason::NotPossible { why };
                self.journal.ends.insert(n, StepEnd::Missing { why });
            }
            Err(trouble) => {
                // It did not crash, so this try does not count.
                if let Some(tries) = self.journal.tries.get_mut(&n) {
                    tries.measures -= 1;
                }
                self.save()?;
                return match trouble {
                    MachineTrouble::Machine(error) => Err(error),
                    _ => Ok(Some(ExperimentEnd::Interrupted)),
                };
            }
        }
        self.save()?;
        Ok(None)
    }

    /// Reboots into the boot that a step needs.
    fn boot_for_step(
        &mut self,
        n: usize,
        step: &MeasurementStep,
    ) -> Result<Option<ExperimentEnd>, M::Error> {
        let tries = self.journal.tries.entry(n).or_default();
        if tries.boots >= TRIES {
            let why = UnmeasuredReason::WentDownAfterBoot { times: TRIES };
            self.mark_missing(&why, |it| it.row == step.row);
            self.save()?;
            return Ok(None);
        }
        tries.boots += 1;
        self.reboot_into(step.boot)
    }

    /// Reboots into a kind of boot. Returns `None` when that boot cannot be prepared.
    fn reboot_into(&mut self, to: usize) -> Result<Option<ExperimentEnd>, M::Error> {
        let from = self.current_boot();
        let boot_id = self.machine.read_boot_id()?;
        self.journal.boot_state =
            BootState::Rebooting { from, to, boot_id: boot_id.clone(), prepared: false };
        self.save()?;
        self.machine.enable_resume_at_boot()?;
        self.machine.restore_boot_files()?;
        if to != 0 {
            match self.machine.prepare_boot(&self.row_boot(to)) {
                Ok(()) => {}
                Err(MachineTrouble::Machine(error)) => return Err(error),
                Err(MachineTrouble::Stopped) => return Ok(Some(ExperimentEnd::Interrupted)),
                Err(MachineTrouble::Cell(why)) => {
                    let why = UnmeasuredReason::NotPossible { why };
                    self.journal.boot_state = make_boot_state(from, boot_id);
                    self.mark_missing(&why, |step| step.boot == to);
                    self.save()?;
                    return Ok(None);
                }
            }
        }
        self.journal.boot_state = BootState::Rebooting { from, to, boot_id, prepared: true };
        self.save()?;
        self.machine.reboot()?;
        Ok(Some(ExperimentEnd::Rebooting))
    }

    /// Returns to the original boot after the last step.
    fn finish(mut self) -> Result<ExperimentEnd, M::Error> {
        if self.current_boot() != 0 {
            if self.journal.return_reboots >= TRIES {
                return Ok(ExperimentEnd::NotReturned { reboots: TRIES });
            }
            self.journal.return_reboots += 1;
            return Ok(self.reboot_into(0)?.unwrap_or(ExperimentEnd::Finished));
        }
        self.machine.restore_boot_files()?;
        self.journal.phase = ExperimentPhase::Finished;
        self.save()?;
        // Last: until then, the next boot completes this after a kill.
        self.machine.disable_resume_at_boot()?;
        Ok(ExperimentEnd::Finished)
    }
}

/// The state of a machine in this kind of boot.
fn make_boot_state(boot: usize, boot_id: String) -> BootState {
    if boot == 0 { BootState::Original } else { BootState::Booted { boot, boot_id } }
}
