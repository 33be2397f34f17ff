#!/bin/sh
# Streams that fail: stdout closed, a reader that goes away, a full disk, two runs with one results file, signals.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

printf 'return function(g)\n  return g:input("x", {4, 6}):relu()\nend\n' >plain.lua

"$FUSEBOX" graph plain.lua >&- 2>err </dev/null
status=$?
: >out
is "stdout closed" 1 err1 '^fusebox: cannot write to standard output: '
"$FUSEBOX" --help >&- 2>err </dev/null
status=$?
is "stdout closed for --help" 1 err1 'cannot write to standard output'
"$FUSEBOX" graph plain.lua >/dev/full 2>err </dev/null
status=$?
is "stdout full" 1 err1 'cannot write to standard output: No space left on device'
mkfifo gone
for command in "graph plain.lua" "run plain.lua none --format json" "emit plain.lua max" "--help"; do
    # Opened for both, written to by one, read by nobody once the other is closed.
    # shellcheck disable=SC2094
    exec 8<>gone 9>gone
    exec 8>&-
    # shellcheck disable=SC2086  # the command's words
    "$FUSEBOX" $command >&9 2>err </dev/null
    status=$?
    exec 9>&-
    : >out
    is "a reader that went away: $command" 141
    holds "which needs no word" test ! -s err
done
"$FUSEBOX" run plain.lua none --format json >out 2>err <&-
status=$?
is "stdin closed" 0
json "the report is whole" out columns#1
"$FUSEBOX" run plain.lua none 2>&- >out </dev/null
status=$?
: >err
is "stderr closed" 0 out 'none@host'

fb run plain.lua none --out /dev/full
is "a full disk for --out" 1 err '/dev/full: No space left on device' out 'none@host'
fb run plain.lua none --out no/folder.jsonl
is "a results file in a missing folder" 1 err1 'no/folder.jsonl: No such file or directory'
(
    ulimit -f 1
    "$FUSEBOX" run plain.lua none max eager --out limited.jsonl >out 2>err </dev/null
    echo $? >status
)
status=$(cat status)
is "a disk that fills up while rows are written" 1 err 'limited.jsonl: '
json "leaves whole rows" -l limited.jsonl
fb run plain.lua none max eager --out limited.jsonl
is "with which the next run goes on" 0
holds "to the end" test "$(grep -c wall_us limited.jsonl)" = 3

# until COMMAND…: waits for it to succeed, five minutes at most
until_true() {
    tries=0
    until "$@" || [ $tries -ge 3000 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

(
    flock 9
    : >taken
    until_true test -e released
) 9>>held.jsonl &
until_true test -e taken
fb run plain.lua none --out held.jsonl
is "a results file that another run writes to" 3 err1 'held.jsonl: another run is writing to it'
: >released
wait

# One that has not ended by itself before: its compiler never does.
printf '#!/bin/sh\n[ "$1" = --version ] && exec cc --version\nexec sleep 1000\n' >endless
chmod +x endless
CC=$work/endless XDG_CACHE_HOME=$work/fresh "$FUSEBOX" run split_stack max >out 2>err </dev/null &
pid=$!
# The script's process and the worker, at least.
has_children() {
    children=$(grep -l "^PPid:[[:blank:]]*$pid\$" /proc/[0-9]*/status 2>/dev/null | sed "s,/proc/\([0-9]*\)/.*,\1,")
    [ "$(echo "$children" | wc -w)" -ge 2 ]
}
until_true has_children
kill -TERM $pid
wait $pid
status=$?
is "SIGTERM ends a run" 143
all_are_gone() {
    left=
    for child in $children; do kill -0 "$child" 2>/dev/null && left="$left $child"; done
    [ -z "$left" ]
}
until_true all_are_gone
holds "and leaves no process behind" test -n "$children" -a -z "$left"
done_testing
