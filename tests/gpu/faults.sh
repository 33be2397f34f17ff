#!/bin/sh
# What can go wrong on a GPU: each fault is one line, and the next measurement runs on a fresh process. Speaks TAP; exits with 77
# where there is no GPU. Needs fusebox, poison_cache and hog in the folder FB_BUILD.
FB_BUILD=$(cd "${FB_BUILD:-.}" && pwd) || exit 1
export FUSEBOX="$FB_BUILD/fusebox" JSON_CHECK=/bin/false
. "${FB_SRCDIR:-$(dirname "$0")/../..}/tests/cli/lib.sh"
device=${DEVICE:-cuda:0}

# In the foreground: a limit for all of this (check.sh) ends it too.
fb() {
    timeout --foreground 200 "$FUSEBOX" "$@" >out 2>err </dev/null
    status=$?
}

fb run add_mul_relu max --device "$device" --set rows=512 --set columns=512
if [ "${status:-1}" = 3 ]; then
    echo "1..0 # SKIP $(cat err)"
    exit 77
fi
is "a plan before any fault" 0 out 'max@cuda' out '✓'
mv "$XDG_CACHE_HOME" good

# poisoned KIND: a cache of its own, with the plan's kernels replaced
poisoned() {
    rm -rf "$XDG_CACHE_HOME"
    cp -r good "$XDG_CACHE_HOME"
    "$FB_BUILD/poison_cache" "$1" || echo "# poison_cache failed"
}

for fault in address trap; do
    poisoned $fault
    fb run add_mul_relu max --device "$device" --set rows=512 --set columns=512
    is "a kernel with a fault ($fault): one line" 1 err1 'max.*: .*CUDA_ERROR_'
    # The other plan has other kernels, which are good; it runs on a process that has not seen the fault.
    fb run add_mul_relu max none --device "$device" --set rows=512 --set columns=512
    is "beside it a good plan is measured ($fault)" 1 err1 'max.*: .*CUDA_ERROR_' out 'none@cuda.*✓'
done

poisoned endless
before=$(date +%s)
fb run add_mul_relu max none --device "$device" --set rows=512 --set columns=512
after=$(date +%s)
is "a kernel that never ends: stopped, one line" 1 err1 'max.*: stopped after [0-9]+ s without a sign of life' out 'none@cuda.*✓'
holds "within two minutes" test $((after - before)) -lt 120

rm -rf "$XDG_CACHE_HOME"
cp -r good "$XDG_CACHE_HOME"
mkfifo hold
"$FB_BUILD/hog" 1200 <hold >hogged 2>&1 &
hog=$!
exec 3>hold
for _ in $(seq 100); do grep -q . hogged && break; sleep 0.1; done
holds "another process takes the memory" grep -q ready hogged
fb run add_mul_relu max --device "$device" --set rows=65536 --set columns=8192
is "too large for what is left: refused with the sizes" 1 err1 'max.*: the plan needs [0-9.]+ GB on .* and [0-9.]+ .B are free'
fb run add_mul_relu max --device "$device" --set rows=512 --set columns=512
is "a small plan fits beside it" 0 out 'max@cuda.*✓'
exec 3>&-
wait $hog
cat >huge.lua <<'END'
return require "fusebox".script { model = function(g) return g:input("x", { 1048576, 262144 }):tanh() end }
END
fb run huge.lua max --device "$device"
is "too large for any machine: refused with the sizes" 1 err1 'needs [0-9.]+ TB'

(
    export CUDA_VISIBLE_DEVICES=
    fb run add_mul_relu max --device "$device"
    exit "$status"
)
status=$?
is "the driver has no GPU any more" 3 err1 'cuda:.*no CUDA GPU'
fb run add_mul_relu max --device "$device" --set rows=512 --set columns=512
is "and everything is well again" 0 out 'max@cuda.*✓'
done_testing
