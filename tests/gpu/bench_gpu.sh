#!/bin/sh
# The GPU's table: what the puzzlers, one pointwise kernel, layer_norm and softmax cost beside PyTorch in the same run, which share
# of the copy bandwidth they reach, whether modelled traffic is what counters see, and how long a user waits. A benchmark, not a
# test: it prints and judges nothing. Six minutes at most; needs no compiler.
#
#   FB_BUILD   folder of prebuilt binaries: fusebox and, for the workbench's rows, bench_terminal (there or in tests/bench)
#   FB_SRCDIR  the sources (default: this script's)          PYTHON    with PyTorch in it (default python3)
#   DEVICE     default cuda:0                                OUT       a folder for everything measured, as JSON
#   BENCH_ONLY   some of "puzzler copy start toggle families sizes"; all but the last two when empty
#   BENCH_SIZES  for "sizes": a file of rows (default: sizes.txt beside this script, which says how one is written)
#   BENCH_CASES  … and names of those to measure; all when empty
#   BENCH_ROWS, BENCH_COLUMNS, BENCH_PUZZLER, BENCH_SECONDS   sizes and patience, for a try on a small machine
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
FB_SRCDIR=${FB_SRCDIR:-$here/../..}
FUSEBOX=$(cd "${FB_BUILD:?a folder with fusebox in it}" && pwd)/fusebox || exit 1
PYTHON=${PYTHON:-python3}
device=${DEVICE:-cuda:0}
rows=${BENCH_ROWS:-16384}
columns=${BENCH_COLUMNS:-1024 4096 16384}
puzzler=${BENCH_PUZZLER:-}
work=$(mktemp -d) || exit 1
out=${OUT:-$work/out}
mkdir -p "$out" "$work/cache" "$work/state"
trap 'rm -rf "$work"' EXIT
LC_ALL=C.UTF-8 XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state
export FUSEBOX LC_ALL XDG_CACHE_HOME XDG_STATE_HOME
torch="$PYTHON $FB_SRCDIR/scripts/workers/torch_worker.py"
models=$FB_SRCDIR/scripts/models
"$PYTHON" -c 'import torch' 2>/dev/null || { torch= && echo "$PYTHON has no PyTorch: its columns are left out"; }
end=$(($(date +%s) + ${BENCH_SECONDS:-340}))

wanted() {
    case " ${BENCH_ONLY:-$1} " in *" $1 "*) ;; *) return 1 ;; esac
    [ "$(date +%s)" -lt "$end" ] || { echo "  ($1: no time is left)"; return 1; }
}

# Runs a command with the time that is left.
limited() {
    left=$((end - $(date +%s)))
    [ $left -gt 0 ] || { echo "  (no time is left)"; return 124; }
    timeout -k 5 $left "$@"
}

# measure NAME SCRIPT ARGUMENT…: `fusebox run` to $out/NAME.json, PyTorch's columns only where there is PyTorch.
measure() {
    name=$1
    shift
    n=$#
    while [ $n -gt 0 ]; do
        case $1 in *@torch) [ -z "$torch" ] || set -- "$@" "$1" ;; *) set -- "$@" "$1" ;; esac
        shift
        n=$((n - 1))
    done
    echo "fusebox run $*" | sed "s|$FB_SRCDIR/||g; s|$work/||g" | tee "$out/$name.command"
    limited "$FUSEBOX" run "$@" ${torch:+--worker "$torch"} --device "$device" --format json >"$out/$name.json" 2>"$work/err"
    status=$?
    [ $status = 0 ] || echo "  (exit status $status: $(tail -n 2 "$work/err" | tr '\n' ' '))"
}

# The graph of a script as $work/NAME.graph, for talking to a worker directly.
graph() {
    name=$1
    shift
    "$FUSEBOX" graph "$@" --device "$device" --format json >"$work/$name.graph" 2>"$work/err" || { cat "$work/err"; return 1; }
}

# direct NAME RESULT ARGUMENT…: a worker of its own prepares and samples $work/NAME.graph.
direct() {
    name=$1 result=$2
    shift 2
    limited "$PYTHON" "$here/bench_gpu.py" worker "$work/$name.graph" "$device" "$out/$result.json" "$@"
}

# Large references take a minute each, and a cache keeps 4 GiB of them: so a cache a case, filled before anything is timed.
in_cache_of() {
    (
        XDG_CACHE_HOME=$work/cache-$1
        shift
        mkdir -p "$XDG_CACHE_HOME"
        [ -e "$XDG_CACHE_HOME/fusebox" ] || cp -r "$work/cache/fusebox" "$XDG_CACHE_HOME/"
        "$@"
    )
}

