//! Hints that name several ways to the same goal. Pure.

/// Puts "or" in front of every way but the first.
#[must_use]
pub fn alternatives(ways: impl IntoIterator<Item = String>) -> Vec<String> {
    let ways = ways.into_iter().enumerate();
    ways.map(|(i, way)| if i == 0 { way } else { format!("or {way}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_way_has_no_or() {
        let ways = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(alternatives(ways), ["a", "or b", "or c"]);
        assert!(alternatives([]).is_empty());
    }
}
