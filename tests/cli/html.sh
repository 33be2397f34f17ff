#!/bin/sh
# fusebox run --format html: one page that needs nothing else.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
cat >gate.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
return fb.script {
  title = "A < gate & more",
  model = function(g)
    local x = g:input("x", { 64, 32 })
    return nn.layer_norm(x):tanh() * nn.linear(x, 32):sigmoid()
  end,
}
LUA
# shellcheck disable=SC2086
fb run gate.lua none max --device host --format html
is "a page with columns, bars, a roofline, plans and sources" 0 out '^<!doctype html>' out '<h2>Columns' \
    out 'class="time"' out '<svg ' out 'class="box s0"' out '<details><summary>source' out '</html>'
is "what comes from a script stands for itself" 0 out '<h1>A &lt; gate &amp; more</h1>' no '< gate'
is "nothing is loaded from elsewhere, and both light and dark are there" 0 no '(src|href)=' out 'prefers-color-scheme:dark'
cat >sizes.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { rows = fb.int { 8 } },
  model = function(g, p) return g:input("x", { p.rows, 16 }):tanh():relu() end,
}
LUA
fb run sizes.lua eager max --device host --set rows=8,16 --format html --pictures drawn
is "a sweep's page has all its cases" 0 out '<h3>1  eager@host  rows=8' out '<h3>2  max@host  rows=8' out '<h3>3  eager@host  rows=16' \
    out '<h3>4  max@host  rows=16' no '<h3>5'
# shellcheck disable=SC2012
ls drawn | tr '\n' ' ' >out
is "pictures as files" 0 out '^kernels.svg plan-1.svg plan-2.svg plan-3.svg plan-4.svg roofline.svg scatter.svg $'
cat drawn/plan-1.svg drawn/plan-3.svg >out
is "a file of its own, each plan with its sizes" 0 out '^<svg xmlns="http://www.w3.org/2000/svg"' out 'rows=8<' out 'rows=16<' out '>a  tanh<' \
    out 'prefers-color-scheme:dark' out '</svg>$'
fb run sizes.lua max --device host --format svg
is "all pictures as one document" 0 out '>Kernels<' out '>Roofline<' out '>Time against bytes<' out '>1  max@host' out '</svg>$'
fb graph gate.lua eager --format svg
is "a plan's picture without measuring" 0 out '>a  layer_norm<' out 'class="flow"' out '~' no 'class="time"'
fb run gate.lua --experiment --format html
is "an experiment has no page" 2 err1 'html is of columns'
done_testing