"$FUSEBOX" --version
limited "$FUSEBOX" devices --recalibrate --device "$device" --format json >"$out/devices.json" || exit 3

if wanted copy; then
    cases=
    graph "add_mul_relu" "$models/add_mul_relu.lua" --set rows="$rows" --set columns=4096 && cases=add_mul_relu
    for n in $columns; do
        for script in layer_norm softmax; do
            graph "$script-$n" "$models/$script.lua" --set rows="$rows" --set columns="$n" && cases="$cases $script-$n"
        done
    done
    for name in $cases; do
        in_cache_of "$name" direct "$name" "prepared-$name" --samples 0 &
    done
    wait
fi

if wanted puzzler; then
    (cd "$work" && "$FUSEBOX" new puzzler.lua --from split_stack >/dev/null) &&
        sed -i 's/^  plans = {/&\n    max_graph = function(pl) pl:preset("max"):launch("graph") end,/' "$work/puzzler.lua"
    # shellcheck disable=SC2086
    measure puzzler "$work/puzzler.lua" max max_graph eager eager@torch compile@torch eager+graph@torch compile+graph@torch $puzzler
fi

if wanted start; then
    # shellcheck disable=SC2086
    graph start split_stack split_stack:none $puzzler &&
        direct start start --fresh "$work/cache-start" --rounds 6
fi

if wanted toggle; then
    for b in "$FB_BUILD/bench_terminal" "$FB_BUILD/tests/bench/bench_terminal" ""; do [ -x "$b" ] && break; done
    if [ -n "$b" ]; then
        DEVICE=$device limited "$b" split_stack >"$out/toggle.txt" 2>&1 || echo "  (the workbench: exit status $?)"
    else
        echo "  (the workbench is not measured: $FB_BUILD has no bench_terminal)"
    fi
fi

if wanted copy; then
    for name in $cases; do
        n=${name##*-}
        [ "$n" != "$name" ] || n=4096
        in_cache_of "$name" direct "$name" "counters-$name" --samples 0 --counters
        in_cache_of "$name" measure "$name" "$models/${name%-*}.lua" max eager@torch compile@torch --set rows="$rows" --set columns="$n"
        rm -rf "$work/cache-$name"
    done
fi

# What the families are measured by, each beside PyTorch: products, chains, loops.
if wanted families && [ -n "${BENCH_ONLY:-}" ]; then
    family() {
        name=$1 script=$2
        shift 2
        in_cache_of "$name" measure "family-$name" "$models/$script.lua" "$@"
        rm -rf "$work/cache-$name"
    }
    peers="eager@torch compile@torch compile+graph@torch"
    # shellcheck disable=SC2086
    {
        family lora lora_mlp lora:eager lora:max lora:best lora:compile@torch lora:max-autotune@torch \
            --set batch=4096 --set inputs=4096 --set outputs=4096 --set rank=16 --set dtype=bf16
        family mlp_two_layer mlp_two_layer eager max best $peers max-autotune@torch --set rows=16384 --set dtype=bf16
        family attention attention eager max best $peers
        for n in 64 512; do
            family "lstm-16-$n" lstm cat:max cat:best hoisted:max hoisted:best cat:compile+graph@torch --set T=16 --set N=$n
        done
        family mlp_loop mlp_loop carried:max carried:graph carried:one_kernel assigned:one_kernel --set steps=1000
        family lstm_scan lstm_scan inputs_first:graph inputs_first:one_kernel scan:one_kernel --set T=2000
    }
fi

# Rows at real sizes, from a file, so that any other can be tried.
if wanted sizes && [ -n "${BENCH_ONLY:-}" ]; then
    grep -v '^ *\(#\|$\)' "${BENCH_SIZES:-$here/sizes.txt}" | while read -r name script columns settings; do
        case " ${BENCH_CASES:-$name} " in *" $name "*) ;; *) continue ;; esac
        case $script in
        /*) ;;
        */*) script=$FB_SRCDIR/$script ;;
        *) script=$models/$script.lua ;;
        esac
        set --
        for s in $settings; do set -- "$@" --set "$s"; done
        # shellcheck disable=SC2046
        in_cache_of "$name" measure "family-$name" "$script" $(echo "$columns" | tr , ' ') "$@" </dev/null
        rm -rf "$work/cache-$name"
    done
fi

echo
"$PYTHON" "$here/bench_gpu.py" tables "$out" "$device"
