#!/usr/bin/env bash
# Audits the example log on an Apache Flink cluster that it starts on this machine (one JobManager, two TaskManagers) and
# stops again: deploy/flink/run_example.sh --output DIR. Needs Java; fetches Flink once, into a cache.
set -euo pipefail

root="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)"
# shellcheck source=../../make_environment.sh
source "$root/make_environment.sh"
make_environment "$root" ""
start='import sys; sys.path.insert(0, sys.argv.pop(1)); from deploy.flink.cluster import main; sys.exit(main())'
exec "$root/.venv/bin/python" -c "$start" "$root" "$@"
