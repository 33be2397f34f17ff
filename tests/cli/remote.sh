#!/bin/sh
# Workers that are commands: a local one stands in for ssh, srun and their like.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

# Looked at in the end: it takes its time.
timeout 120 "$FUSEBOX" devices --list --worker 'sleep 60' >slow.out 2>slow.err </dev/null &
slow=$!
export FUSEBOX

fb run split_stack combined:max $small --device host --worker 'sh -c "exec \"$FUSEBOX\" worker"' --format json
is "a command that starts a worker" 0
json "measures" out columns#1 columns.0.device=host columns.0.wall_us.median columns.0.error.ok=true
cat >noisy <<'END'
echo 'Welcome to the cluster!'
echo '*** maintenance on Sunday ***'
echo 'motd: 3 jobs' >&2
exec "$FUSEBOX" worker
END
fb run split_stack combined:max $small --device host --worker 'sh noisy'
is "a login that greets first" 0 out 'combined:max@host' no 'Welcome|maintenance'

# An ssh of the test's own: says what it was asked, and is the far side.
mkdir bin
cat >bin/ssh <<'END'
#!/bin/sh
echo "$*" >>"$XDG_CACHE_HOME/ssh.log"
while [ $# -gt 0 ]; do
    case $1 in
    -o) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
shift
exec sh -c "$*"
END
chmod +x bin/ssh
PATH=$PWD/bin:$PATH
fb run split_stack combined:max $small --device host --worker 'ssh -q gpubox "$FUSEBOX" worker'
is "ssh" 0 out 'combined:max@host'
holds "may not ask for a password" grep -Eq '^-o BatchMode=yes .*-q gpubox' "$XDG_CACHE_HOME/ssh.log"

# Devices of two machines: those of the worker given keep their names, the others get their machine's.
cat >far <<'END'
exec "$FUSEBOX" worker | sed -u 's/"host":"[^"]*"/"host":"gpubox"/'
END
here=$(uname -n)
fb devices --list --worker 'sh far'
is "devices of two machines" 0 out '^host: ' out "^$here:host: " out '^libraries of gpubox' out "^libraries of $here"
holds "a recording once" [ "$(grep -c '^[^ ]*replay:h200' out)" = 1 ]
fb run split_stack combined:max@host "combined:max@$here:host" combined:max@gpubox:host $small --worker 'sh far' --format json
is "plans on both" 0
json "each by its name" out columns#3 columns.0.device=host "columns.1.device=$here:host" columns.2.device=host \
    columns.1.wall_us.median columns.1.error.ok=true
fb run split_stack combined:max@nobox:host $small --worker 'sh far'
is "an unknown machine" 3 err1 "no device \"nobox:host\"; there are: host, .*$here:host"
fb devices --list --worker 'sh -c "exec \"$FUSEBOX\" worker"'
is "a second worker of one machine" 0 no "$here:host"
holds "has no devices of its own" [ "$(grep -c '^host: ' out)" = 1 ]

version='{"type":"hello","fusebox":7,"version":"9.9","host":"far","devices":[],"libraries":[]}'
printf 'read -r line\necho %s\nsleep 5\n' "'$version'" >newer
fb devices --list --worker 'sh newer'
is "another version, in words" 0 err1 'is fusebox 9\.9 and speaks protocol 7, this is .* speaks 1: install the same version on both'
holds "and our own devices are there" grep -q '^host' out
printf '%s\n' '{"type":"hello","fusebox":7,"version":"9.9"}' >greeting
timeout 300 "$FUSEBOX" worker <greeting >out 2>err
status=$?
is "and from the other side" 1 out 'speaks protocol 1, the front protocol 7: install the same version on both'

fb devices --list --worker 'no-such-command worker'
is "no such command" 0 err1 'cannot run no-such-command'
fb devices --list --worker 'sh -c "echo no route to host >&2; exit 255"'
is "one that fails at once: its last words" 0 err1 'exited with status 255: no route to host'
printf 'while :; do echo chatter; done\n' >chatter
fb devices --list --worker 'sh chatter'
is "one that speaks something else" 0 err1 "does not speak fusebox's protocol: chatter"
fb devices --list --worker "sh -c 'unclosed"
is "a quote that is not closed" 0 err1 'quote is not closed'

# The connection breaks when there is something to measure.
echo 'sed -u "/\"prepare\"/{s/.*/{\"type\":\"quit\"}/;q}" | "$FUSEBOX" worker' >breaks
fb run split_stack combined:max $small --device host --worker 'sh breaks'
is "one that goes away" 1 err 'combined:max.*: the worker .sh breaks. exited with status 0'
fb run split_stack combined:max $small --device host
is "and everything is well without it" 0 out 'combined:max@host'
for _ in $(seq 300); do
    grep -q waiting slow.err && break
    sleep 0.1
done
kill $slow
cp slow.err err
holds "a worker that does not answer is waited for, and that is said" grep -q '^fusebox: still waiting for a worker' slow.err
done_testing
