#!/bin/sh
# The nth read, write, rename, mapping, opening, allocation, fork or pipe of a command fails (fault.c, preloaded), for n up to
# where the command needs no more of them. Whatever n: it ends by itself and in time, with a status of its own and no more than
# a line or two of its own words; and the next start, without a fault, gives what it would have given.
#
# Here a sample, chosen anew with each commit (FB_SEED); FB_FULL=1: every n up to 5,000, and sampled beyond.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

# No library of a sanitizer's own goes before another one.
if sanitized; then
    echo "1..0 # SKIP a sanitizer comes first"
    exit 0
fi
if ! cc -shared -fPIC -O1 -o fault.so "$FB_SRCDIR/tests/cli/fault.c" -ldl 2>err; then
    report not-ok "the faults are built"
    done_testing
    exit 0
fi
seed=${FB_SEED:-$(cd "$FB_SRCDIR" && git rev-parse HEAD 2>/dev/null | cksum | cut -d' ' -f1)}
seed=$((${seed:-1} % 1000003))

printf 'return function(g) return g:input("x", { 64, 8 }):tanh():sum(-1):relu() end\n' >f.lua
cp f.lua own.lua
fb run f.lua none --device host --format json
is "without a fault" 0
fb eject f.lua none own.c --kernel tanh --device host
cp -r "$XDG_CACHE_HOME" warm

# faulty KIND N COMMAND…: with a call of that kind failing after N that go well; calls: how many there were, met: it came to it
faulty() {
    kind=$1 after=$2
    shift 2
    head -c 8 /dev/zero >calls
    FAULT=$kind FAULT_AT=$after FAULT_FILE=$work/calls LD_PRELOAD=$work/fault.so timeout 60 "$FUSEBOX" "$@" >out 2>err </dev/null
    status=$?
    calls=$(od -An -td8 calls | tr -d ' \n')
    [ "$calls" -gt "$after" ] && met=1 || met=0
}

# What is wrong with how it ended; nothing: it is well.
complaint() {
    case $status in
    0 | 1 | 2 | 3) ;;
    124) echo "it never ends" ;;
    *) [ "$kind" = alloc ] && grep -q '^fusebox: .*out of memory' err || echo "status $status" ;;
    esac
    [ "$status" = 0 ] || [ -s err ] || echo "it fails without a word"
    [ "$(wc -l <err)" -le 3 ] || echo "$(wc -l <err) lines of errors"
    # what a script's line is shown by, what a library says that cannot go on without memory, and the shell of its end
    grep -Ev '^fusebox: |^ *[0-9]* \|' err | grep -Ev 'libgomp: Out of memory|OpenBLAS|^Aborted$' | head -1
}

# The next start: the same command in the same places, compared with what it gave at first.
same_again() {
    timeout 60 "$FUSEBOX" "$@" >again 2>err </dev/null
    status=$?
    [ "$status" = "$expected" ] || echo "the next start has status $status: $(head -1 err)"
    case $1 in
    run) grep -q '"ok": true' again || echo "the next start finds no right answer" ;;
    devices) ;; # what it measures is never twice the same
    *) cmp -s again good || echo "the next start gives something else" ;;
    esac
}

# one KIND N COMMAND…: false when there was no such call any more
one() {
    nth=$2
    rm -rf "$XDG_CACHE_HOME" r.jsonl
    cp -r warm "$XDG_CACHE_HOME"
    rm -rf "$XDG_CACHE_HOME/fusebox/reference"
    faulty "$@"
    [ "$met" = 1 ] || return 1
    shift 2
    why=$(complaint)
    cp err first
    why=$why$(same_again "$@")
    [ -z "$why" ] || { echo "$kind $nth: $why" >>bad && sed 's/^/    /' first >>bad; }
    done_n=$((done_n + 1))
}

# all KIND SAMPLES COMMAND…
all() {
    kind=$1 samples=$2
    shift 2
    faulty "$kind" 1000000000 "$@"
    all_calls=$calls n=0
    if [ -n "${FB_FULL:-}" ]; then
        while [ $n -lt 5000 ] && one "$kind" $n "$@"; do n=$((n + 1)); done
        samples=40
    fi
    # the others, or the sample: spread evenly, begun at a place of this commit
    i=0
    while [ $i -lt "$samples" ] && [ "$all_calls" -gt $n ]; do
        step=$(((all_calls - n + samples - 1) / samples))
        at=$((n + i * step + seed % step))
        [ $at -ge "$all_calls" ] || one "$kind" $at "$@" || true
        i=$((i + 1))
    done
}

# survives NAME KINDS SAMPLES STATUS COMMAND…
survives() {
    name=$1 kinds=$2 samples=$3 expected=$4
    shift 4
    rm -f bad
    done_n=0
    rm -rf "$XDG_CACHE_HOME"
    cp -r warm "$XDG_CACHE_HOME"
    timeout 60 "$FUSEBOX" "$@" >good 2>/dev/null </dev/null
    for one_kind in $kinds; do all "$one_kind" "$samples" "$@"; done
    [ $done_n -gt 0 ] || echo "no fault was met" >>bad
    if [ -f bad ]; then cp bad err; else : >err; fi
    : >out
    if [ -f bad ]; then report not-ok "$name"; else report ok "$name ($done_n faults)"; fi
}

files="read write open" once=1
more="map alloc"
[ -z "${FB_FULL:-}" ] || more="map fork pipe alloc" once=3
survives "graph" "$files $more" $once 0 graph f.lua max --device host
survives "run, with its results file" "$files rename map fork pipe" $once 0 run f.lua none --device host --format json --retry --out r.jsonl
survives "a kernel that is agreed to" "write open" $once 0 run f.lua own.json --device host --format json --trust
if [ -n "${FB_FULL:-}" ]; then
    survives "run, memory" alloc 40 0 run f.lua none --device host --format json --retry --out r.jsonl
    survives "explain" "$files $more" 2 0 explain f.lua none --device host
    survives "explain's steps" "$files $more" 2 0 explain f.lua max --steps --device host
    survives "emit" "$files $more" 2 0 emit f.lua max --target c --device host
    survives "check" "$files $more rename" 2 0 check f.lua none --device host
    survives "values" "$files $more rename" 2 0 values f.lua none tanh --device host
    survives "the list" "$files $more" 2 0
    survives "devices" "$files $more" 2 0 devices --list
    survives "a recording" "$files $more" 2 0 graph split_stack combined:max --device replay:h200
    survives "record's list" "$files $more" 2 2 record --list --out rec.json.gz --device host f.lua
fi
done_testing
