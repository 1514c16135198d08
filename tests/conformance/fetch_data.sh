#!/bin/sh
# Fetches the test data that is not ours to commit, once: the JSON Schema Test Suite, out of the source package of
# jsonschema, by pip. Into $RINGLEADER_TEST_DATA or ~/.cache/ringleader-tests. PYTHON is an interpreter that has pip.
set -eu

python=${PYTHON:-python3}
data=${RINGLEADER_TEST_DATA:-$HOME/.cache/ringleader-tests}
suite=$data/json-schema-suite
package=jsonschema==4.26.0

if [ -f "$suite/LICENSE" ]; then
    exit 0
fi
mkdir -p "$data"
scratch=$(mktemp -d "$data/fetching.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
echo "test data: $package, for the JSON Schema Test Suite in it"
"$python" -m pip download --disable-pip-version-check --no-input --quiet --no-deps --no-binary jsonschema \
    --dest "$scratch" "$package"
tar -xzf "$scratch"/jsonschema-*.tar.gz -C "$scratch"
mkdir -p "$suite/tests"
cp -R "$scratch"/jsonschema-*/json/tests/draft2020-12 "$suite/tests/"
cp "$scratch"/jsonschema-*/json/LICENSE "$suite/LICENSE"
