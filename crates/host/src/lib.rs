//! What this machine is: CPU features, allowed cores, memory.
