#!/bin/sh
# Runs the whole test suite in two processes: what computes, and what mostly waits for nodes, rings and networks.
# What fails while both halves share a small machine is run once more, alone, and must pass then: deadlines are part of
# what is tested, and a machine with twice the work that it can do misses some. Both outcomes are shown.
# PYTHON is an interpreter in which Ringleader and its test tools are installed.
set -eu

cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
waiting="tests/ring tests/api tests/clients tests/netns tests/security"
out=build/test
rm -rf "$out"
mkdir -p "$out"

ignored=""
for each in $waiting; do ignored="$ignored --ignore=$each"; done
# shellcheck disable=SC2086 # lists of words
"$python" -m pytest -o cache_dir="$out/computing" $ignored >"$out/computing.log" 2>&1 &
computing=$!
trap 'kill "$computing" 2>/dev/null || true' EXIT
waited=0 computed=0
# shellcheck disable=SC2086
"$python" -m pytest -o cache_dir="$out/waiting" $waiting || waited=$?
echo "the other half of the suite, which ran meanwhile:"
wait "$computing" || computed=$?
cat "$out/computing.log"

# again NAME CODE TESTS...: what failed of a half, alone. 1 is pytest's word for failed tests; all else is final.
again() {
    half=$1 code=$2
    shift 2
    [ "$code" = 1 ] || return "$code"
    echo "what failed in the $half half, once more, alone:"
    "$python" -m pytest -o cache_dir="$out/$half" --last-failed --last-failed-no-failures none "$@"
}
failed=0
# shellcheck disable=SC2086
again waiting "$waited" $waiting || failed=$?
# shellcheck disable=SC2086
again computing "$computed" $ignored || failed=$?
exit "$failed"
