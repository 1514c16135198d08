#!/bin/sh
# Makes the virtual environment $1 and installs Ringleader with everything that its tests need, showing progress.
# PYTHON chooses the interpreter (3.11 or newer).
set -eu

venv=$1
python=""
for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "error: Python 3.11 or newer is needed and was not found; name it: make setup PYTHON=/path/to/python3" >&2
    exit 1
fi

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    echo "setup: virtual environment in $venv ($("$python" --version))"
    "$python" -m venv --clear "$venv" || {
        echo "error: $python cannot make virtual environments (Debian: apt install python3-venv)" >&2
        exit 1
    }
fi

echo "setup: dependencies (a few hundred MB the first time)"
log="$venv/setup.log"
# One line for each package as pip comes to it; the whole log is kept for when something fails.
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input -e ".[dev]" >"$log" 2>&1 &
pid=$!
shown=0
while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    count=$(grep -c '^Collecting ' "$log" 2>/dev/null || true)
    if [ "${count:-0}" -ge $((shown + 10)) ]; then
        shown=$count
        echo "setup: $count packages found"
    fi
done
if ! wait "$pid"; then
    tail -n 15 "$log" >&2
    echo "error: the dependencies could not be installed; the whole log is in $log" >&2
    exit 1
fi
echo "setup: done, $(grep -c '^Collecting ' "$log" || true) packages"

if [ "$(uname -s)" = Linux ] && ! ldconfig -p 2>/dev/null | grep -q 'libopenblas\.so'; then
    echo "setup: note: OpenBLAS is not installed; prompts run 10 to 20 times slower without it"
    echo "setup:       Debian, Ubuntu: sudo apt install libopenblas0-pthread"
fi
