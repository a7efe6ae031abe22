//! Why a write buffer cannot be made.

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
    begins || strsim::levenshtein(&name.to_lowercase(), known) <= edits
}
