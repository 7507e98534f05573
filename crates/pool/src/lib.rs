//! Object pools and aligned buffers.
