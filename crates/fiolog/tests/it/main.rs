//! Logs of fio, real and broken.

mod bad_histogram_logs;
mod bad_logs;
mod golden_logs;
mod oracle;
