#!/bin/sh
# Files that are none, and folders that are not ours: a pipe never freezes anything, what others may write to is not used.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

mkfifo pipe pipe.json pipe.npy pipe.lua lib.lua
printf 'return function(g)\n  return g:input("x", {4, 6}):relu()\nend\n' >plain.lua

# Nothing here may wait for a writer: 300 s are plenty on a busy machine.
fb() {
    timeout 300 "$FUSEBOX" "$@" >out 2>err </dev/null
    status=$?
}

fb run pipe.lua none
is "a script that is a pipe" 1 err1 'pipe.lua: not a regular file'
printf 'local m = require "lib"\nreturn function(g)\n  return g:input("x", {4}):relu()\nend\n' >needs.lua
fb run needs.lua none
is "a library that is a pipe" 1 err 'not a regular file'
printf 'return function(g)\n  return g:load("x", "pipe.npy"):relu()\nend\n' >loads.lua
fb run loads.lua none
is "values that are a pipe" 1 err 'not a regular file'
fb run plain.lua pipe.json
is "a plan that is a pipe" 1 err 'pipe.json: not a regular file'
fb run plain.lua none --out pipe
is "a results file that is a pipe" 1 err1 'pipe: not a regular file'
holds "which stays one" test -p pipe
fb eject plain.lua none --kernel 1 relu.c --device host
rm relu.c; mkfifo relu.c
fb run plain.lua relu.json --trust
is "a kernel that is a pipe" 1 err 'relu.c: not a regular file'
mkdir -p "$XDG_STATE_HOME/fusebox" config/fusebox data/fusebox/recordings
rm -f "$XDG_STATE_HOME"/fusebox/*
mkfifo "$XDG_STATE_HOME/fusebox/trusted" "$XDG_STATE_HOME/fusebox/recent" "$XDG_STATE_HOME/fusebox/history.jsonl" \
    config/fusebox/config data/fusebox/recordings/own.json
export XDG_CONFIG_HOME="$work/config" XDG_DATA_HOME="$work/data"
fb run plain.lua none
is "state that is pipes" 0 out 'none@host.*✓'
fb run plain.lua none --device replay:own
is "a recording that is a pipe" 3 err 'own.json: not a regular file'
rm "$XDG_STATE_HOME"/fusebox/*

# What lies in the cache under our names and is something else is passed over, or removed; nothing waits for its end.
fb run plain.lua none
cached=$XDG_CACHE_HOME/fusebox
odd_run() { # NAME
    fb run plain.lua none
    is "$1" 0 out 'none@host.*✓'
}
mkdir -p "$cached/opening" "$cached/opening/folder"
truncate -s 100G "$cached/opening/77"
mkfifo "$cached/opening/78"
ln -s /dev/zero "$cached/opening/79"
odd_run "markers of what was being opened that are none"
# Links to a folder with other things: they are nothing to us, and it stays as it is.
mkdir -m 755 "$work/theirs"
printf 'dear\n' >"$work/theirs/letter"
printf 'dear\n' >"$work/theirs/1234"
: >"$work/theirs/old.1.0.tmp"
touch -d '2 days ago' "$work/theirs/old.1.0.tmp"
for name in opening reference locks host machines best; do
    mv "$cached/$name" "$cached/$name.aside" 2>/dev/null
    ln -s "$work/theirs" "$cached/$name"
    odd_run "$name leads elsewhere"
    rm "$cached/$name"
    mv "$cached/$name.aside" "$cached/$name" 2>/dev/null
done
holds "where everything is left" test -s theirs/letter -a -s theirs/1234 -a -e theirs/old.1.0.tmp
holds "and may be read by those who could" test "$(stat -c %a theirs)" = 755

# Half a reference, of a run that was killed; and one that is being written.
half=0123456789abcdef0123456789abcdef
: >"$cached/reference/$half.old.1.0.tmp"
touch -d '2 days ago' "$cached/reference/$half.old.1.0.tmp"
: >"$cached/reference/$half.new.1.0.tmp"
printf 'return function(g)\n  return g:input("x", {5, 6}):relu()\nend\n' >another.lua
fb run another.lua none
holds "what a killed run left is removed" test ! -e "$cached/reference/$half.old.1.0.tmp"
holds "what another may be writing is not" test -e "$cached/reference/$half.new.1.0.tmp"
for file in "$cached"/reference/*; do truncate -s 100G "$file"; done
odd_run "references of 100 GB"
for file in "$cached"/reference/*; do rm "$file" && ln -s /dev/zero "$file"; done
odd_run "references that are endless"
for file in "$cached"/reference/*; do rm "$file" && mkdir "$file" && : >"$file/x"; done
odd_run "references that are folders"
for file in "$cached"/locks/*; do rm "$file" && ln -s "$work/planted" "$file"; done
odd_run "locks that are links"
holds "which are not followed" test ! -e planted
rm -rf "$cached/locks" "$cached/opening" "$cached/reference"
mkfifo "$cached/locks" "$cached/opening" "$cached/reference"
odd_run "folders that are pipes"
rm -f "$cached/locks" "$cached/opening" "$cached/reference"

# A new folder is private whatever the umask; one that others may write to is passed over, and that is told.
(umask 000 && XDG_STATE_HOME=$work/new XDG_CACHE_HOME=$work/newcache timeout 300 "$FUSEBOX" run plain.lua none >out 2>err </dev/null)
holds "state is private" test "$(stat -c %a "$work/new/fusebox")" = 700
holds "and so is a cache" test "$(stat -c %a "$work/newcache/fusebox/host")" = 700
mkdir -p shared/fusebox/host
chmod 777 shared/fusebox/host
XDG_CACHE_HOME=$work/shared fb run plain.lua none
is "a cache that others may write to" 0 out 'none@host.*✓' err 'others may write to .*shared/fusebox/host.*without a cache'
holds "holds nothing of ours" test -z "$(ls shared/fusebox/host)"
if [ "$(id -u)" = 0 ]; then
    chmod 755 shared/fusebox/host
    chown -R 12345 shared
    XDG_CACHE_HOME=$work/shared fb run plain.lua none
    is "a cache of another user" 0 out 'none@host.*✓' err 'belongs to another user.*without a cache'
fi
chmod 777 "$XDG_STATE_HOME/fusebox"
fb run plain.lua none
is "state that others may write to" 0 err 'others may write to .*nothing is remembered'
chmod 700 "$XDG_STATE_HOME/fusebox"

# What one agrees to is one text: nothing else is read with it.
printf 'return function(g)\n  return g:input("x", {4, 6}):relu():neg()\nend\n' >m.lua
rm -f relu.c
fb eject m.lua max --kernel 1 own.c --device host
kernel=own.c
printf '1.0f' >factor.h
sed -i '1i #include "factor.h"' "$kernel"
fb run m.lua own.json --trust
is "a kernel that includes a file" 1 err "${kernel#./}:1: #include \"factor.h\".*system headers alone"
sed -i '1s/.*/#include <math.h>/' "$kernel"
fb run m.lua own.json --trust
is "a system header is fine" 0 out '✓'
sed -i '1s/.*/__asm__(".data\\n.incbin \\"factor.h\\"\\n.text");/' "$kernel"
fb run m.lua own.json --trust
is "a kernel whose assembly reads a file" 1 err '.incbin'
# Weights beside a graph in JSON are those that it names. Four floats: 1 2 3 4, then 1 2 3 5.
npy() { printf '\223NUMPY\1\0\74\0%-59s\n\0\0\200\77\0\0\0\100\0\0\100\100\0\0%b\100' \
    "{'descr': '<f4', 'fortran_order': False, 'shape': ($1), }" "$2"; }
