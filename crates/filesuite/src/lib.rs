//! The file tests that IOzone made known, as a native engine.
