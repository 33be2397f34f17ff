#!/bin/sh
# compute-sanitizer over every bundled script × preset at reduced sizes. Speaks TAP; exits with 77 without a GPU or the tool. Needs
# check_gpu in the folder FB_BUILD.
#
#   TOOLS   default "memcheck initcheck racecheck"      SIZES   default "100": rows of 16 bytes and their rests
#   ONLY    a part of a case's name; all when empty     SANITIZER   default compute-sanitizer
#   SANITIZER_JOBS   processes at a time, default 4      LIMIT   seconds for all of it: a tool that has not ended then, or not
#                    begun, is said to be not finished (status 124)
#   SHARE   K/N, a share of the parts (side_by_side.sh)   DONE    a file of tools that found nothing, which are not run again
#
# What a kernel forgets to write is found by check_gpu itself as well: outputs and temporaries are poisoned with NaNs, which makes
# them initialised for initcheck.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
FB_SRCDIR=${FB_SRCDIR:-$here/../..}
limit=${LIMIT:-} began=$(date +%s)
# rest: seconds that are left, empty without a limit
rest() {
    [ -n "$limit" ] || return 0
    left=$((began + limit - $(date +%s)))
    echo $((left > 0 ? left : 0))
}
FB_BUILD=$(cd "${FB_BUILD:-.}" && pwd) || exit 1
export FB_SRCDIR
sanitizer=${SANITIZER:-compute-sanitizer}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
XDG_CACHE_HOME=${FB_TEST_CACHE:-$work/cache}
export XDG_CACHE_HOME
mkdir -p "$XDG_CACHE_HOME"
for place in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    command -v "$sanitizer" >/dev/null 2>&1 || PATH=$PATH:$place/bin:$place/compute-sanitizer
done
skip() {
    echo "1..0 # SKIP $1"
    exit 77
}
command -v "$sanitizer" >/dev/null 2>&1 || skip "no $sanitizer"

# Merged kernels meet at barriers of some of a block's warps. Where these have met unequally often before, racecheck (of CUDA 13.0 at
# least) takes such a meeting for none. Whether it does so here is asked with a kernel that is right, and wrong as soon as its barrier
# is cut out: then hazards in merged kernels say nothing and are passed over. That these have no races is what test_races and test_mega
# watch, without a GPU.
misjudges_barriers() {
    "$FB_BUILD/named_barriers" 20000 && ! "$FB_BUILD/named_barriers" 1000 cut || return 1
    "$sanitizer" --tool racecheck "$FB_BUILD/named_barriers" 40 | grep -q 'SUMMARY: [1-9][0-9]* hazard'
}

# Kernels whose hazards are passed over: cuBLAS's for Hopper wait on barriers that racecheck does not follow.
doubtful='nvjet'

# The logs with hazards of which every place lies in a doubtful kernel.
doubted() {
    for log in "$work"/log.*; do
        grep -qE 'SUMMARY: [1-9][0-9]* hazards? ' "$log" || continue
        grep -oE '(access|Thread \([0-9,]*\)) at [^ +]*' "$log" | sed 's/.* at //' | sort -u >"$work/places"
        [ -s "$work/places" ] && ! grep -qvE "^($doubtful)" "$work/places" && echo "$log"
    done
}

# The logs that say anything else than that there was nothing ("10 hazards" ends in "0 hazards").
soiled() {
    doubted >"$work/doubted"
    for log in "$work"/log.*; do
        grep -qE 'SUMMARY: 0 (errors|hazards)' "$log" || grep -qxF "$log" "$work/doubted" || echo "$log"
    done
}

# Of these, those that were written to their end: a tool that was stopped has no last line.
soiled_whole() {
    soiled | while read -r log; do grep -q 'SUMMARY' "$log" && echo "$log"; done
}

# warm SIZE: all of it without a tool: references and cubins are then in the cache, and only kernels are slow
warm() {
    LIMIT=$(rest) SLOWEST=0 sh "$here/side_by_side.sh" "$FB_BUILD/check_gpu" --small "$1" --mode stream ${ONLY:+--only "$ONLY"} \
        >"$work/plain"
    status=$?
    [ $status = 77 ] && skip "$(sed -n 's/^1..0 # SKIP //p' "$work/plain")"
    grep '^not ok' "$work/plain" | sed 's/^/# /'
}

# under TOOL SIZE: findings are read from the logs, all of them; what the programs say goes by as comments
under() {
    {
        LIMIT=$(rest) JOBS=${SANITIZER_JOBS:-4} sh "$here/side_by_side.sh" "$sanitizer" --tool "$1" --print-limit 1000 \
            --target-processes application-only --log-file "$work/log.{}" "$FB_BUILD/check_gpu" --small "$2" --mode stream \
            ${ONLY:+--only "$ONLY"} 2>&1
        echo $? >"$work/status"
    } | tee "$work/out" | while IFS= read -r line; do printf '# %s\n' "$line"; done
    return "$(cat "$work/status")"
}

tests=0 failed=0 unfinished=0
for size in ${SIZES:-100}; do
    warmed=
    for tool in ${TOOLS:-memcheck initcheck racecheck}; do
        key="sanitize $tool $size${SHARE:+ $SHARE}"
        if [ -n "${DONE:-}" ] && grep -qsx "$key" "$DONE"; then
            echo "# $key: done before"
            continue
        fi
        [ -n "$warmed" ] || warm "$size"
        warmed=yes
        if [ "$(rest)" = 0 ]; then
            unfinished=1
            echo "# $tool, sizes up to $size: no time left"
            continue
        fi
        rm -f "$work"/log.*
        [ "$tool" = racecheck ] && misjudges_barriers >"$work/barriers" && doubtful="$doubtful|mega_kernel"
        under "$tool" "$size"
        status=$?
        cases=$(grep -c '^ok' "$work/out")
        tests=$((tests + 1))
        name="$tool, sizes up to $size, $cases cases"
        if [ $status = 0 ] && [ "$cases" -gt 0 ] && ! soiled | grep -q .; then
            echo "ok $tests - $name"
            [ -z "${DONE:-}" ] || echo "$key" >>"$DONE"
            doubted | while read -r log; do
                echo "# $(basename "$log"): hazards in kernels of which $tool cannot tell: $(tail -1 "$log")"
            done
        elif [ $status = 124 ] && ! soiled_whole | grep -q .; then
            unfinished=1 tests=$((tests - 1))
            echo "# $name, nothing found so far: not finished"
        else
            failed=1
            echo "not ok $tests - $name (status $status)"
            grep -E '^not ok|^# .* ended with' "$work/out" | head -40 | sed 's/^/# /'
            soiled | while read -r log; do
                echo "# $(basename "$log")"
                head -30 "$log" | sed 's/^/# /'
            done
        fi
    done
done
echo "1..$tests"
[ $failed = 0 ] && [ $unfinished = 1 ] && exit 124
exit $failed
