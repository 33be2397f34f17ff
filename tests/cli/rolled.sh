#!/bin/sh
# Steps that are written out, as a loop: found, planned, run, and held against the graph as written.
. "$(dirname "$0")/lib.sh"

cat >steps.lua <<'LUA'
local fb = require "fusebox"
local function steps(own)
  return function(g, p)
    local x, h = g:input("x", { p.T, 4, 8 }), g:zeros({ 4, 8 })
    local w, each = own or g:param("w", { 8, 8 }), {}
    for t, part in ipairs(x:unbind(0)) do
      g:scope("step", t, function()
        local v = own and g:param("w", { 8, 8 }) or w
        h = (part + h:matmul(v)):tanh()
        each[t] = h
      end)
    end
    return g:stack(each), h
  end
end
return fb.script {
  params = { T = fb.int { 6, min = 2 } },
  variants = { shared = steps(), own = steps(true) },
  plans = {
    rolled_max = function(pl) pl:roll():preset("max") end,
    there_and_back = function(pl) pl:preset("max"):roll():roll(false) end,
    body = function(pl) pl:roll():fuse("step.add", "step.tanh") end,
  },
}
LUA

fb explain steps.lua shared:none --loops
is "what is a loop is said" 0 out '^6 steps of `step\[\*\]\.matmul`, 3 operations each, as a loop of 6$' \
    out 'as they are written'
fb explain steps.lua shared:rolled --loops
is "and that the plan has it as one" 0 out 'the plan has them as loops'
fb explain steps.lua own:none --loops
is "what keeps steps apart is said" 0 out 'are no loop: `step\[2\]\.matmul` reads `step\[2\]\.w` where `step\[1\]\.matmul` reads'
fb explain steps.lua shared:none --set T=2 --loops
is "two steps are none" 0 out 'no three equal stretches'

fb run steps.lua shared:max shared:rolled shared:rolled_max shared:body shared:there_and_back --device host --format json
is "loops run, and are right" 0 no '"ok": false'
right=$(grep -o '"state": *"right"' out | wc -l)
report "$([ "$right" -ge 5 ] && echo ok || echo not-ok)" "each against the graph as written"

fb run steps.lua own:rolled_max --device host
is "a plan that asks for what is none says why" 1 err 'roll: steps that differ: .*\(illegal\)'
fb run steps.lua own:rolled own:max --device host
is "the preset is max where there is no loop" 0

# a loop and the one that takes it back, in memory that the first one's swaps have left exchanged
fb fuzz --seed 38 --count 1 --plan 2 --trials 0 --device host
is "a loop backwards behind one with an odd number of steps" 0 no '✗'

fb graph steps.lua shared:rolled
is "the graph that is shown is the loop's" 0 out 'loop' out 'step\.tanh|tanh'
done_testing
