//! SIMD linear algebra on quantized weights, and the team of threads that runs it.
