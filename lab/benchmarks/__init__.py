"""Speed and memory of audits, printed with hardware, threads and versions. Nothing that is shipped imports this."""
