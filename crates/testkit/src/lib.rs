//! Test doubles: a scripted engine, a scripted service, tiny models.
