#!/bin/sh
# Runs a command once for each part of check_gpu, several at a time, and prints what they say as one TAP stream: compilers and
# the interpreter need more time than the GPU, so one process leaves both waiting.
#
#   side_by_side.sh COMMAND…    "--part PART" is added to it, and {} in it stands for a name of the part that files can have
#   JOBS    processes at a time, half of the cores by default      FB_BUILD    folder with check_gpu
#   GPUS    how many of them the processes share, 1 by default
#   LIMIT   seconds for all of it; none by default. What has not ended by then is said to have not.
# Status: 1 when one failed, 77 when all were skipped.
JOBS=${JOBS:-$((($(nproc) + 1) / 2))}
began=$(date +%s)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
one() {
    part=$1 name=$(echo "$1" | tr /: __) at=$(date +%s)
    shift
    for word; do
        shift
        set -- "$@" "$(printf '%s\n' "$word" | sed "s,{},$name,g")"
    done
    [ -z "${LIMIT:-}" ] || set -- timeout $((began + LIMIT > at ? began + LIMIT - at : 1)) "$@"
    "$@" --part "$part" >"$work/$name.out" 2>&1
    echo "$? after $(($(date +%s) - at)) s" >"$work/$name.status"
}
"$FB_BUILD/check_gpu" --parts >"$work/all" || exit 1
# What takes longest comes first, so that in the end nobody waits for it alone.
long='/(layer_norm|softmax|lstm|basecaller|dlrm|transformer|attention)'
grep -E "$long" "$work/all" >"$work/parts"
grep -vE "$long" "$work/all" >>"$work/parts"
# Every one of JOBS takes the next part that none has taken: its lock is a folder.
i=0
while [ $i -lt "$JOBS" ]; do
    i=$((i + 1))
    [ "${GPUS:-1}" -gt 1 ] && export CUDA_VISIBLE_DEVICES=$((i % GPUS))
    while read -r part <&3; do
        mkdir "$work/$(echo "$part" | tr /: __).taken" 2>/dev/null && one "$part" "$@"
    done 3<"$work/parts" &
done
wait
result=77
for status in "$work"/*.status; do
    case $(cat "$status") in
    77\ *) ;;
    0\ *) [ $result = 1 ] || result=0 ;;
    *)
        result=1
        echo "# $(basename "$status" .status) ended with status $(cat "$status")"
        ;;
    esac
done
cat "$work"/*.out | awk '/^(not )?ok / { n++; sub(/^not ok [0-9]+/, "not ok " n) || sub(/^ok [0-9]+/, "ok " n) }
    /^1\.\.0/ { skip = $0; next } /^1\.\.[0-9]+$/ { next } { print } END { print n || !skip ? "1.." n + 0 : skip }'
exit $result
