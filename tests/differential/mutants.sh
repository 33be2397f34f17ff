#!/bin/sh
# The mutation check: seeded bugs in legality and code generation (engine/base/mutate.h, listed in mutants.txt), each
# given to the fuzzer, which should find it.
#
#     FUSEBOX=…/fusebox mutants.sh [NUMBER…]     FUSEBOX: a build with CPPFLAGS=-DFB_MUTANTS
#
# FB_DEVICE  host (default); cuda:0: the mutants of CUDA, for a machine with a GPU; emulated: the same
#            without one, where FUSEBOX is tests' test_emulated of such a build
# FB_COUNT   graphs a mutant, 600 by default, 80 emulated; FB_PLANS plans of each, 4; FB_SEED the first graph, 1
# FB_JOBS    mutants side by side (default: one a core)
# FB_TALLY   a file that takes a line a mutant, its folder and whether it was caught; mutants.sh --tally FILE adds up
# Prints a table, mutant by mutant: what caught it, the graph that did (none: the compiler refuses the code that every
# program shares), and the seconds it took. Ends with the share that was caught; the status is 1 below 95 %.
set -u
here=$(dirname "$0")
device=${FB_DEVICE:-host}
case $device in
emulated) FB_COUNT=${FB_COUNT:-80} ;;
*) FB_COUNT=${FB_COUNT:-600} ;;
esac
export FB_COUNT FB_PLANS="${FB_PLANS:-4}" FB_SEED="${FB_SEED:-1}" FUSEBOX

# One mutant, as a line of the table in a file. What catches it says "seed N", and how it shows.
try() { # MUTANT FILE
    log=$2.log begin=$(date +%s)
    if [ "$device" = emulated ]; then
        FB_MUTANT=$1 timeout 1800 "$FUSEBOX" >"$log" 2>&1 </dev/null
        status=$?
        # a kernel that can go on no more ends the whole process
        grep -q 'emulated kernel:' "$log" && status=1
        grep -q 'cc1plus\|error:' "$log" && [ $status -gt 128 ] && status=1
    else
        FB_MUTANT=$1 timeout 1800 "$FUSEBOX" fuzz --device "$device" --seed "$FB_SEED" --count "$FB_COUNT" \
            --plans "$FB_PLANS" --most 1 --trials 0 --jobs 1 --out "$2.out" >"$log" 2>/dev/null
        status=$?
    fi
    seconds=$(($(date +%s) - begin))
    what=$(grep -m1 -E '^(✗|#) seed|the compiler refuses|emulated kernel:' "$log" | sed 's/^[✗#] //' | cut -c1-110)
    # a machine too busy to compile in time has found nothing
    grep -q 'took more than' "$log" && status=slow
    case $status in
    0) mark=MISSED ;;
    1) mark=caught ;;
    slow | 124) mark='too slow' ;;
    *) mark="status $status" ;;
    esac
    printf '%s\t%s\t%s\t%s\n' "$mark" "$1" "$seconds" "$what" >"$2"
}

if [ "${1-}" = --try ]; then
    try "$2" "$3"
    exit 0
fi

# The share by folder of what runs have left in FB_TALLY.
if [ "${1-}" = --tally ]; then
    awk '{ all[$1]++; caught[$1] += $2 == "caught"; n++; k += $2 == "caught" }
        END { for (folder in all) printf "%-16s %2d of %2d  %3d %%\n", folder, caught[folder], all[folder], 100 * caught[folder] / all[folder]
              printf "%-16s %2d of %2d  %3d %%\n", "~all", k, n, n ? 100 * k / n : 0 }' "$2" | LC_ALL=C sort | sed 's/^~all/all /'
    exit 0
fi

# Where its bug is: engine/nest.
folder_of() {
    grep -rlE "FB_MUTATE\\($1," "$here/../../engine" | sed 's|.*/\(engine/[a-z]*\)/.*|\1|' | head -n 1
}

out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
numbers=
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
    numbers="$numbers $number"
done <"$here/mutants.txt"
[ -n "$numbers" ] || exit 2
# shellcheck disable=SC2086
printf '%s\n' 0 $numbers | xargs -P "${FB_JOBS:-$(nproc)}" -I '{}' sh "$0" --try '{}' "$out/{}"
if ! grep -q '^MISSED' "$out/0"; then
    echo "mutants: without a mutant, the fuzzer finds:"
    cat "$out/0" "$out/0.log"
fi
caught=0 total=0
for number in $numbers; do
    what=$(sed -n "s/^$number //p" "$here/mutants.txt")
    total=$((total + 1))
    mark=$(cut -f1 "$out/$number")
    [ "$mark" = caught ] && caught=$((caught + 1))
    [ -n "${FB_TALLY:-}" ] && echo "$(folder_of "$number") $mark" >>"$FB_TALLY"
    printf '%-8s %2s  %4s s  %s: %s\n' "$mark" "$number" "$(cut -f3 "$out/$number")" "$what" "$(cut -f4 "$out/$number")"
done
echo "$caught of $total mutants caught: $((caught * 100 / total)) %"
grep -q '^MISSED' "$out/0" && [ $((caught * 100)) -ge $((total * 95)) ]
