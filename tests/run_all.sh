#!/bin/sh
# Runs the whole test suite in two processes: what computes, and what mostly waits for nodes, rings and networks.
# PYTHON is an interpreter in which Ringleader and its test tools are installed.
set -eu

cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
waiting="tests/ring tests/api tests/netns tests/security"
out=build/test
mkdir -p "$out"

ignored=""
for each in $waiting; do ignored="$ignored --ignore=$each"; done
# shellcheck disable=SC2086 # lists of words
"$python" -m pytest -p no:cacheprovider $ignored >"$out/computing.log" 2>&1 &
computing=$!
trap 'kill "$computing" 2>/dev/null || true' EXIT
failed=0
# shellcheck disable=SC2086
"$python" -m pytest $waiting || failed=$?
echo "the other half of the suite, which ran meanwhile:"
wait "$computing" || failed=$?
cat "$out/computing.log"
exit "$failed"
