#!/bin/sh
# Runs a command once for each part of check_gpu, several at a time, and prints what they say as one TAP stream, as it comes:
# compilers and the interpreter need more time than the GPU, so one process leaves both waiting.
#
#   side_by_side.sh COMMAND…    "--part PART" is added to it, and {} in it stands for a name of the part that files can have
#   JOBS    processes at a time, half of the cores by default      FB_BUILD    folder with check_gpu
#   GPUS    how many of them the processes share, 1 by default
#   SHARE   K/N: the K-th of every N parts alone (1/3, 2/3, 3/3); all by default
#   LIMIT   seconds for all of it; none by default. What has not ended by then is said to have not.
#   SLOWEST how many of the slowest cases are named at the end, 5 by default
# Status: 1 when one failed, 124 when the time was over before all had run, 77 when all were skipped.
JOBS=${JOBS:-$((($(nproc) + 1) / 2))}
share=${SHARE:-1/1} began=$(date +%s)
case $share in
[1-9]/[1-9] | [1-9]/[1-9][0-9] | [1-9][0-9]/[1-9][0-9]) ;;
*) share=0/0 ;;
esac
if [ "${share%/*}" -gt "${share#*/}" ] || [ "$share" = 0/0 ]; then
    echo "side_by_side.sh: SHARE is K/N, with K from 1 to N, and not '$SHARE'" >&2
    exit 2
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
one() {
    part=$1 name=$(echo "$1" | tr /: __) at=$(date +%s)
    shift
    for word; do
        shift
        set -- "$@" "$(printf '%s\n' "$word" | sed "s,{},$name,g")"
    done
    [ -z "${LIMIT:-}" ] || [ $((began + LIMIT)) -gt "$at" ] || return
    [ -z "${LIMIT:-}" ] || set -- timeout -k 5 $((began + LIMIT - at)) "$@"
    "$@" --part "$part" 2>&1
    echo "$? after $(($(date +%s) - at)) s" >"$work/$name.status"
}
"$FB_BUILD/check_gpu" --parts >"$work/all" || exit 1
# What takes longest comes first, so that in the end nobody waits for it alone.
long='/(layer_norm|softmax|lstm|basecaller|dlrm|transformer|attention)'
grep -E "$long" "$work/all" >"$work/every"
grep -vE "$long" "$work/all" >>"$work/every"
awk -v k="${share%/*}" -v n="${share#*/}" 'NR % n == k % n' "$work/every" >"$work/parts"
# Every one of JOBS takes the next part that none has taken: its lock is a folder.
jobs() {
    i=0
    while [ $i -lt "$JOBS" ]; do
        i=$((i + 1))
        [ "${GPUS:-1}" -gt 1 ] && export CUDA_VISIBLE_DEVICES=$((i % GPUS))
        while read -r part <&3; do
            mkdir "$work/$(echo "$part" | tr /: __).taken" 2>/dev/null && one "$part" "$@"
        done 3<"$work/parts" &
    done
    wait
}
# Lines come whole, each written at once; here each result gets the number that it has in the one stream.
jobs "$@" | {
    n=0 skip=
    while IFS= read -r line; do
        case $line in
        'ok '* | 'not ok '*)
            n=$((n + 1)) rest=${line#*ok }
            line="${line%%ok*}ok $n ${rest#* }"
            printf '%s\n' "$line" >>"$work/lines"
            ;;
        '1..0'*) skip=$line && continue ;;
        1..[0-9]*) continue ;;
        esac
        printf '%s\n' "$line"
    done
    [ $n -gt 0 ] || [ -z "$skip" ] || echo "$skip" >"$work/skip"
}
touch "$work/lines"
result=77 ended=0 late=0
for status in "$work"/*.status; do
    [ -e "$status" ] || continue
    case $(cat "$status") in
    77\ *) ended=$((ended + 1)) ;;
    0\ *) ended=$((ended + 1)) && { [ $result = 1 ] || result=0; } ;;
    124\ * | 137\ *) [ -n "${LIMIT:-}" ] && late=$((late + 1)) ;;
    *)
        ended=$((ended + 1)) result=1
        echo "# $(basename "$status" .status) ended with status $(cat "$status")"
        ;;
    esac
done
grep -q '^not ok' "$work/lines" && result=1
all=$(wc -l <"$work/parts") tests=$(wc -l <"$work/lines")
sed -n 's/^\(not \)\{0,1\}ok [0-9]* - \(.*\), \([0-9.]*\) s$/\3 s: \2/p' "$work/lines" | sort -rn | head -n "${SLOWEST:-5}" |
    sed 's/: error.bound.*//; s/^/# slowest: /'
if [ $ended -lt "$all" ]; then
    echo "# $ended of $all parts ended${LIMIT:+ within $LIMIT s}, $late were stopped, $tests tests ran: not finished"
    [ $result = 1 ] || result=124
fi
if [ -e "$work/skip" ] && [ "$tests" = 0 ]; then cat "$work/skip"; else echo "1..$tests"; fi
exit $result
