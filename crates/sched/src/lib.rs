//! Admission and batch planning: pure, time is a parameter.
