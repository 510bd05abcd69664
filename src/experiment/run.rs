//! Runs an experiment from where its journal says that it is: measures, goes from boot to boot, and
//! ends where it began. The machine is a [`ExperimentMachine`], so that every crash can be tested
//! without one.
//!
//! Whatever is done is in the journal before. A boot counts before it is made and a measurement
//! before it begins, so that nothing is tried for ever.

use super::journal::{BootState, ExperimentJournal, ExperimentPhase, ExperimentStore, StepEnd};
use super::{MeasurementStep, Schedule};
use crate::latency::LatencyMeasurement;

/// How often a step may be booted for, and how often it may be begun.
const TRIES: u32 = 2;

/// What goes wrong in a [`ExperimentMachine`].
#[derive(Debug)]
pub enum MachineTrouble<E> {
    /// Somebody asked to stop; everything was put back.
    Stopped,
    /// This cell cannot be had, and why; others may.
    Cell(String),
    /// Nothing can be done any more.
    Machine(E),
}

impl<E> From<E> for MachineTrouble<E> {
    fn from(error: E) -> MachineTrouble<E> {
        MachineTrouble::Machine(error)
    }
}

/// Whether the running kernel was booted with the wanted parameters and no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootMatch {
    /// It was, and they are in force.
    Same,
    /// It was not, or they are not in force, for this reason.
    Different(String),
}

/// The machine of an experiment. What it does to the machine can be asked for twice.
pub trait ExperimentMachine {
    /// What it cannot go on after.
    type Error: From<cpushield_linux::Error>;

    /// Which boot this is.
    ///
    /// # Errors
    /// The machine does not say.
    fn boot_id(&self) -> Result<String, Self::Error>;

    /// Takes down a shield that a killed experiment has left.
    ///
    /// # Errors
    /// It cannot be undone.
    fn clean(&mut self) -> Result<(), Self::Error>;

    /// Whether the running kernel was booted with these parameters beside those of the beginning,
    /// with no others, and shows them in force; else why not.
    ///
    /// # Errors
    /// The machine does not say.
    fn arrived(&mut self, words: &[String]) -> Result<BootMatch, Self::Error>;

    /// Lets whoever boots call the experiment again, or not any more.
    ///
    /// # Errors
    /// A file cannot be written.
    fn carry_on(&mut self, on: bool) -> Result<(), Self::Error>;

    /// Lets the machine boot with these parameters once.
    ///
    /// # Errors
    /// The boot loader's files cannot be written, or the parameters cannot be given.
    fn arm(&mut self, words: &[String]) -> Result<(), MachineTrouble<Self::Error>>;

    /// Puts every boot file back.
    ///
    /// # Errors
    /// A file cannot be put back.
    fn disarm(&mut self) -> Result<(), Self::Error>;

    /// Reboots the machine; this process ends soon after.
    ///
    /// # Errors
    /// The machine does not.
    fn reboot(&mut self) -> Result<(), Self::Error>;

    /// Makes the configuration of a row, measures, and puts everything back.
    ///
    /// # Errors
    /// It cannot be measured.
    fn measure(
        &mut self,
        step: &MeasurementStep,
    ) -> Result<LatencyMeasurement, MachineTrouble<Self::Error>>;
}

/// How far it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExperimentEnd {
    /// Every step has an end, and the machine is as it was.
    Finished,
    /// The machine reboots; it goes on then.
    Rebooting,
    /// Somebody stopped it; it can go on later.
    Interrupted,
    /// The machine is not booted as at the beginning, and why that is known.
    Elsewhere(String),
}

/// Runs it from where it is.
///
/// # Errors
/// Nothing can be done any more; what was measured is kept, and it can go on later.
pub fn go<L: ExperimentMachine>(
    lab: &mut L,
    notebook: &ExperimentStore,
    journal: &mut ExperimentJournal,
    schedule: &Schedule,
) -> Result<ExperimentEnd, L::Error> {
    lab.clean()?;
    let mut walk = ScheduleWalk { lab, notebook, journal, schedule };
    if walk.journal.phase != ExperimentPhase::Running {
        walk.lab.carry_on(false)?;
        return Ok(ExperimentEnd::Finished);
    }
    if let Some(why) = walk.arrive()? {
        return Ok(ExperimentEnd::Elsewhere(why));
    }
    loop {
        let open = |(n, _): &(usize, &MeasurementStep)| !walk.journal.ends.contains_key(n);
        let Some((n, step)) = schedule.steps.iter().enumerate().find(open) else {
            return walk.end();
        };
        let ended =
            if step.boot == walk.here() { walk.measure(n, step)? } else { walk.boot(n, step)? };
        if let Some(ended) = ended {
            return Ok(ended);
        }
    }
}

