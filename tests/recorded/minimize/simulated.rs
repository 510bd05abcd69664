//! The simulated machine: what decides whether a measurement meets the goal, and what survives a
//! kill of the program.

use crate::simulated_experiment::Dead;
use cpushield::experiment::search::{
    GoalObservation, TrialDocument, TrialMachine, TrialMeasurement,
};
use cpushield::experiment::{
    BootMismatch, ExperimentMachine, ExperimentRow, MachineTrouble, MeasurementStep, RowBoot,
    Schedule,
};
use std::collections::BTreeSet;

/// A random number generator (Marsaglia, "Xorshift RNGs", 2003).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below this one.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    pub fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What decides whether a measurement meets the goal.
#[derive(Debug, Clone)]
pub struct Truth {
    /// The goal needs one option of each of these groups.
    pub needs: Vec<Vec<&'static str>>,
    /// The percentage of measurements that miss the goal although everything needed is there: an
    /// interrupt of the firmware, for example.
    pub misses_with: u64,
    /// The percentage that miss it when something needed is absent: a rare cause does not show in
    /// every measurement.
    pub misses_without: u64,
    /// The percentage of doubtful measurements.
    pub doubtful: u64,
}

impl Truth {
    pub fn needs(groups: &[&[&'static str]]) -> Truth {
        let needs = groups.iter().map(|group| group.to_vec()).collect();
        Truth { needs, misses_with: 4, misses_without: 80, doubtful: 5 }
    }

    fn holds(&self, has: &BTreeSet<String>) -> bool {
        self.needs.iter().all(|group| group.iter().any(|option| has.contains(*option)))
    }
}

/// The machine: what survives a kill of the program.
#[derive(Debug)]
pub struct World {
    pub truth: Truth,
    pub random: Random,
    pub boot: u32,
    pub running: RowBoot,
    pub files: Option<RowBoot>,
    pub once: bool,
    pub unit: bool,
    pub shield: bool,
    pub reboots: usize,
    pub measured: usize,
}

impl World {
    pub fn new(truth: Truth, seed: u64) -> World {
        World {
            truth,
            random: Random::new(seed),
            boot: 0,
            running: RowBoot::default(),
            files: None,
            once: false,
            unit: false,
            shield: false,
            reboots: 0,
            measured: 0,
        }
    }

    pub fn power_on(&mut self) {
        self.boot += 1;
        self.shield = false;
        self.running = self.files.clone().filter(|_| self.once).unwrap_or_default();
        self.once = false;
    }

    fn observe(&mut self, row: &ExperimentRow) -> GoalObservation {
        self.measured += 1;
        let on = row.tunables.iter().filter(|(_, on)| on.is_on()).map(|(name, _)| name.clone());
        let has: BTreeSet<String> = on
            .chain(self.running.parameters.iter().cloned())
            .chain(self.running.kernel.iter().cloned())
            .collect();
        if self.random.happens(self.truth.doubtful) {
            return GoalObservation::Doubtful { why: "the hypervisor took 3 ms".to_owned() };
        }
        let rate = match self.truth.holds(&has) {
            true => self.truth.misses_with,
            false => self.truth.misses_without,
        };
        match self.random.happens(rate) {
            true => GoalObservation::Missed { figure: 30_000 + self.random.below(90_000) },
            false => GoalObservation::Met { figure: 4_000 + self.random.below(9_000) },
        }
    }
}

/// The machine as the program sees it, until it is interrupted.
pub struct Sim<'a> {
    pub world: &'a mut World,
    pub rows: Vec<ExperimentRow>,
    pub boots: Vec<RowBoot>,
    /// The number of actions before the interruption.
    pub left: Option<u32>,
}

impl Sim<'_> {
    pub fn new(world: &mut World, left: Option<u32>) -> Sim<'_> {
        Sim { world, rows: Vec::new(), boots: Vec::new(), left }
    }

    pub fn act(&mut self, act: impl FnOnce(&mut World)) -> Result<(), Dead> {
        if self.left == Some(0) {
            return Err(Dead::Cut);
        }
        self.left = self.left.map(|left| left - 1);
        act(self.world);
        Ok(())
    }
}

impl ExperimentMachine for Sim<'_> {
    type Error = Dead;
    type Measured = TrialMeasurement;

    fn read_boot_id(&self) -> Result<String, Dead> {
        Ok(self.world.boot.to_string())
    }

    fn undo_shield(&mut self) -> Result<(), Dead> {
        self.act(|world| world.shield = false)
    }

    fn find_boot_mismatch(&mut self, boot: &RowBoot) -> Result<Option<BootMismatch>, Dead> {
        let running = self.world.running.clone();
        Ok((running != *boot).then_some(BootMismatch::Added { parameters: running.parameters }))
    }

    fn enable_resume_at_boot(&mut self) -> Result<(), Dead> {
        self.act(|world| world.unit = true)
    }

    fn disable_resume_at_boot(&mut self) -> Result<(), Dead> {
        self.act(|world| world.unit = false)
    }

    fn prepare_boot(&mut self, boot: &RowBoot) -> Result<(), MachineTrouble<Dead>> {
        assert_eq!(self.world.files, None, "the files of another boot would be overwritten");
        self.act(|world| world.files = Some(boot.clone()))?;
        Ok(self.act(|world| world.once = true)?)
    }

    fn restore_boot_files(&mut self) -> Result<(), Dead> {
        self.act(|world| world.once = false)?;
        self.act(|world| world.files = None)
    }

    fn reboot(&mut self) -> Result<(), Dead> {
        self.act(|world| {
            world.reboots += 1;
            world.power_on();
        })
    }

    fn measure(
        &mut self,
        step: &MeasurementStep,
    ) -> Result<TrialMeasurement, MachineTrouble<Dead>> {
        let row = self.rows[step.row].clone();
        assert_eq!(self.boots[step.boot], self.world.running, "measured in the wrong boot");
        assert_eq!(row.needed_boot(), self.world.running);
        self.act(|world| world.shield = row.shield)?;
        let observation = self.world.observe(&row);
        self.act(|world| world.shield = false)?;
        Ok(TrialMeasurement { observation, document: TrialDocument::Simulated })
    }
}

impl TrialMachine for Sim<'_> {
    fn set_trials(&mut self, rows: Vec<ExperimentRow>, schedule: &Schedule) {
        self.rows = rows;
        self.boots.clone_from(&schedule.boots);
    }
}
