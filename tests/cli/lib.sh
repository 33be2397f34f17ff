# shellcheck shell=sh disable=SC2034  # what a test that sources this uses
# A small TAP library for tests of the command line. Source it, then:
#
#     fb run split_stack max                      runs $FUSEBOX; its output goes to files, its status to $status
#     is "what is tested" STATUS [CHECK REGEX]…   one test: the status, and each check an extended regex on
#                                                 out, err, or err1 (standard error is one line that matches); no: nothing in out
#     done_testing
#
# Files and caches live in a folder of the test's own, which is also the working directory.

FUSEBOX=${FUSEBOX:-fusebox}
JSON_CHECK=${JSON_CHECK:-$(dirname "$FUSEBOX")/tests/cli/json_check}
CHECKED=${CHECKED:-$(dirname "$JSON_CHECK")/checked}
work=$(mktemp -d) || exit 99
trap 'cd /; rm -rf "$work"' EXIT
cd "$work" || exit 99
XDG_CACHE_HOME=${FB_TEST_CACHE:-$work/cache} XDG_STATE_HOME=$work/state HOME=$work LC_ALL=C.UTF-8
export XDG_CACHE_HOME XDG_STATE_HOME HOME LC_ALL
mkdir -p "$XDG_CACHE_HOME"
# Kernels that another test of this run has compiled: devices name them by all that they depend on.
if [ -n "${FB_TEST_COMPILED:-}" ] && [ -z "${FB_TEST_CACHE:-}" ]; then
    mkdir -p "$XDG_CACHE_HOME/fusebox" "$FB_TEST_COMPILED/host" "$FB_TEST_COMPILED/cuda"
    ln -s "$FB_TEST_COMPILED/host" "$FB_TEST_COMPILED/cuda" "$XDG_CACHE_HOME/fusebox/"
fi
unset NO_COLOR
tests=0

# Small enough that a test is compiling more than running.
small="--set batch_size=64 --set input_dim=32 --set num_inputs=4"

# Whether fusebox watches its own memory. Looked up once: it is some twenty megabytes.
watched=
sanitized() {
    [ -n "$watched" ] || { grep -q __asan_init "$FUSEBOX" && watched=yes || watched=no; }
    [ $watched = yes ]
}

# once WHY: a test that runs nothing of ours that could show a sanitizer more than nothing need not be run under one.
once() {
    sanitized || return 0
    echo "1..0 # SKIP sanitizers see nothing of it: $1"
    exit 0
}

# our_round NUMBER: of a third of a third, another one when all have had their turn.
our_round() {
    [ -z "${FB_TURN:-}" ] || [ -n "${FB_FULL:-}" ] || [ $((($1 + FB_TURN / 3) % 3)) -eq 0 ]
}

# our_turn NUMBER: whether this part of a sweep is to be run. FB_TURN says which third, and three numbers in a row are the
# whole; without it, or with FB_FULL, all are (unit/turn.h is the same for programs).
our_turn() {
    if [ -z "${FB_TURN:-}" ] || [ -n "${FB_FULL:-}" ]; then return 0; fi
    [ $((($1 + FB_TURN) % 3)) -eq 0 ] || return 1
    # Sanitizers look at what all parts have in common: for them a third of that third.
    ! sanitized || our_round $(($1 / 3))
}

fb() {
    timeout 300 "$FUSEBOX" "$@" >out 2>err </dev/null
    status=$?
}

report() { # ok|not-ok NAME
    tests=$((tests + 1))
    if [ "$1" = ok ]; then
        echo "ok $tests - $2"
    else
        echo "not ok $tests - $2"
        sed 's/^/# err: /' err | head -20
        sed 's/^/# out: /' out | head -20
    fi
}

is() {
    name=$1 wanted=$2
    shift 2
    why=
    [ "$status" = "$wanted" ] || why="status $status instead of $wanted"
    while [ $# -gt 1 ]; do
        case $1 in
        out) grep -Eq -e "$2" out || why="$why; nothing on stdout matches $2" ;;
        no) ! grep -Eq -e "$2" out || why="$why; something on stdout matches $2" ;;
        err) grep -Eq -e "$2" err || why="$why; nothing on stderr matches $2" ;;
        err1)
            grep -Eq -e "$2" err || why="$why; nothing on stderr matches $2"
            # on a busy machine fusebox says that it waits
            [ "$(grep -vc 'still waiting for a worker to answer' err)" = 1 ] || why="$why; stderr is not one line"
            ;;
        *) why="$why; bad check $1" ;;
        esac
        shift 2
    done
    if [ -z "$why" ]; then
        report ok "$name"
    else
        report not-ok "$name ($why)"
    fi
}

# json NAME FILE PATH=VALUE…   the file is one JSON value, and holds these; PATH alone: is there, !PATH: is not
json() {
    name=$1 file=$2
    shift 2
    if why=$("$JSON_CHECK" "$file" "$@" 2>&1); then report ok "$name"; else report not-ok "$name ($why)"; fi
}

# edit_checked FILE SED_ARGUMENT…   changes what a file with a checksum holds, and its checksum
edit_checked() {
    edited=$1
    shift
    "$CHECKED" -r "$edited" >edit_checked.text && sed "$@" edit_checked.text | "$CHECKED" -w "$edited"
}

# calibrated: the host as another test of this run has measured it, which takes all cores for seconds; the first one does.
calibrated() {
    [ -n "${FB_TEST_COMPILED:-}" ] || return 0
    measured=$FB_TEST_COMPILED/calibrated own=$XDG_CACHE_HOME/fusebox/machines
    if [ -d "$measured" ]; then
        mkdir -p "$own" && cp "$measured"/*.json "$own"
    else
        "$FUSEBOX" devices --device host >/dev/null 2>&1 </dev/null
        cp -r "$own" "$measured.$$"
        mv -T "$measured.$$" "$measured" 2>/dev/null || rm -rf "$measured.$$" # another one was there first
    fi
}

# make_chain [FIELDS]   recordings of this test alone, of the script chain.lua in the working directory; FIELDS: more of the script
make_chain() {
    FUSEBOX_RECORDINGS=$work/recordings
    export FUSEBOX_RECORDINGS
    mkdir "$FUSEBOX_RECORDINGS"
    cat >chain.lua <<LUA
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 64 } },
  variants = {
    short = function(g, p) return g:input("x", { p.n, 8 }):tanh():exp():relu() end,
    long = function(g, p) return g:input("x", { p.n, 8 }):tanh():exp():relu():sqrt():neg() end,
  },
  plans = { pair = function(pl) pl:fuse("tanh", "exp") end },${1:+
$1}
}
LUA
}

# true NAME COMMAND…
holds() {
    name=$1
    shift
    if "$@" >/dev/null 2>&1; then report ok "$name"; else report not-ok "$name"; fi
}

done_testing() {
    echo "1..$tests"
}
