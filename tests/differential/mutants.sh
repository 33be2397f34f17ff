#!/bin/sh
# The mutation check: seeded bugs in legality and code generation (engine/base/mutate.h, listed in mutants.txt), each
# given to the fuzzer, which should find it.
#
#     FUSEBOX=…/fusebox mutants.sh [NUMBER…]     FUSEBOX: a build with CPPFLAGS=-DFB_MUTANTS
#
# FB_DEVICE  host (default); cuda:0: the mutants of the CUDA dialect, for a machine with a GPU; emulated: the same
#            without one, where FUSEBOX is tests' test_emulated of such a build
# FB_COUNT   graphs a mutant, 400 by default; FB_PLANS plans of each, 4; FB_SEED the first graph, 1
# Ends with the share that was caught; the status is 1 below 95 %.
set -u
here=$(dirname "$0")
device=${FB_DEVICE:-host}
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT

try() { # MUTANT: status 1 when something was found
    if [ "$device" = emulated ]; then
        FB_MUTANT=$1 timeout 900 "$FUSEBOX" >"$out/log" 2>&1 </dev/null
        return
    fi
    FB_MUTANT=$1 timeout 900 "$FUSEBOX" fuzz --device "$device" --seed "${FB_SEED:-1}" --count "${FB_COUNT:-400}" \
        --plans "${FB_PLANS:-4}" --most 1 --trials 0 --out "$out" >"$out/log" 2>/dev/null
}

try 0
status=$?
if [ $status -ne 0 ]; then
    echo "mutants: without a mutant, the fuzzer ends with status $status:"
    cat "$out/log"
    exit 2
fi
caught=0 total=0
while read -r number what; do
    case $device:$what in
    host:cuda:*) continue ;;
    host:*) ;;
    *:cuda:*) ;;
    *) continue ;;
    esac
    if [ $# -gt 0 ]; then
        case " $* " in *" $number "*) ;; *) continue ;; esac
    fi
    total=$((total + 1))
    try "$number"
    status=$?
    # a machine too busy to compile in time has found nothing
    grep -q 'took more than' "$out/log" && status=slow
    case $status in
    1) caught=$((caught + 1)); mark=caught ;;
    slow) mark="MISSED (too slow a machine)" ;;
    *) mark=MISSED ;;
    esac
    echo "$mark $number $what: $(grep -m1 -E '^(✗|#) seed|the compiler refuses' "$out/log" | cut -c1-110)"
done <"$here/mutants.txt"
[ $total -gt 0 ] || exit 2
echo "$caught of $total mutants caught: $((caught * 100 / total)) %"
[ $((caught * 100)) -ge $((total * 95)) ]
