#!/bin/sh
# make bench: what "How it is measured" asks for, as one table. A benchmark, not a test: it prints and judges nothing.
#
#   FUSEBOX    the binary          FB_SRCDIR     the sources
#   BENCH_DIR  the C programs      BENCH_ONLY    some of "columns copy cost plan graph process terminal"; all when empty
set -u
: "${FUSEBOX:?}" "${FB_SRCDIR:?}" "${BENCH_DIR:?}"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export FUSEBOX LC_ALL=C.UTF-8 XDG_CACHE_HOME="$work/cache" XDG_STATE_HOME="$work/state"
mkdir -p "$XDG_CACHE_HOME" "$XDG_STATE_HOME"

wanted() {
    case " ${BENCH_ONLY:-$1} " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# measure OUT ARGUMENT…: `fusebox run` as JSON; a failure is said and the rest goes on.
measure() {
    out=$1
    shift
    "$FUSEBOX" run "$@" --device host --format json >"$out" || echo "  (fusebox run $*: exit status $?)"
}

# The caches are this benchmark's own: it calibrates, and leaves the user's calibration alone. One core has a cache of
# its own again.
shares() {
    "$FUSEBOX" devices --device host --format json >"$work/devices.json" || return
    measure "$work/split.json" split_stack max
    "$BENCH_DIR/bench_report" copy "$work/split.json" "$work/devices.json"
    measure "$work/add.json" add_mul_relu none max
    "$BENCH_DIR/bench_report" copy "$work/add.json" "$work/devices.json"
}

processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort -u | head -n 1)
memory=$(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)
echo "$("$FUSEBOX" --version) on ${processor:-unknown processor}, $(nproc) cores, $memory, $(uname -sr), load$(uptime | sed 's/.*average://')"

if wanted columns; then
    "$FUSEBOX" devices --device host >/dev/null
    measure "$work/columns.json" split_stack split_stack:none split_stack:eager split_stack:max \
        combined:none combined:eager combined:max
    "$BENCH_DIR/bench_report" columns "$work/columns.json"
fi
if wanted copy; then
    shares
    (
        export OMP_NUM_THREADS=1 XDG_CACHE_HOME="$work/one"
        mkdir -p "$XDG_CACHE_HOME"
        shares
    )
fi
if wanted cost; then
    for recording in "$FB_SRCDIR"/scripts/recordings/*.json.gz; do
        "$BENCH_DIR/bench_cost" "$recording" "$FB_SRCDIR"/scripts/puzzlers/*.lua "$FB_SRCDIR"/scripts/models/*.lua
    done
fi
if wanted plan; then "$BENCH_DIR/bench_plan"; fi
if wanted process; then "$BENCH_DIR/bench_process" "$FB_SRCDIR/scripts/puzzlers/split_stack.lua"; fi
if wanted terminal; then
    if [ -x "$BENCH_DIR/bench_terminal" ]; then
        "$BENCH_DIR/bench_terminal" split_stack "$FB_SRCDIR/tests/bench/big.lua"
    else
        echo "  (workbench: not measured without libvterm)"
    fi
fi
if wanted graph; then "$BENCH_DIR/bench_graph"; fi
exit 0
