//! Logs of fio, real and broken.

mod bad_logs;
mod golden_logs;
mod oracle;
