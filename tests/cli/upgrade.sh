#!/bin/sh
# Another version's state: what it left is read, or refused in a sentence, and never destroyed. tests/data/state holds what
# an earlier version writes (less in each row) and a later one (more in it); never change it to suit a new format, add to it.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fixture=$(cd / && cd "${FB_SRCDIR:-.}" && pwd)/tests/data/state
make_chain ""
mkdir -p "$XDG_STATE_HOME/fusebox"
cp "$fixture"/history.jsonl "$fixture"/progress.jsonl "$fixture"/trusted "$XDG_STATE_HOME/fusebox/"
cp "$fixture"/rows.jsonl "$fixture"/plan.json .
chmod -R u+rw . && chmod 600 "$XDG_STATE_HOME/fusebox/"*
state=$XDG_STATE_HOME/fusebox

# Its first bytes are those of the fixture of that name: lines may only be added.
goes_on() { head -c "$(wc -c <"$fixture/${1##*/}")" "$1" | cmp -s - "$fixture/${1##*/}"; }
rows_of() { grep -c '"wall_us"' "$1"; }

# ---- results and history ----

fb rows.jsonl
is "rows of another version are shown" 0 out 'short:none@host' out 'short:pair@host'
fb "$state/history.jsonl"
is "so is its history" 0 out 'short:none@host' out 'short:pair@host'
fb run chain.lua short:none short:pair --device host --out rows.jsonl
is "a run goes on from them" 0
holds "without losing one" goes_on rows.jsonl
fb run chain.lua long:none --device host --out rows.jsonl
is "and adds what is missing" 0
holds "behind them" goes_on rows.jsonl
holds "once" test "$(rows_of rows.jsonl)" -ge 3
printf '{"rows_of_a_later_version":[]}\n' >>rows.jsonl
cp rows.jsonl before
fb run chain.lua long:pair --device host --out rows.jsonl
is "a line that makes no sense here is refused by its number" 1 err1 'rows.jsonl:[0-9]+: not a row of results'
holds "and left as it is" cmp rows.jsonl before

# ---- plans ----

fb run chain.lua short:plan.json --device host
is "a plan that was made for another graph is made out by its names" 0 out 'plan.json@host +'
sed 's/"fusebox_plan": 1/"fusebox_plan": 2/' "$fixture/plan.json" >later.json
cp later.json before
fb run chain.lua short:later.json --device host
is "a later format is refused" 1 err1 'later.json: a plan of format 2, but this fusebox reads format 1'
holds "and the file left as it is" cmp later.json before
holds "as are all" cmp plan.json "$fixture/plan.json"

# ---- recordings ----

printf '{"fusebox_recording":2,\n"machine":{},\n"plans":{}}\n' >"$FUSEBOX_RECORDINGS/later.json"
cp "$FUSEBOX_RECORDINGS/later.json" before
fb run chain.lua short:none --device replay:later
is "a recording of a later format is refused" 3 err1 'a recording of format 2, but this fusebox reads format 1'
fb record chain.lua --device host --only plans --for 1 --out "$FUSEBOX_RECORDINGS/later.json"
is "and not gone on with" 1 err1 'format 2'
holds "and left as it is" cmp "$FUSEBOX_RECORDINGS/later.json" before

# ---- what was agreed to, what was answered ----

fb eject chain.lua short:none k.c --kernel 1 --device host
fb run --trust chain.lua short:k.json --device host
is "one more kernel is agreed to" 0 out '✓'
holds "behind those that were" goes_on "$state/trusted"
holds "and remembered" grep -q "  $PWD/k.c\$" "$state/trusted"
holds "answers are kept" cmp "$state/progress.jsonl" "$fixture/progress.jsonl"
holds "and history" goes_on "$state/history.jsonl"

# ---- caches ----

cached() { find "$XDG_CACHE_HOME/fusebox/" -name "*$1*" -type f; }
holds "references are kept" test -n "$(cached .fbref)"
for f in $(cached .fbref); do printf 'fbref00' | dd of="$f" bs=1 conv=notrunc 2>/dev/null; done
mkdir -p "$XDG_CACHE_HOME/fusebox/of_a_later_version"
echo mine >"$XDG_CACHE_HOME/fusebox/of_a_later_version/notes"
echo mine >"$XDG_CACHE_HOME/fusebox/reference/notes.txt"
fb check chain.lua short:none
is "those of another format are made again" 0 out '^✓'
fb check chain.lua short:none
is "and serve" 0 out '^✓'
holds "what fusebox has not made stays" grep -q mine "$XDG_CACHE_HOME/fusebox/of_a_later_version/notes" \
    "$XDG_CACHE_HOME/fusebox/reference/notes.txt"

done_testing
