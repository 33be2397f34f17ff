#!/bin/sh
# Everything that only a GPU can tell: `make check-gpu`. Runs on a machine that has the prebuilt programs alone. Exit status 77
# without a GPU, 1 when a test failed.
#
#   FB_BUILD    folder with fusebox and the programs of this folder   FB_SRCDIR   the sources (default: this script's)
#   PARTS       some of "plans traffic faults trace sanitize"; all when empty
here=$(cd "$(dirname "$0")" && pwd) || exit 1
FB_SRCDIR=${FB_SRCDIR:-$here/../..}
FB_BUILD=$(cd "${FB_BUILD:-.}" && pwd) || exit 1
export FB_SRCDIR FB_BUILD
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
FB_TEST_CACHE=${FB_TEST_CACHE:-}
[ -n "$FB_TEST_CACHE" ] || { FB_TEST_CACHE=$work/cache && mkdir -p "$FB_TEST_CACHE"; }
result=77

# part NAME COMMAND…: passed on as it comes; a failure stays one, and one part that ran makes the whole no skip
part() {
    name=$1
    shift
    case " ${PARTS:-$name} " in *" $name "*) ;; *) return ;; esac
    echo "# ---- $name"
    "$@" >"$work/log" 2>&1
    status=$?
    cat "$work/log"
    grep -q '^not ok' "$work/log" && status=1
    case $status in
    0) [ $result = 1 ] || result=0 ;;
    77) ;;
    *) result=1 && echo "# $name failed with status $status" ;;
    esac
}

part plans env XDG_CACHE_HOME="$FB_TEST_CACHE" sh "$here/side_by_side.sh" "$FB_BUILD/check_gpu"
part traffic env XDG_CACHE_HOME="$FB_TEST_CACHE" "$FB_BUILD/check_gpu" --traffic
part faults env FB_TEST_CACHE= sh "$here/faults.sh"
part trace env FB_TEST_CACHE= sh "$here/trace.sh"
part sanitize env FB_TEST_CACHE="$FB_TEST_CACHE" sh "$here/sanitize.sh"
exit $result
