#!/usr/bin/env bash
# Audits the logs of yesterday (or of AUDIT_DAY), renews the history, and removes old audits.
# Its exit codes are those of attribeam audit: 0 done, 1 failed, 2 bad usage or no logs, 3 a quality gate failed.
set -euo pipefail

cd -- "${AUDIT_HOME:-$(dirname -- "${BASH_SOURCE[0]}")}"
export AUDIT_DAY="${AUDIT_DAY:-$(date --utc --date=yesterday +%F)}"

code=0
attribeam audit --config audit.toml "$@" || code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then
    exit "$code"
fi
find audits -mindepth 1 -maxdepth 1 -type d -mtime +90 -exec test -f {}/_attribeam \; \
    -exec flock --nonblock {}/_attribeam rm -rf -- {} \;
attribeam history audits --output audits/history.html >/dev/null
exit "$code"
