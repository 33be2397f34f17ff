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

# Two columns, or all variants: one loop, or what keeps them apart.
cat >ways.lua <<'LUA'
local fb = require "fusebox"
local function steps(how)
  return function(g, p)
    local x, h, each = g:input("x", { p.T, 4, 8 }), g:zeros({ 4, 8 }), {}
    local w, u = g:param("w", { 8, 16 }), g:param("u", { 16, 16 })
    h = g:zeros({ 4, 16 })
    if how == "hoisted" then x = x:matmul(w) end
    for t, part in ipairs(x:unbind(0)) do
      g:scope("step", t, function()
        local from_x = how == "hoisted" and part or part:matmul(w)
        if how == "turned" then h = (h:matmul(u) + from_x):tanh() else h = (from_x + h:matmul(u)):tanh() end
        each[t] = h
      end)
    end
    return g:stack(each)
  end
end
return fb.script {
  params = { T = fb.int { 5, min = 2 } },
  variants = { plain = steps(), turned = steps("turned"), hoisted = steps("hoisted") },
}
LUA
fb explain ways.lua plain turned --loops
is "two variants with one loop" 0 out '^plain$' out '^turned$' out '^beside plain: the same loop$'
fb explain ways.lua plain:max hoisted:rolled --loops
is "two that differ, whatever their plans are" 0 \
    out '^beside plain: not the same loop: products a step: 2 of \[4,8\]×\[8,16\] and \[4,16\]×\[16,16\] in plain, 1 of ' \
    out '`step.matmul` in plain stands before the loop in hoisted, for all steps at once: `matmul`, \[5,4,8\]×\[8,16\]'
fb explain ways.lua --loops
is "all variants, each beside the first" 0 out '^beside hoisted: not the same loop'
fb explain ways.lua plain turned --loops --format json
is "JSON" 0 no '^fusebox:'
json "of what was found and what it has in common" out fusebox_loops=1 columns#2 columns.0.variant=plain \
    columns.0.rolled=false columns.0.found.0.steps=5 columns.0.found.0.text compared#1 compared.0.first=plain \
    compared.0.second=turned compared.0.is=same compared.0.text compared.0.why#0
fb explain ways.lua plain hoisted --loops --set T=2
is "two without one" 0 out '^beside plain: neither has a loop$'
fb explain steps.lua shared own --loops
is "and one without" 0 out '^beside shared: own has no loop; 6 steps of `step\[\*\]\.matmul`, 3 operations each, are no loop: '
fb explain lstm_train inside stored --loops
is "of two loops it is said which" 0 out '^beside inside: not the same loop: loop 2: ' \
    out 'loop 2: `backward.through_time.matmul_2` in inside stands after the loop in stored, for all steps at once: '
fb explain ways.lua plain hoisted
is "two columns are for loops" 2 err1 'two columns go with --loops'
fb explain ways.lua plain:none rolled --loops
is "of which each is one" 2 err1 'name one, such as'
fb diff ways.lua plain:rolled hoisted:rolled --device host
is "a difference says what keeps the loops apart" 0 out '^loops: not the same loop: products a step: 2 of '
fb diff ways.lua plain:rolled turned:rolled --device host --format json
json "as JSON too" out loops.first=plain loops.second=turned loops.is=same

# Steps of a preset begin with it.
fb explain steps.lua shared:rolled --steps --device replay:h200
is "the first decision of the preset is the loop, with what that is predicted to give" 0 \
    out '^    1  taken     a loop of the steps from `step\[1\]\.matmul` on: 6 steps of .* as a loop of 6: .*predicted' \
    out '^    2  .*fuse `step\.'
fb explain steps.lua 'shared:rolled[no1]' --steps
is "refused, the others are decided of the steps as they are written" 0 out '^    1  declined  a loop of' \
    out '^    2  taken     fuse `step\[1\]\.'
fb explain steps.lua own:rolled --steps
is "what is no loop is told there" 0 out '^    1  refused   a loop of the steps from .*: steps that differ: '
fb explain steps.lua shared:rolled --steps --format json
json "as JSON too" out columns.0.steps.0.kind=roll columns.0.steps.0.outcome=taken 'columns.0.steps.0.a=step[1].matmul'
fb run steps.lua 'shared:rolled[:0]' 'shared:rolled[:1]' 'shared:rolled[no1]' --device host
is "plans of its first decisions run" 0

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

cat >constant.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  variants = {
    product = function(g)
      local w, c = g:param("w", { 8, 8 }), g:full({ 4, 8 }, 0.5)
      return g:loop(3, { g:input("x", { 4, 8 }) }, function(_, h) return (h + c:matmul(w)):tanh() end)
    end,
  },
  plans = { one_kernel = function(pl) pl:generate("loop") end },
}
LUA
# what a library reads of a constant is copied in each step, and before the first one that copy is not there
fb check constant.lua product:one_kernel --device host
is "a loop that is one kernel, with a product of a constant" 0 out '^✓ product:one_kernel'

fb graph steps.lua shared:rolled
is "the graph that is shown is the loop's" 0 out 'loop' out 'step\.tanh|tanh'
done_testing
