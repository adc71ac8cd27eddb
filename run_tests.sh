#!/usr/bin/env bash
# Makes .venv beside this script and runs every check: ruff, mypy, pytest. Arguments are passed on to pytest.
set -euo pipefail

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
source "$here/make_environment.sh"
make_environment "$here" "[dev]"

cd -- "$here"
python="$here/.venv/bin/python"
echo "run_tests: ruff check, ruff format --check, mypy" >&2
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
echo "run_tests: pytest" >&2
exec "$python" -m pytest -n 2 "$@"
