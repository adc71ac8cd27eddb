#!/usr/bin/env bash
# Makes .venv beside this script and runs every check: ruff, mypy, pytest. Arguments are passed on to pytest.
# With --fast as the first argument it runs ruff and the tests that need no model, which takes under a minute.
# ATTRIBEAM_FLINK=1 also fetches Apache Flink (380 MB) and runs the tests on a cluster, about six minutes more.
set -euo pipefail

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=make_environment.sh
source "$here/make_environment.sh"

fast_tests=(
    tests/schemas tests/logs tests/attribution/answers tests/attribution/evidence tests/report
    tests/test_import_rules.py tests/test_documents.py
    --ignore=tests/report/browser --ignore=tests/attribution/answers/test_bundled_parser.py
)
with_mypy=yes
if [ "${1:-}" = --fast ]; then
    with_mypy=no
    shift
    set -- "${fast_tests[@]}" "$@"
fi

make_environment "$here" "[dev]"
cd -- "$here"
python="$here/.venv/bin/python"
echo "run_tests: ruff check, ruff format --check" >&2
"$python" -m ruff check .
"$python" -m ruff format --check .
if [ "$with_mypy" = yes ]; then
    echo "run_tests: mypy" >&2
    "$python" -m mypy
    if [ "${ATTRIBEAM_FLINK:-}" = 1 ] && command -v java >/dev/null; then
        "$python" deploy/flink/get_flink.py || echo "run_tests: the tests on a Flink cluster are skipped" >&2
    fi
fi
echo "run_tests: pytest" >&2
# A file is run by one worker, which makes its fixtures once; tests/conftest.py says which files come first.
exec "$python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder "$@"