/// Ends an experiment before its time: puts everything back. True when the machine still runs with
/// parameters of ours, until it is booted.
///
/// # Errors
/// Something cannot be put back.
pub fn stop<L: ExperimentMachine>(
    lab: &mut L,
    notebook: &ExperimentStore,
    journal: &mut ExperimentJournal,
    now_s: u64,
) -> Result<bool, L::Error> {
    lab.clean()?;
    lab.disarm()?;
    let away = !matches!(journal.at, BootState::Home) && lab.arrived(&[])? != BootMatch::Same;
    journal.phase = ExperimentPhase::Stopped;
    journal.ended_s = Some(now_s);
    notebook.save(journal)?;
    // Last: until then the next boot goes on with what a kill has left.
    lab.carry_on(false)?;
    Ok(away)
}

struct ScheduleWalk<'a, L> {
    lab: &'a mut L,
    notebook: &'a ExperimentStore,
    journal: &'a mut ExperimentJournal,
    schedule: &'a Schedule,
}

impl<L: ExperimentMachine> ScheduleWalk<'_, L> {
    fn save(&self) -> Result<(), L::Error> {
        Ok(self.notebook.save(self.journal)?)
    }

    /// Which kind of boot the machine is in.
    fn here(&self) -> usize {
        match self.journal.at {
            BootState::Home => 0,
            BootState::In { boot, .. } => boot,
            BootState::Going { from, .. } => from,
        }
    }

    fn words(&self, boot: usize) -> &[String] {
        self.schedule.boots.get(boot).map(Vec::as_slice).unwrap_or_default()
    }

    /// Finds out where the machine is. Why it is not where an experiment can go on, if it is not.
    fn arrive(&mut self) -> Result<Option<String>, L::Error> {
        let now = self.lab.boot_id()?;
        match self.journal.at.clone() {
            BootState::In { boot_id, .. } if boot_id == now => return Ok(None),
            // The reboot was not made.
            BootState::Going { from, boot_id, .. } if boot_id == now => {
                self.lab.disarm()?;
                self.journal.at = at(from, now);
                self.save()?;
                return Ok(None);
            }
            BootState::Going { to, armed, .. } if to != 0 => {
                let words = self.words(to).to_vec();
                let at = match self.lab.arrived(&words)? {
                    BootMatch::Same => at(to, now),
                    BootMatch::Different(why) => {
                        let home = self.lab.arrived(&[])? == BootMatch::Same;
                        if !armed && !home {
                            return Ok(Some(why));
                        }
                        self.lab.disarm()?;
                        // Back on the old entry it hung, or had no power: it gets one more chance.
                        if armed && !(home && self.may_boot(to)) {
                            let why = format!("it did not come up: {why}");
                            self.lose(&why, |step| step.boot == to);
                        }
                        at(if home { 0 } else { to }, now)
                    }
                };
                self.journal.at = at;
                self.save()?;
                return Ok(None);
            }
            BootState::Home => {}
            // Reset in the middle: what boots by default is what it was. Or it is back.
            BootState::In { .. } | BootState::Going { .. } => {
                self.lab.disarm()?;
                self.journal.at = BootState::Home;
                self.save()?;
            }
        }
        Ok(match self.lab.arrived(&[])? {
            BootMatch::Same => None,
            BootMatch::Different(why) => Some(why),
        })
    }

    /// Whether the step that comes next in a kind of boot may be booted for once more.
    fn may_boot(&self, boot: usize) -> bool {
        let steps = self.schedule.steps.iter().enumerate();
        let mut open = steps.filter(|(n, _)| !self.journal.ends.contains_key(n));
        let next = open.find(|(_, step)| step.boot == boot);
        let tries = next.and_then(|(n, _)| self.journal.tries.get(&n));
        tries.is_none_or(|tries| tries.boots < TRIES)
    }

    /// Steps that are still open come to nothing.
    fn lose(&mut self, why: &str, which: impl Fn(&MeasurementStep) -> bool) {
        for (n, _) in self.schedule.steps.iter().enumerate().filter(|(_, step)| which(step)) {
            let end = StepEnd::Missing { why: why.to_owned() };
            self.journal.ends.entry(n).or_insert(end);
        }
    }

    fn measure(
        &mut self,
        n: usize,
        step: &MeasurementStep,
    ) -> Result<Option<ExperimentEnd>, L::Error> {
        let now = self.lab.boot_id()?;
        let tries = self.journal.tries.entry(n).or_default();
        if tries.measures >= TRIES {
            // A row that brings the machine down does so each time.
            let down = tries.boot_id.as_ref() != Some(&now);
            let why = match down {
                true => format!("the machine went down while it was measured, {TRIES} times"),
                false => format!("the measurement was killed {TRIES} times"),
            };
            self.lose(&why, |it| it == step || down && it.row == step.row);
            self.save()?;
            return Ok(None);
        }
        tries.measures += 1;
        tries.boot_id = Some(now);
        self.save()?;
        match self.lab.measure(step) {
            Ok(latency) => {
                let file = self.notebook.keep(n, &latency)?;
                self.journal.ends.insert(n, StepEnd::Measured { file });
            }
            Err(MachineTrouble::Cell(why)) => {
                self.journal.ends.insert(n, StepEnd::Missing { why });
            }
            Err(trouble) => {
                // It ended in order, so it may be tried as often as before.
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

    /// Goes to the boot of a step.
    fn boot(
        &mut self,
        n: usize,
        step: &MeasurementStep,
    ) -> Result<Option<ExperimentEnd>, L::Error> {
        let tries = self.journal.tries.entry(n).or_default();
        if tries.boots >= TRIES {
            let why = format!("the machine was booted for it {TRIES} times, and went down again");
            self.lose(&why, |it| it.row == step.row);
            self.save()?;
            return Ok(None);
        }
        tries.boots += 1;
        self.travel(step.boot)
    }

    /// Reboots into another kind of boot; `None` when it cannot be prepared.
    fn travel(&mut self, to: usize) -> Result<Option<ExperimentEnd>, L::Error> {
        let from = self.here();
        let boot_id = self.lab.boot_id()?;
        self.journal.at = BootState::Going { from, to, boot_id: boot_id.clone(), armed: false };
        self.save()?;
        self.lab.carry_on(true)?;
        self.lab.disarm()?;
        if to != 0 {
            let words = self.words(to).to_vec();
            match self.lab.arm(&words) {
                Ok(()) => {}
                Err(MachineTrouble::Machine(error)) => return Err(error),
                Err(MachineTrouble::Stopped) => return Ok(Some(ExperimentEnd::Interrupted)),
                Err(MachineTrouble::Cell(why)) => {
                    self.journal.at = at(from, boot_id);
                    self.lose(&why, |step| step.boot == to);
                    self.save()?;
                    return Ok(None);
                }
            }
        }
        self.journal.at = BootState::Going { from, to, boot_id, armed: true };
        self.save()?;
        self.lab.reboot()?;
        Ok(Some(ExperimentEnd::Rebooting))
    }

    /// Every step has an end: back to where it began.
    fn end(mut self) -> Result<ExperimentEnd, L::Error> {
        if self.here() != 0 {
            if self.journal.returns >= TRIES {
                let why = format!("it was rebooted {TRIES} times to get back");
                return Ok(ExperimentEnd::Elsewhere(why));
            }
            self.journal.returns += 1;
            return Ok(self.travel(0)?.unwrap_or(ExperimentEnd::Finished));
        }
        self.lab.disarm()?;
        self.journal.phase = ExperimentPhase::Finished;
        self.save()?;
        // Last: until then the next boot ends what a kill has left.
        self.lab.carry_on(false)?;
        Ok(ExperimentEnd::Finished)
    }
}

/// In this kind of boot.
fn at(boot: usize, boot_id: String) -> BootState {
    if boot == 0 { BootState::Home } else { BootState::In { boot, boot_id } }
}
