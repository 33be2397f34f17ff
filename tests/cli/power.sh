#!/bin/sh
# The power goes at any write. What a command does to its cache, results, agreements, recordings and state is written down
# (trace.c, preloaded), and played back up to a place (power.c): once as if all of it had reached the disk, half of the last
# write too, once as if only what was synced had. From there the next start is right, and what stood there before still does.
#
# Here some places, chosen anew with each commit (FB_SEED); FB_FULL=1: every place.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

if sanitized; then
    echo "1..0 # SKIP a sanitizer comes first"
    exit 0
fi
if ! { cc -shared -fPIC -O1 -o trace.so "$FB_SRCDIR/tests/cli/trace.c" -ldl && cc -O1 -o power "$FB_SRCDIR/tests/cli/power.c"; } 2>err; then
    report not-ok "the tools are built"
    done_testing
    exit 0
fi
seed=${FB_SEED:-$(cd "$FB_SRCDIR" && git rev-parse HEAD 2>/dev/null | cksum | cut -d' ' -f1)}
seed=$((${seed:-1} % 1000003))

# All that a command changes lies below one folder.
root=$work/live
XDG_CACHE_HOME=$root/cache XDG_STATE_HOME=$root/state XDG_DATA_HOME=$root/data TMPDIR=$root/tmp
export XDG_CACHE_HOME XDG_STATE_HOME XDG_DATA_HOME TMPDIR
mkdir -p "$XDG_CACHE_HOME" "$XDG_STATE_HOME" "$XDG_DATA_HOME" "$TMPDIR" "$root/w"
printf 'return function(g) return g:input("x", { 64, 8 }):tanh():sum(-1):relu() end\n' >f.lua
printf 'return function(g) return g:input("x", { 64, 8 }):exp():neg() end\n' >older.lua

# What stands there before: a row, an agreement, a recent file, a recording.
fb run older.lua none --device host --format json --out live/w/r.jsonl
is "there is a row" 0
fb eject older.lua none older.c --kernel exp --device host
fb run older.lua older.json --device host --trust
is "there is an agreement" 0
fb eject f.lua none own.c --kernel tanh --device host
calibrated
fb record --out live/w/rec.json.gz --device host --spread 1000 older.lua # disturbed or not
is "there is a recording" 0
rm -f live/cache/fusebox/host/* live/cache/fusebox/reference/*
first_row=$(head -1 live/w/r.jsonl)

agreed_before() { # the older kernel runs without being asked again
    fb run older.lua older.json --device host
    [ "$status" = 0 ] || echo "the older agreement is gone: $(head -1 err)"
}
recent_before() {
    grep -q 'older.lua$' live/state/fusebox/recent || echo "the recent file is gone"
}
rows_before() {
    [ "$(head -1 live/w/r.jsonl)" = "$first_row" ] || echo "the row before is gone"
    ! grep -v '^{.*}$' live/w/r.jsonl >/dev/null || echo "a row is broken"
}

# The next start of each command.
after_run() {
    fb run f.lua none --device host --format json --out live/w/r.jsonl
    [ "$status" = 0 ] || echo "status $status: $(head -1 err)"
    grep -q '"ok": true' out || echo "no right answer"
    rows_before
    [ "$(wc -l <live/w/r.jsonl)" = 2 ] || echo "$(wc -l <live/w/r.jsonl) rows"
    recent_before
}
after_trust() {
    fb run f.lua own.json --device host
    case $status in
    0) ;;
    *) grep -q -- --trust err || echo "neither agreed nor asked: $(head -1 err)" ;;
    esac
    fb run f.lua own.json --device host --trust
    [ "$status" = 0 ] || echo "status $status: $(head -1 err)"
    agreed_before
}
after_record() {
    fb record --list --out live/w/rec.json.gz --device host f.lua
    [ "$status" = 0 ] || echo "status $status: $(head -1 err)"
    gzip -cd live/w/rec.json.gz 2>err | grep -q 'exp' || echo "what was recorded is gone: $(head -1 err)"
}

# What stands above compilers may be putting away its folders just now; those that a cut left have nobody any more.
stale=none
settle() {
    for _ in $(seq 300); do
        find live -name 'fusebox-work-*' 2>/dev/null | grep -qvxF "$stale" || break
        sleep 0.2
    done
}

# cut NAME PLACES CHECK COMMAND…
cut() {
    name=$1 places=$2 check=$3
    shift 3
    rm -rf before bad
    settle
    cp -r live before
    : >trace
    FUSEBOX_CONFINE=no TRACE_ROOT=$root TRACE_FILE=$work/trace LD_PRELOAD=$work/trace.so timeout 300 "$FUSEBOX" "$@" >out 2>err </dev/null
    settle
    calls=$(./power trace)
    [ "$calls" -gt 0 ] || echo "nothing was written down" >>bad
    [ -z "${FB_FULL:-}" ] || places=$calls
    i=0 done_n=0
    while [ $i -lt "$places" ] && [ "$calls" -gt 0 ]; do
        step=$(((calls + places - 1) / places))
        at=$((1 + i * step + seed % step))
        for mode in whole lost; do
            # a sample takes them in turns
            [ -n "${FB_FULL:-}" ] || [ $(((i + seed) % 2)) = "$([ $mode = whole ] && echo 0 || echo 1)" ] || continue
            [ $at -le "$calls" ] || continue
            settle
            rm -rf live
            ./power trace $at $mode before live || echo "power: $?" >>bad
            stale="$stale
$(find live -name 'fusebox-work-*')"
            mkdir -p live/tmp live/w
            why=$($check)
            [ -z "$why" ] || echo "cut at $at of $calls, $mode: $why" >>bad
            done_n=$((done_n + 1))
        done
        i=$((i + 1))
    done
    settle
    rm -rf live
    cp -r before live
    : >out
    if [ -f bad ]; then cp bad err; else : >err; fi
    if [ -f bad ]; then report not-ok "$name"; else report ok "$name ($done_n cuts of $calls calls)"; fi
}

cut "a run with its results, references, kernels" 3 after_run run f.lua none --device host --format json --out live/w/r.jsonl
cut "a kernel that is agreed to" 1 after_trust run f.lua own.json --device host --trust
cut "a recording" 1 after_record record --out live/w/rec.json.gz --device host --spread 1000 f.lua
done_testing
