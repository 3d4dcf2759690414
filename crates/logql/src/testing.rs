//! Records in memory for tests: fields are set by hand.
