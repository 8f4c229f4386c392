"""Measuring drafters: paired benchmarks, and replay from traces."""
