#!/bin/sh
# A kernel taken over, edited by hand, measured; wrong, not compiling, stale, foreign.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
cat >m.lua <<'L'
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 64, min = 1, max = 4096 } },
  model = function(g, p) return g:input("x", { p.n }):relu():neg() end,
  plans = { own = function(pl) pl:fuse("relu", "neg"):kernel("neg", "far.c") end,
            out = function(pl) pl:kernel("neg", "../far.c") end },
}
L

fb eject m.lua max --kernel neg
is "a kernel is written, and what to do next" 0 \
    out '^edit relu_neg.c, then: fusebox run --trust m.lua max relu_neg.json$'
holds "with what it is given" grep -q '^ \* @argument  x f32\[64\] read$' relu_neg.c
cp m.lua "my model's.lua"
fb eject "my model's.lua" max --kernel neg "my k.c"
is "what to do next can be pasted" 0 \
    out "^edit my k.c, then: fusebox run --trust 'my model'\\\\''s.lua' max 'my k.json'\$"
sed 's/.*then: fusebox //' out >pasted
holds "and does what it says" sh -c "$(printf "%s " "$FUSEBOX")$(cat pasted)"
fb eject m.lua max --kernel neg
is "it is not overwritten" 2 err1 'relu_neg.c is there already; --force'
fb eject m.lua max --kernel 1 k.c
is "nor another, by number" 0 out 'k.json'
fb eject m.lua max --kernel max
is "a kernel that is not there" 2 err1 'has no kernel "max"'
fb eject split_stack split_stack:eager $small -k 'feature[*].tanh' every.c
is "a kernel of many nodes" 0 out '^edit every.c'
holds "for each of them" sh -c 'tr -d " \n" <every.json | grep -q "\"each\":true,\"nodes\":\[\"feature\[[*]\].tanh\"\],\"source\":\"every.c"'
cat >differ.lua <<'L'
local fb = require "fusebox"
return fb.script { model = function(g)
  local y = {}
  for i = 1, 2 do g:scope("part", i, function() y[i] = g:input("x", { 64 * i }):relu() end) end
  return { a = y[1], b = y[2] }
end }
L
fb eject differ.lua none -k 'part[*].relu'
is "nodes of kernels that differ" 2 err1 'in 2 kernels that differ, such as 1 and 2: name one of them'
fb run m.lua max k.json --format json
is "it runs as written, without being asked" 0
json "and is right" out columns.0.error.ok=true columns.1.error.ok=true columns.1.wall_us.median columns.1.plan=k.json
sed -i 's/args->buffers\[0\]/args->buffers[+0]/' k.c
fb run m.lua k.json
is "edited by somebody, it asks for trust" 1 err1 'k.c is native code that would run as you.*--trust \(SHA-256 [0-9a-f]{64}\)'
sum=$(sha256sum <k.c | cut -d' ' -f1)
holds "by the hash that sha256sum gives" grep -q "$sum" err
fb run m.lua k.json --trust
is "and runs when it is given" 0 out '✓'
holds "which is remembered" grep -q "^$sum  $PWD/k.c$" "$XDG_STATE_HOME/fusebox/trusted"
fb run m.lua k.json
is "for next time" 0 out '✓'
sed -i 's/ = -/ = 2 * -/; s/neg\[\(.*\)\] = /neg[\1] = 1 + /' k.c
fb run m.lua k.json --trust
is "a wrong one shows no time" 1 err1 'k.json: wrong result.*: neg\[' no ' µs .*✓'
line=$(grep -n '^}' k.c | tail -1 | cut -d: -f1)
sed -i '$s/^}/oops }/' k.c
fb run m.lua k.json --trust
is "one that does not compile, its own file and line" 1 err1 "k.c:$line:[0-9]+: error: "
fb run m.lua relu_neg.json --set n=65
is "one for other sizes is stale" 1 err1 'relu_neg.c is stale: its argument 1 was x f32\[64\] read, and is now x f32\[65\] read'
fb run m.lua own
is "a script's file that is not there" 1 err1 'far.c: No such file'
cp relu_neg.c far.c
fb run m.lua own
is "and foreign where it is" 1 err1 'far.c is native code'
fb run m.lua own --trust
is "until it is trusted" 0 out '✓'
fb run m.lua out
is "it lies beside the script" 1 err 'm.lua:6: kernel: files are named relative'
fb emit m.lua own
is "looking needs no trust" 0 out '^#line 1 "far.c"$'
cat >scan.lua <<'L'
local fb = require "fusebox"
return fb.script {
  model = function(g)
    local last, all = g:scan({ g:input("x", { 4, 32 }) }, { g:input("h", { 32 }) }, function(x, h)
      local next = (x + h):tanh()
      return { next }, { next }
    end)
    return all[1], last[1]
  end,
}
L
fb eject scan.lua max --kernel 1 s.c
is "a loop's kernel, which stores its state and its step's result" 0 out 's.json'
fb run scan.lua max s.json --format json
is "runs as written" 0
json "and is right" out columns.1.error.ok=true
fb eject m.lua max --kernel neg g.cu
is "CUDA, without a GPU" 0 out 'g.json'
holds "with its geometry" grep -q '^ \* @block  *[0-9]* 1 1$' g.cu
fb run m.lua g.json --trust
is "which the host does not take" 1 err1 'g.cu:5: the kernel is written in cuda'
fb eject m.lua max --kernel neg g.txt
is "another ending" 2 err1 'ends in \.c for the host, or in \.cu for a GPU'
fb emit m.lua g.json --target ptx
if [ "$status" = 0 ] || ! grep -q NVRTC err; then
    is "NVRTC takes it" 0 out 'entry'
    sed -i '$s/^}/oops }/' g.cu
    fb emit m.lua g.json --target ptx
    is "and tells file and line" 1 err1 'g.cu:[0-9]+: error: '
fi
done_testing
