//! KV-cache blocks as indices: allocation and reference counts, never the bytes.
