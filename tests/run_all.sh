#!/bin/sh
# Runs the whole test suite in three processes: what computes, what runs rings of real shards, and what mostly waits for
# doors, networks and clients. What fails while they share a small machine is run once more, alone, and must pass then:
# deadlines are part of what is tested, and a machine with more work than it can do misses some. Both outcomes are shown.
# PYTHON is an interpreter in which Ringleader and its test tools are installed.
set -eu

cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
doors="tests/api tests/netns tests/security tests/clients"
# Of the rings those that need no processes go with the doors: so all three take about as long.
slices="tests/ring/test_drafts.py tests/ring/test_families.py tests/ring/test_prefixes.py tests/ring/test_riding.py"
rings="tests/ring"
for each in $slices; do rings="$rings --ignore=$each"; done
out=build/test
rm -rf "$out"
mkdir -p "$out"

computing=""
for each in tests/ring $doors; do computing="$computing --ignore=$each"; done

# part NAME ARGUMENTS...: one of the processes; what it says goes to a file of its own.
part() {
    name=$1
    shift
    "$python" -m pytest -o cache_dir="$out/$name" "$@" >"$out/$name.log" 2>&1
}
# shellcheck disable=SC2086 # lists of words
part computing $computing &
first=$!
# shellcheck disable=SC2086
part doors $doors $slices &
second=$!
trap 'kill "$first" "$second" 2>/dev/null || true' EXIT
ringing=0 computed=0 opened=0
# shellcheck disable=SC2086
"$python" -m pytest -o cache_dir="$out/rings" $rings || ringing=$?
echo "the parts of the suite that ran meanwhile:"
wait "$second" || opened=$?
cat "$out/doors.log"
wait "$first" || computed=$?
cat "$out/computing.log"

# again NAME CODE ARGUMENTS...: what failed of a part, alone. 1 is pytest's word for failed tests; with 3 it broke off
# itself, as it may when a test runs out of time, so that all of the part has to be run; all else is final.
again() {
    name=$1 code=$2 only="--last-failed --last-failed-no-failures none"
    shift 2
    case $code in
    1) ;;
    3) only="" ;;
    *) return "$code" ;;
    esac
    echo "what failed of the $name, once more, alone:"
    # shellcheck disable=SC2086
    "$python" -m pytest -o cache_dir="$out/$name" $only "$@"
}
failed=0
# shellcheck disable=SC2086
again rings "$ringing" $rings || failed=$?
# shellcheck disable=SC2086
again doors "$opened" $doors $slices || failed=$?
# shellcheck disable=SC2086
again computing "$computed" $computing || failed=$?
exit "$failed"
