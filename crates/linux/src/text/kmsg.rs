//! A record of the kernel's log, as `/dev/kmsg` gives it at one read:
//! `6,339,5140900,-;NET: Registered…`, then lines ` KEY=value`
//! (Documentation/ABI/testing/dev-kmsg, 6.12).

/// What the kernel itself says in a record; `None` for one of user space, or no record.
///
/// The first number is facility times eight plus level, and facility 0 is the kernel's: whoever
/// writes into `/dev/kmsg` gets another one (`devkmsg_write()`, kernel/printk/printk.c, 6.12).
#[must_use]
pub fn said(record: &str) -> Option<&str> {
    let (head, body) = record.split_once(';')?;
    let priority: u64 = head.split(',').next()?.parse().ok()?;
    (priority < 8).then(|| body.lines().next().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn only_what_the_kernel_says_counts() {
        let record = "4,81,0,-;Housekeeping: nohz_full= must match isolcpus=\n SUBSYSTEM=cpu\n";
        assert_eq!(said(record), Some("Housekeeping: nohz_full= must match isolcpus="));
        assert_eq!(said("6,1,2,-,more=of=this;text;with;marks"), Some("text;with;marks"));
        assert_eq!(said("5,0,0,-;"), Some(""));
        for other in ["30,512,9,-;systemd[1]: nohz_full=", "", "no record", "x,1,2,-;text", ";t"] {
            assert_eq!(said(other), None, "{other:?}");
        }
    }
}
