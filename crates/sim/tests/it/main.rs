//! The simulated drive through its public interface, next to plain models of it.

mod checkpoint;
mod engines_agree;
mod flows;
mod garbage_collection;
mod issue_modes;
mod loads;
mod longest_run;
mod micro;
mod online_drive;
mod overlap;
mod plain_map;
mod policy_contract;
mod policy_golden;
mod policy_models;
mod precondition;
mod sampling;
mod simulated_drive;
mod slc_region;
mod spec;
mod steadiness;
mod threads;
mod write_behind;
mod write_buffer;
