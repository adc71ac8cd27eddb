#!/usr/bin/env bash
# Makes .venv beside this script, then runs attribeam audit: on examples/qa_logs.parquet without arguments, else with the
# arguments given, whose paths count from where you are. Run it again as often as you like: finished work is kept.
set -euo pipefail

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
source "$here/make_environment.sh"
make_environment "$here" ""

if [ "$#" -eq 0 ]; then
    cd -- "$here"
    set -- --input examples/qa_logs.parquet --output audits/example
fi
exec "$here/.venv/bin/attribeam" audit "$@"
