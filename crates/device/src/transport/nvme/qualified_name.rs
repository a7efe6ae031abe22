//! Names of hosts and subsystems.

/// Longest name (NVM Express Base Specification 2.0, section 4.5).
const MAX_NAME_BYTES: usize = 223;

/// A name that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "nqn is {name:?}, expected nqn.YEAR-MONTH.DOMAIN:TEXT with at most 223 bytes, such as \
     nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001"
)]
pub struct NameError {
    pub name: String,
}

/// A qualified name, if it is one and not the discovery service's.
pub(super) fn checked(name: &str) -> Result<String, NameError> {
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    let fits = name.starts_with("nqn.") && (5..=MAX_NAME_BYTES).contains(&name.len());
    let name = name.to_owned();
    if printable && fits && name != super::DISCOVERY_NAME { Ok(name) } else { Err(NameError { name }) }
}
