"""Benchmarks of speed and memory, printed with hardware, threads and versions. No shipped code imports this."""
