#!/bin/sh
# best: searched for with the model, measured, kept; anew on request; on devices that measure nothing.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fb run split_stack split_stack:max split_stack:best $small --device host
is "best stands beside a preset" 0 out '^split_stack:best.*✓' \
    err1 'split_stack:best: [0-9]+ plans considered, [0-9]+ measured; the model was off by [0-9]+ % \(median\), [0-9]+ % at worst'
fb run split_stack split_stack:best $small --device host
is "asking again finds what was found" 0 err1 'plans considered.*; found on 20[0-9][0-9]-'
fb run split_stack split_stack:best $small --device host --search --format json
is "--search looks anew" 0 err1 'at worst(; [0-9]+ knob settings tried, [0-9]+ kept)?$'
json "the report tells of the search" out columns.0.plan=best columns.0.search.considered columns.0.search.measured \
    columns.0.search.off_median columns.0.search.cached=false columns.0.search.source=measured columns.0.wall_us.median
fb run split_stack split_stack:max $small --device host --format json
json "presets have none" out '!columns.0.search'
fb explain split_stack split_stack:best $small --device host
is "explain takes it" 0 out ': cut: '
fb graph split_stack split_stack:best $small --device host
is "graph takes it" 0 out '^kernels of best$'
fb diff split_stack split_stack:none split_stack:best $small --device host
is "diff takes it" 0 out 'best'
fb emit split_stack split_stack:best $small --target cuda --arch sm_90
is "for a GPU that is not there the model alone decides" 0 out '__global__'
fb run split_stack split_stack:bset $small --device host
is "a name near it" 2 err1 'did you mean "best"'

cat >plans.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  model = function(g) return g:input("x", { 64, 8 }):tanh():exp() end,
  plans = { begin = function(pl) pl:preset("best") end },
}
LUA
fb run plans.lua begin --device host
is "a script's plan cannot begin with it" 1 err 'preset: best is a search'
sed 's/begin = function(pl) .* end/best = function(pl) end/' plans.lua >named.lua
fb run named.lua max --device host
is "nor be called so" 1 err 'plan best has the name of a preset'

FUSEBOX_RECORDINGS=$work/recordings
export FUSEBOX_RECORDINGS
mkdir "$FUSEBOX_RECORDINGS"
cat >chain.lua <<'LUA'
local fb = require "fusebox"
return function(g) return g:input("x", { 1024, 512 }):abs():neg():relu() end
LUA
calibrated
fb record chain.lua --device host --out "$FUSEBOX_RECORDINGS/here.json" --spread 1000
fb run chain.lua best@replay:here --format json
is "a recording is looked up" 0 err1 'looked up in the recording, none measured \(the time of the best is recorded\)'
json "and told so" out columns.0.source=recorded columns.0.search.source=recorded
fb run chain.lua best@replay:here
is "kept too" 0 err1 'found on 20'

done_testing
