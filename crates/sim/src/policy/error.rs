//! Why there is no such buffer.

/// A policy that there is not, or that cannot be as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No policy has that name.
    #[error("no policy is called `{name}`; {near}")]
    Unknown {
        name: String,
        /// The names that come near, or all of them.
        near: String,
    },
    /// An option that the policy does not know.
    #[error("policy `{policy}` knows no option `{option}`; it knows {known}")]
    Option { policy: &'static str, option: &'static str, known: String },
    /// Fewer pages than the policy can work with.
    #[error("policy `{policy}` needs a buffer of at least {wanted} pages ({why}), not of {seen}")]
    TooSmall {
        policy: &'static str,
        wanted: usize,
        why: &'static str,
        /// Pages that it was to have.
        seen: usize,
    },
    /// A setting that no policy can have.
    #[error("{name} of a buffer is {seen}, expected {wanted}")]
    Impossible { name: &'static str, seen: String, wanted: String },
}

impl Error {
    pub(super) fn impossible(name: &'static str, seen: &dyn ToString, wanted: impl Into<String>) -> Self {
        Self::Impossible { name, seen: seen.to_string(), wanted: wanted.into() }
    }

    /// With the names that are at most two edits away, or begin alike.
    pub(super) fn unknown(name: &str, names: &[&'static str]) -> Self {
        let near: Vec<&str> = names.iter().copied().filter(|known| is_near(name, known)).collect();
        let near = if near.is_empty() {
            format!("there are {}", names.join(", "))
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        Self::Unknown { name: name.to_owned(), near }
    }
}

fn is_near(name: &str, known: &str) -> bool {
    let begins = name.len() >= 3 && known.starts_with(&name.to_lowercase());
    // Two edits turn any three letters into nearly any others.
    let edits = if known.len() > 3 { 2 } else { 1 };
    begins || distance(&name.to_lowercase(), known) <= edits
}

/// Edits between two words (Levenshtein), a row of the table at a time.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, left) in from.bytes().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, right) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances_are_edits() {
        for (from, to, edits) in [("lru", "lru", 0), ("lruu", "lru", 1), ("bpl", "bplru", 2), ("", "fab", 3)] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
        }
    }
}
