//! Wall-clock times as text, in UTC.

/// The date of a time in seconds since 1970: `2026-05-09`. It follows the Gregorian calendar and
/// counts from 1 March 0000, so that the leap day is the last day of a year.
#[must_use]
pub fn day(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{date:02}", era * 400 + year + next)
}

/// The date and time of a time in seconds since 1970: `2026-05-09 14:03:22 UTC`.
#[must_use]
pub fn moment(seconds: u64) -> String {
    let (day, of_day) = (day(seconds), seconds % 86_400);
    let (hours, minutes) = (of_day / 3600, of_day / 60 % 60);
    format!("{day} {hours:02}:{minutes:02}:{:02} UTC", of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_match_the_calendar() {
        // `date -u -d @N '+%F %T'`.
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_800_000_000, "2027-01-15 08:00:00 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(moment(seconds), expected);
            assert!(expected.starts_with(&day(seconds)));
        }
    }
}
