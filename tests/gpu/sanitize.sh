#!/bin/sh
# compute-sanitizer over every bundled script × preset at reduced sizes. Speaks TAP; exits with 77 without a GPU or the tool. Needs
# check_gpu in the folder FB_BUILD.
#
#   TOOLS   default "memcheck initcheck racecheck"      SIZES   default "100": rows of 16 bytes and their rests
#   ONLY    a part of a case's name; all when empty     SANITIZER   default compute-sanitizer
#   SANITIZER_JOBS   processes at a time, default 4      LIMIT   seconds for each tool and size
#
# What a kernel forgets to write is found by check_gpu itself as well: outputs and temporaries are poisoned with NaNs, which makes
# them initialised for initcheck.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
FB_SRCDIR=${FB_SRCDIR:-$here/../..}
export LIMIT="${LIMIT:-}"
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

# The logs that say more than that there was nothing ("10 hazards" ends in "0 hazards"), or nothing at all. Hazards between threads of
# cuBLAS's kernels for Hopper (nvjet…) are passed over: racecheck does not follow the barriers that these wait on.
soiled() {
    for log in "$work"/log.*; do
        grep -qE 'SUMMARY: 0 (errors|hazards)' "$log" && continue
        grep -q 'SUMMARY: [0-9]* hazards' "$log" && grep -q ' Thread (.*) at nvjet' "$log" &&
            ! grep ' Thread (.*) at ' "$log" | grep -qv ' at nvjet' && continue
        echo "$log"
    done
}

tests=0 failed=0
for size in ${SIZES:-100}; do
    # Without the tool first: references and cubins are then in the cache, and only kernels are slow.
    sh "$here/side_by_side.sh" "$FB_BUILD/check_gpu" --small "$size" --mode stream ${ONLY:+--only "$ONLY"} >"$work/plain"
    status=$?
    [ $status = 77 ] && skip "$(sed -n 's/^1..0 # SKIP //p' "$work/plain")"
    grep '^not ok' "$work/plain" | sed 's/^/# /'
    for tool in ${TOOLS:-memcheck initcheck racecheck}; do
        rm -f "$work"/log.*
        # Findings are read from the logs, all of them.
        JOBS=${SANITIZER_JOBS:-4} sh "$here/side_by_side.sh" "$sanitizer" --tool "$tool" --print-limit 1000 \
            --target-processes application-only --log-file "$work/log.{}" "$FB_BUILD/check_gpu" --small "$size" --mode stream \
            ${ONLY:+--only "$ONLY"} >"$work/out" 2>&1
        status=$?
        cases=$(grep -c '^ok' "$work/out")
        tests=$((tests + 1))
        name="$tool, sizes up to $size, $cases cases"
        if [ $status = 0 ] && [ "$cases" -gt 0 ] && ! soiled | grep -q .; then
            echo "ok $tests - $name"
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
exit $failed
