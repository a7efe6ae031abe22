//! Traces, loads and cache curves, read and made through the public interface.

mod generated_loads;
mod mrc;
mod preparation;
mod real_traces;
mod trace_columns;
mod trace_compression;
mod trace_formats;
mod trace_info;
mod trace_round_trips;
