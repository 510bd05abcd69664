//! Combines the undo of one version of a shield with that of another one.

use crate::documents::applied::{ChangeFate, DriftedValue, ShieldNote, UndoneShield};

impl UndoneShield {
    /// Adds the result of an undo that came before, of another version of the shield.
    pub(super) fn absorb(&mut self, earlier: UndoneShield) {
        let UndoneShield {
            shield,
            other_boot,
            steps,
            drifted_tasks,
            requested_tasks,
            left,
            restored_tasks,
            journal,
            notes,
        } = earlier;
        self.shield = self.shield.take().or(shield);
        self.other_boot |= other_boot;
        self.steps.splice(0..0, steps);
        for (own, tasks) in
            [(&mut self.drifted_tasks, drifted_tasks), (&mut self.requested_tasks, requested_tasks)]
        {
            own.extend(tasks);
            own.sort();
            own.dedup();
        }
        self.left.splice(0..0, left);
        self.restored_tasks += restored_tasks;
        self.journal = self.journal.take().or(journal);
        self.notes.splice(0..0, notes);
    }

    /// What the report of a change must show of the undo of the old version: the settings that
    /// other processes had changed, which stay, and the notes. Changed affinities are left out:
    /// they include those of the shield's own programs, which the change places on new CPUs.
    pub(super) fn notes_of_replaced(self) -> Vec<ShieldNote> {
        let mut notes = self.notes;
        notes.extend(self.steps.into_iter().filter_map(|step| match step.fate {
            ChangeFate::Drifted { now, ours: left, .. } => {
                let drift = DriftedValue { left, now: Some(now) };
                Some(ShieldNote::ForeignValueKept { subject: step.subject, drift })
            }
            _ => None,
        }));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::applied::UndoneStep;
    use cpushield_linux::TaskId;

    fn undone(tid: i32, subject: &str) -> UndoneShield {
        let fate = ChangeFate::Drifted {
            now: "1".to_owned(),
            ours: "2".to_owned(),
            original: "3".to_owned(),
        };
        let (tunable, subject) = ("test".to_owned(), subject.to_owned());
        UndoneShield {
            steps: vec![UndoneStep { step: 0, tunable, subject, fate, note: None }],
            drifted_tasks: vec![TaskId { tid, started: 1 }],
            requested_tasks: vec![TaskId { tid: 7, started: 1 }],
            restored_tasks: 2,
            notes: vec![ShieldNote::TracesRemoved { traces: 1 }],
            ..UndoneShield::nothing()
        }
    }

    #[test]
    fn nothing_of_an_earlier_undo_is_lost() {
        let mut both = undone(2, "b");
        both.absorb(UndoneShield { journal: Some("j".to_owned()), ..undone(1, "a") });
        let subjects: Vec<&str> = both.steps.iter().map(|step| step.subject.as_str()).collect();
        assert_eq!(subjects, ["a", "b"]);
        let tids = |tasks: &[TaskId]| tasks.iter().map(|task| task.tid).collect::<Vec<_>>();
        assert_eq!(tids(&both.drifted_tasks), [1, 2]);
        assert_eq!(tids(&both.requested_tasks), [7]);
        assert_eq!((both.restored_tasks, both.notes.len()), (4, 2));
        assert_eq!(both.journal.as_deref(), Some("j"));
    }

    #[test]
    fn the_report_of_a_change_names_what_other_processes_had_changed() {
        let notes = undone(1, "/proc/sys/a").notes_of_replaced();
        let notes: Vec<String> = notes.iter().skip(1).map(ToString::to_string).collect();
        assert_eq!(notes, ["another process changed /proc/sys/a from 2 to 1; that value stays"]);
    }
}
