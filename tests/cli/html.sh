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
    out "class='bar time'" out '<svg ' out 'class=group' out '<details><summary>source' out '</html>'
is "what comes from a script stands for itself" 0 out '<h1>A &lt; gate &amp; more</h1>' no '< gate'
is "nothing is loaded from elsewhere, and both light and dark are there" 0 no '(src|href)=' out 'prefers-color-scheme:dark'
fb run gate.lua --experiment --format html
is "an experiment has no page" 2 err1 'html is of columns'
done_testing
