//! A record of the kernel's log, as one read of `/dev/kmsg` returns it:
//! `6,339,5140900,-;NET: Registered…`, then lines ` KEY=value`
//! (Documentation/ABI/testing/dev-kmsg, 6.12).

/// The message of a record if the kernel itself wrote it; `None` for a record of user space, or if
/// the text is not a record.
///
/// The first number is facility times eight plus level, and facility 0 is the kernel's: a process
/// that writes to `/dev/kmsg` gets another one (`devkmsg_write()`, kernel/printk/printk.c, 6.12).
#[must_use]
pub fn kernel_message(record: &str) -> Option<&str> {
    let (head, body) = record.split_once(';')?;
    let priority: u64 = head.split(',').next()?.parse().ok()?;
    (priority < 8).then(|| body.lines().next().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::kernel_message;

    #[test]
    fn only_messages_of_the_kernel_count() {
        let record = "4,81,0,-;Housekeeping: nohz_full= must match isolcpus=\n SUBSYSTEM=cpu\n";
        assert_eq!(kernel_message(record), Some("Housekeeping: nohz_full= must match isolcpus="));
        assert_eq!(kernel_message("6,1,2,-,more=of=this;text;with;marks"), Some("text;with;marks"));
        assert_eq!(kernel_message("5,0,0,-;"), Some(""));
        for other in ["30,512,9,-;systemd[1]: nohz_full=", "", "no record", "x,1,2,-;text", ";t"] {
            assert_eq!(kernel_message(other), None, "{other:?}");
        }
    }
}
