#!/bin/sh
# Runs the whole proof of tool calls and structured output, in two processes for two cores, and says where the tables
# are. PYTHON is an interpreter in which Ringleader and its test tools are installed.
set -eu

cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
matrix=tests/conformance/test_forced_matrix.py
out=build/conformance
export RINGLEADER_CONFORMANCE=full

PYTHON=$python tests/conformance/fetch_data.sh
rm -rf "$out"
mkdir -p "$out"
FORCED_PART=1/2 "$python" -m pytest -q "$matrix" >"$out/first_half.log" 2>&1 &
first=$!
trap 'kill "$first" 2>/dev/null || true' EXIT
failed=0
FORCED_PART=2/2 "$python" -m pytest -q tests/conformance tests/ring/test_never_calls.py || failed=$?
wait "$first" || failed=$?
cat "$out/first_half.log"
echo "conformance: the tables are in $out/"
exit "$failed"
