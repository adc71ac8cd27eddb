# shellcheck shell=bash
# Sourced by run_local.sh and run_tests.sh.

# Print a Python that attribeam runs on: 3.11, 3.12 or 3.13. ATTRIBEAM_PYTHON, where set, is the only one tried.
find_python() {
    local name names=(python3.11 python3.12 python3.13 python3 python)
    if [ -n "${ATTRIBEAM_PYTHON:-}" ]; then
        names=("$ATTRIBEAM_PYTHON")
    fi
    for name in "${names[@]}"; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            command -v -- "$name"
            return
        fi
    done
    echo "attribeam needs Python 3.11, 3.12 or 3.13; tried: ${names[*]}; found: $(python3 --version 2>&1)." >&2
    echo "Install one (for example python3.11 and python3.11-venv) and start this command again." >&2
    return 1
}

# make_environment ROOT EXTRAS: ROOT/.venv with attribeam (editable) and EXTRAS such as "[dev]", versions as in
# constraints.txt. A stamp tells whether pyproject.toml, constraints.txt, the place or Python changed since.
make_environment() {
    local root="$1" extras="$2" python stamp wanted
    stamp="$root/.venv/attribeam.stamp"
    wanted="$(environment_digest "$root")"
    if environment_has "$stamp" "$wanted $extras" || { [ -z "$extras" ] && environment_has "$stamp" "$wanted [dev]"; }; then
        return
    fi
    python="$(find_python)" || return 1
    echo "attribeam: preparing $root/.venv with $("$python" --version); the first time takes some minutes" >&2
    "$python" -m venv -- "$root/.venv" || {
        echo "attribeam: $python cannot make virtual environments; install its venv package" >&2
        return 1
    }
    echo "attribeam: installing packages$extras by constraints.txt" >&2
    install_cpu_torch "$root"
    "$root/.venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --no-input \
        --constraint "$root/constraints.txt" --editable "$root$extras"
    echo "$wanted $extras" >>"$stamp"
}

# Without a GPU, install the CPU build of torch, which is far smaller, if pip finds one where it is configured to look.
install_cpu_torch() {
    local device
    for device in /dev/nvidiactl /dev/kfd /dev/dxg; do
        if [ -e "$device" ]; then return; fi
    done
    "$1/.venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --no-input \
        --constraint "$1/constraints.txt" "$(grep '^torch==' "$1/constraints.txt")+cpu" 2>/dev/null || true
}

# True where the stamp file says that this was installed.
environment_has() {
    [ -f "$1" ] && grep -qxF -- "$2" "$1"
}

# What the environment depends on: changed files of packaging, or a moved checkout, make a new one.
environment_digest() {
    { printf '%s\n' "$1" "${ATTRIBEAM_PYTHON:-}"; cat -- "$1/pyproject.toml" "$1/constraints.txt"; } | cksum | tr ' ' '-'
}