npy 4, '\0200' >w.npy
printf 'return function(g)\n  return g:load("w", "w.npy"):relu()\nend\n' >loads.lua
fb graph loads.lua --format json
is "a graph with weights" 0
cp out loads.json
key=$(sed -n 's/.*"file": *"\([0-9a-f]*\)".*/\1/p' loads.json | head -1)
mkdir loads.weights
cp w.npy "loads.weights/$key.npy"
fb run loads.json none
is "its weights are found" 0 out 'none@host.*✓'
# By all that reads them, wherever it is called from.
mkdir away
for called in "from its folder" "by its whole path" "by a path"; do
    case $called in
    *folder) graph=loads.json ;;
    *whole*) cd away && graph=$work/loads.json ;;
    *) cd away && graph=../loads.json ;;
    esac
    fb export "$graph" max "$work/taken" --as c --device host
    if [ "$status" = 0 ]; then
        make -s -C "$work/taken" test >out 2>err
        status=$?
    fi
    is "a folder made of it has them in its test ($called)" 0 out '^ok: [1-9]'
    rm -rf "$work/taken"
    cd "$work" || exit 99
done
fb export loads.json none ops --as torch --device host
is "operators of PyTorch are written of it" 0
cd away || exit 99
calibrated
fb record ../loads.json --device host -o loads.json.gz --only plans --no-metrics --spread 1e6
is "a recording of it" 0 out ', 0 failed$'
fb values ../loads.json none relu
is "values of it" 0 out ' 4'
cd "$work" || exit 99
npy 4, '\0240' >"loads.weights/$key.npy"
fb run loads.json none
is "other values are refused" 1 err 'values, dtype or shape have changed'
npy '2, 2' '\0200' >"loads.weights/$key.npy"
fb run loads.json none
is "another shape is refused" 1 err 'values, dtype or shape have changed'
rm "loads.weights/$key.npy"
fb run loads.json none
is "missing ones are named" 1 err "loads.weights/$key.npy: No such file"
fb export loads.json none taken --as c --device host
is "so they are to an export" 1 err1 "loads.weights/$key.npy: No such file"
holds "which leaves nothing behind" test ! -e taken

# Whoever removes the cache when a command has ended finds it gone, though what started the compilers ends a little later.
export XDG_CACHE_HOME="$work/gone"
fb check plain.lua none
is "a run with a cache of its own" 0
rm -rf gone
sleep 1
find . -path './gone*' >err
: >out
if [ -s err ]; then report not-ok "which is not made again behind it"; else report ok "which is not made again behind it"; fi
done_testing
