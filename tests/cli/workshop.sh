#!/bin/sh
# A workshop and its seats on the command line: how a seat is spelt, what it may measure and what it may not. What a seat
# that means ill may do is in tests/unit/test_workshop.c.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

printf 'return function(g) return g:input("x", { 64, 8 }):tanh():sum(-1):relu() end\n' >f.lua
export FUSEBOX
unset XDG_RUNTIME_DIR

"$FUSEBOX" workshop --device host --socket "$work/socket" --limit windows=1 >workshop.out 2>workshop.err </dev/null &
workshop=$!
for _ in $(seq 3000); do
    grep -q '^host' workshop.out && break
    sleep 0.1
done
cp workshop.out out
status=0
: >err
is "a workshop says where it is and what it shares" 0 out "^workshop at $work/socket" out '^host: '

fb seat --at "$work/socket" run f.lua max --format json
is "a seat measures" 0
json "with a right result" out columns#1 columns.0.wall_us.median columns.0.error.ok=true columns.0.device=workshop:host
fb run f.lua max --device "workshop:$work/socket"
is "so does --device workshop:SOCKET" 0 out 'max@workshop:host'
fb run f.lua max@workshop:host none@workshop --device "workshop:$work/socket"
is "a column names the workshop, or a device of it" 0 out 'max@workshop:host' out 'none@workshop:host'
fb seat --at "$work/socket" graph f.lua
is "a seat is everything that fusebox is" 0 out 'tanh'
fb seat --at "$work/socket" f.lua
is "also without a command" 0 out 'max|eager'

# ssh's forced command: whatever the client asks for, it becomes a seat.
mkdir bin
cat >bin/ssh <<'END'
#!/bin/sh
echo "$*" >>"$XDG_CACHE_HOME/ssh.log"
exec "$FUSEBOX" seat --stdio --at "$SOCKET" $AS
END
chmod +x bin/ssh
SOCKET=$work/socket
export SOCKET
before=$PATH
PATH=$PWD/bin:$PATH
fb seat --at gpubox run f.lua max
is "a seat over ssh" 0 out 'max@workshop:host'
holds "which asks for one, without a password" grep -Eq '^-o BatchMode=yes .*gpubox fusebox seat --stdio' "$XDG_CACHE_HOME/ssh.log"
fb run f.lua max --worker 'ssh lecturer@gpubox sh -i' --device workshop
is "also as a worker" 0 out 'max@workshop:host'
answered() { # FILE: what a seat is told goes there
    for _ in $(seq 3000); do
        [ -s "$1" ] && break
        sleep 0.1
    done
}
# … and may say whom a key is for: what is counted of a seat is counted under that name, whoever has it open.
mkfifo eve
exec 4<>eve
"$FUSEBOX" seat --stdio --at "$work/socket" --as eve <eve >eve.out &
eve=$!
echo '{"type":"hello","fusebox":1,"version":"1"}' >&4
answered eve.out
export AS='--as eve'
fb seat --at gpubox run f.lua max
is "a name has so many seats" 3 err 'eve has as many seats of the workshop as one may have \(1\)'
export AS='--as adam'
fb seat --at gpubox run f.lua max
is "and another its own" 0 out 'max@workshop:host'
kill "$eve" 2>/dev/null
exec 4>&-
export AS=
PATH=$before

# What a seat may not have measured, whatever it agreed to.
fb eject f.lua max own.c --kernel 1 --device host
fb seat --at "$work/socket" run f.lua own.json --trust
is "kernels from files are refused by the workshop" 1 err 'no kernels from files; measure them on a device of your own'
fb run f.lua own.json@host --trust --device "workshop:$work/socket"
is "and run on a device of one's own" 0
fb seat --at "$work/socket" devices --recalibrate --device workshop:host
is "devices of a workshop are not calibrated from a seat" 0 err 'shared by a workshop: whoever runs that calibrates it' out '^workshop:host: ' out 'uncalibrated'
fb run f.lua max@cuda:0 --device "workshop:$work/socket"
is "only what is shared is there" 3 err1 'cuda:0'

fb workshop --device host --socket "$work/socket"
is "one workshop a socket" 3 err1 'a workshop is open at'
mkfifo line
exec 3<>line
"$FUSEBOX" seat --stdio --at "$work/socket" <line >seat.out 2>seat.err &
seat=$!
echo '{"type":"hello","fusebox":1,"version":"1"}' >&3
answered seat.out
kill -TERM "$workshop"
wait "$workshop"
status=$?
cp workshop.out out
cp workshop.err err
is "it ends with a count" 0 out '^[01] seats?, 0 requests waiting . [0-9]+ measured, [0-9]+ shared, [1-9][0-9]* refused, 0 lost'
holds "and takes its socket along" test ! -e "$work/socket"
for _ in $(seq 3000); do
    [ -s seat.err ] && break
    sleep 0.1
done
kill "$seat" 2>/dev/null
holds "its seats say so" grep -q 'the workshop has ended, or closed this seat' seat.err

fb run f.lua max --device "workshop:$work/socket"
is "no workshop: that is said" 3 err 'no device "workshop"'
fb seat --stdio --at "$work/socket"
is "by the seat too" 3 err1 "no workshop at $work/socket"
fb workshop --device nosuch --socket "$work/socket"
is "a device that is not there" 3 err1 'no device "nosuch" to share'
holds "leaves no socket" test ! -e "$work/socket"
printf 'x' >file
fb workshop --device host --socket "$work/file"
is "a file is not written over" 1 err1 'not a socket'
holds "nor removed" test "$(cat file)" = x

fb workshop --limit chairs=3
is "limits have names" 2 err1 'no limit "chairs"'
fb workshop --limit seats=0
is "and ends" 2 err1 'seats: a number from 1'
fb workshop --help
is "--help lists them" 0 out 'queued +64' out 'turn_s'
# each stands in the manual, with what it is
sed -nE 's/^  ([a-z_]+) +([0-9]+)  .*/| `\1` | \2 |/p' out >limits
while read -r limit; do grep -qF "$limit" "$FB_SRCDIR/docs/WORKSHOP.md" || echo "$limit"; done <limits >err
holds "and so does docs/WORKSHOP.md" test -s limits -a ! -s err
fb workshop --worker 'ssh elsewhere fusebox worker'
is "a workshop takes no workers of others" 2 err1 'takes no --worker, --trust or --set'
fb seat --at -oProxyCommand=x run f.lua max
is "a machine is no option" 2 err1 'neither the path of a socket nor a machine'
fb seat --as eve run f.lua max
is "a name goes with --stdio" 2 err1 '\-\-as goes with --stdio'
fb seat --stdio --as 'eve; rm'
is "and is a name" 2 err1 'letters, digits'
fb seat --stdio run
is "--stdio is all there is" 2 err1 'takes no words: "run"'

mkdir -p "$XDG_STATE_HOME/fusebox"
chmod 700 "$XDG_STATE_HOME/fusebox"
cat >"$XDG_STATE_HOME/fusebox/progress.jsonl" <<'END'
{"puzzle":"split_stack","chosen":"bytes","answer":"launches","right":false,"guess":3}
{"puzzle":"split_stack","chosen":"launches","answer":"launches","right":true,"guess":3}
{"puzzle":"flops","chosen":"a","answer":"b","right":false}
END
fb seat --scores --format csv
is "scores are printed, for whoever wants to hand them in" 0 out '^puzzle,state' out '^split_stack,solved' out '^flops,tried'
done_testing
