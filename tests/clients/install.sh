#!/bin/sh
# Installs the clients that tests/clients drives, into build/clients: those of npm where it is there, and Python's in an
# environment of their own, made by PYTHON. Needs the network for the first time.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/clients
failed=0

# wanted FILE: whether what it lists is not installed yet, or was listed otherwise then.
wanted() { ! cmp -s "tests/clients/$1" "build/clients/$1"; }

if command -v npm >/dev/null && wanted package.json; then
    cp tests/clients/package.json build/clients/
    (cd build/clients && npm install --no-audit --no-fund --no-package-lock --loglevel=error) || {
        rm -f build/clients/package.json
        failed=1
    }
fi
if wanted requirements.txt; then
    rm -rf build/clients/python
    if "${PYTHON:-python3}" -m venv build/clients/python &&
        build/clients/python/bin/python -m pip install -q -r tests/clients/requirements.txt; then
        cp tests/clients/requirements.txt build/clients/
    else
        rm -rf build/clients/python
        failed=1
    fi
fi
exit "$failed"
