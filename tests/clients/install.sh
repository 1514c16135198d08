#!/bin/sh
# Installs the npm clients that tests/clients drives, into build/clients. Needs npm; the network for the first time.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/clients
if ! cmp -s tests/clients/package.json build/clients/package.json; then
    cp tests/clients/package.json build/clients/
    (cd build/clients && npm install --no-audit --no-fund --no-package-lock --loglevel=error) || {
        rm -f build/clients/package.json
        exit 1
    }
fi
