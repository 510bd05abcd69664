//! The kernel's configuration: `/proc/config.gz` or `/boot/config-<release>`.

use super::TextError;
use std::collections::BTreeMap;

/// The options that matter for isolation, one a line; all others are dropped.
pub const RELEVANT: &str = include_str!("kconfig_options.txt");

/// Parses the options of [`RELEVANT`] with their values; one that the file does not set is `n`.
///
/// # Errors
/// A line is neither an option nor a comment, or there are no options.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, TextError> {
    let mut options: BTreeMap<String, String> =
        RELEVANT.lines().map(|name| (name.to_owned(), "n".to_owned())).collect();
    let mut seen = false;
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line
            .split_once('=')
            .filter(|(name, value)| name.starts_with("CONFIG_") && !value.is_empty())
            .ok_or_else(|| TextError::new(i + 1, "CONFIG_NAME=value", line))?;
        seen = true;
        if let Some(known) = options.get_mut(name) {
            value.trim_end().clone_into(known);
        }
    }
    if seen { Ok(options) } else { Err(TextError::new(0, "kernel options (CONFIG_…)", text)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn relevant_options_are_kept_and_missing_ones_are_n() {
        // Debian 6.12.
        let text = "#\n# Timers subsystem\n#\nCONFIG_NO_HZ_FULL=y\nCONFIG_HZ=250\n\
                    # CONFIG_CPUSETS_V1 is not set\nCONFIG_BUILD_SALT=\"6.12.48+deb13-amd64\"\n";
        let options = parse(text).unwrap();
        assert_eq!(options["CONFIG_NO_HZ_FULL"], "y");
        assert_eq!(options["CONFIG_HZ"], "250");
        assert_eq!(options["CONFIG_CPUSETS_V1"], "n");
        assert!(!options.contains_key("CONFIG_BUILD_SALT"));
        assert_eq!(options.len(), RELEVANT.lines().count());
    }

    #[test]
    fn a_text_that_is_not_a_configuration_is_refused() {
        assert_eq!(parse("CONFIG_HZ=250\n<html>\n").unwrap_err().line, 2);
        assert!(parse("").is_err());
        assert!(parse("CONFIG_HZ\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[CONFIG_=#yn\n ]{0,80}") {
            let _ = parse(&text);
        }
    }
}
