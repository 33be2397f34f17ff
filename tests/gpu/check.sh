#!/bin/sh
# Everything that only a GPU can tell: `make check-gpu`. Runs on a machine that has the prebuilt programs alone. Results are
# printed as they come. Exit status 77 without a GPU, 1 when a test failed, 2 when none failed and a part was not finished.
#
#   FB_BUILD    folder with fusebox and the programs of this folder   FB_SRCDIR   the sources (default: this script's)
#   PARTS       some of "plans traffic faults trace sanitize"; all when empty
#   LIMIT       seconds for each part; one that runs out of them says how far it came, and is not finished
#   SHARE       K/N: the K-th of every N shares of the plans and of the sanitizer's (1/3, 2/3, 3/3)
#   DONE        a file of what passed; what it names is not run again, so that several short runs make a whole one. It is for
#               one build: start another file after a change.
#   JOBS        processes at a time for the plans, half of the cores by default
here=$(cd "$(dirname "$0")" && pwd) || exit 1
FB_SRCDIR=${FB_SRCDIR:-$here/../..}
FB_BUILD=$(cd "${FB_BUILD:-.}" && pwd) || exit 1
export FB_SRCDIR FB_BUILD LIMIT SHARE DONE JOBS
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
FB_TEST_CACHE=${FB_TEST_CACHE:-}
[ -n "$FB_TEST_CACHE" ] || { FB_TEST_CACHE=$work/cache && mkdir -p "$FB_TEST_CACHE"; }
case ${DONE:-/} in /*) ;; *) DONE=$PWD/$DONE ;; esac
result=77

# Where nothing has failed yet, the result gets this much worse: 77, 0, 2, 1.
worsen() {
    case $1:$result in
    1:* | 2:0 | 2:77 | 0:77) result=$1 ;;
    esac
}

# part NAME COMMAND…: passed on as it comes; a failure stays one, and one part that ran makes the whole no skip
part() {
    name=$1
    shift
    case " ${PARTS:-$name} " in *" $name "*) ;; *) return ;; esac
    if [ -n "${DONE:-}" ] && grep -qsx "part $name" "$DONE"; then
        echo "# ---- $name: done before"
        worsen 0
        return
    fi
    echo "# ---- $name"
    whole=yes
    case $name in
    plans | sanitize) [ -z "${SHARE:-}" ] || whole= ;; # these limit themselves, and say more about how far they came
    *) [ -z "${LIMIT:-}" ] || set -- timeout -k 10 "$LIMIT" "$@" ;;
    esac
    {
        "$@" 2>&1
        echo $? >"$work/status"
    } | tee "$work/log"
    status=$(cat "$work/status")
    grep -q '^not ok' "$work/log" && status=1
    case $status in
    0)
        worsen 0
        [ -z "$whole" ] || [ -z "${DONE:-}" ] || echo "part $name" >>"$DONE"
        ;;
    77) ;;
    124 | 137)
        worsen 2
        echo "# $name was not finished: $(grep -c '^ok' "$work/log") tests passed${LIMIT:+ in $LIMIT s}"
        ;;
    *) worsen 1 && echo "# $name failed with status $status" ;;
    esac
}

part plans env XDG_CACHE_HOME="$FB_TEST_CACHE" sh "$here/side_by_side.sh" "$FB_BUILD/check_gpu" ${DONE:+--done "$DONE"}
part traffic env XDG_CACHE_HOME="$FB_TEST_CACHE" "$FB_BUILD/check_gpu" ${DONE:+--done "$DONE"} --traffic
part faults env FB_TEST_CACHE= sh "$here/faults.sh"
part trace env FB_TEST_CACHE= sh "$here/trace.sh"
part sanitize env FB_TEST_CACHE="$FB_TEST_CACHE" sh "$here/sanitize.sh"
exit $result
