#!/bin/sh
# Disks that are full or may not be written to: whatever is missing is made where there is room, and a run is checked all
# the same. In a name space, where everybody may mount.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

cat >inside <<'END'
# inside CACHE_SIZE TMP_SIZE COMMAND…: a cache and a folder for temporary files of these sizes; commands before the run
mount --bind "$1" /mnt || exit 9
cd /mnt || exit 9
shift
mkdir -p small/fusebox && chmod 700 small small/fusebox
mount -t tmpfs -o "size=$1,mode=700" tmpfs small/fusebox || exit 9
mount -t tmpfs -o "size=$2,mode=1777" tmpfs /tmp || exit 9
shift 2
closed() { mount --bind small/fusebox small/fusebox && mount -o remount,ro,bind small/fusebox; }
export XDG_CACHE_HOME=/mnt/small XDG_STATE_HOME=/mnt/small
unset TMPDIR
"$@" || exit 9
timeout 300 ./fusebox run wide.lua none
status=$?
# One that was stopped before it wrote anything is left for a later run to remove.
find small/fusebox/reference -type f -size +0 >left 2>/dev/null
# What compiled may be ending just now.
for _ in $(seq 120); do
    find small/fusebox /tmp -name 'fusebox-work-*' >works
    [ -s works ] || break
    sleep 0.5
done
cat works >>left
exit $status
END
cp "$FUSEBOX" fusebox
# Its reference has 12 bytes for each of the 65536 elements.
printf 'return function(g)\n  return g:input("x", {256, 256}):relu()\nend\n' >wide.lua

inside() {
    rm -f left
    unshare -rm sh inside "$work" "$@" >out 2>err </dev/null
    status=$?
}

inside 512k 64m true
if [ $status = 9 ] || [ $status = 127 ] || grep -q unshare err; then
    echo "1..0 # SKIP no name spaces to mount in"
    exit 0
fi
is "a cache with no room for a reference" 0 out 'none@host.*✓'
holds "holds no part of one" test ! -s left
inside 64k 64m eval 'head -c 100000 /dev/zero >small/fusebox/filler 2>/dev/null; true'
is "a cache that is full" 0 out 'none@host.*✓'
holds "holds nothing" test ! -s left
inside 64m 64m eval './fusebox run wide.lua none >/dev/null && closed'
is "a cache that may not be written to, any more" 0 out 'none@host.*✓'
inside 64m 64m closed
is "a cache that could never be written to" 0 out 'none@host.*✓'
inside 512k 512k true
is "no room for the reference anywhere" 1 err 'the reference cannot be written: /mnt/small/fusebox/reference/.*: No space left'
holds "and no part of one left" test ! -s left
inside 64k 64k eval 'for at in small/fusebox /tmp; do head -c 100000 /dev/zero >$at/filler 2>/dev/null; done; true'
is "no room for anything" 1 err 'No space left on device'
holds "is no reason to leave anything" test ! -s left
done_testing
