#!/bin/sh
# fusebox run --format html: one page to hand out, which needs nothing else.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
check="${FB_SRCDIR:-.}/tests/cli/html_check.py"

# A real parser reads the page on stdout: it is well formed, loads nothing, and shows these texts.
page() { # NAME TEXT…
    name=$1
    shift
    if ! command -v python3 >/dev/null 2>&1; then
        tests=$((tests + 1))
        echo "ok $tests - $name # SKIP there is no python3"
    elif why=$(python3 "$check" out "$@" 2>&1); then
        report ok "$name"
    else
        report not-ok "$name ($(printf '%s' "$why" | tr '\n' ';'))"
    fi
}

cat >gate.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
return fb.script {
  title = "A < gate & more",
  params = { rows = fb.int { 64, help = "how many \"rows\"" }, dtype = fb.choice { "f32", "bf16" } },
  model = function(g, p)
    local x = g:input("x", { p.rows, 32 }, p.dtype)
    return nn.layer_norm(x):tanh() * nn.linear(x, 32):sigmoid()
  end,
}
LUA
fb run gate.lua none max --device host --format html
is "a page with columns, waterfall, bars, roofline, plans and sources" 0 out '^<!doctype html>' out '<h2>Columns' \
    out '<h2>Why is one faster' out 'class="time"' out 'class="(gain|loss|rest)"' out '<h2>Roofline' out '<h2>Plans' \
    out 'class="box s0"' out '<summary>source' out '</html>'
page "it is well formed and complete in itself" "A < gate & more"
is "what comes from a script stands for itself" 0 out '<h1>A &lt; gate &amp; more</h1>' no '< gate'
is "nothing is loaded from elsewhere, and both light and dark are there, and paper" 0 no '(src|href)=' \
    out "default-src &#39;none&#39;" out 'prefers-color-scheme:dark' out '@media print'
is "parameters are told once, with what they are" 0 out '<div title="how many &quot;rows&quot;"><dt>rows</dt><dd>64</dd>' \
    out '<dt>dtype</dt><dd>f32</dd>' no 'rows=64'
is "kinds and spreads have a legend" 0 out '<dt>measured</dt>' out '<dt>≈ composed</dt>' out '<dt>~ predicted</dt>' out '<dt>p10–p90</dt>' \
    out '<td class="name">measured</td>'
is "the sources and what differs" 0 out '<summary>difference to column 1</summary>' out '<ins>\+ ' out '<del>- '
is "figures, kernels and parts say more under the pointer" 0 out '<th title="Time of one whole run' out '<g><title>[^<]* · (pointwise|reduce)' \
    out '<title>1  none@host$' out 'nodes: '
holds "plans stand side by side" sh -c 'sed -n "/class=.plans/,/<.section>/p" out | grep -c "<figure>" | grep -qx 2'

cat >sizes.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { rows = fb.int { 8 }, columns = fb.int { 16 } },
  model = function(g, p) return g:input("x", { p.rows, p.columns }):tanh():relu() end,
}
LUA
fb run sizes.lua eager max --device host --set rows=8,16 --format html --pictures drawn
is "a sweep's page has all its cases, with what varies alone" 0 out '<figcaption>1  eager@host  rows=8<' out '<figcaption>2  max@host  rows=8<' \
    out '<figcaption>3  eager@host  rows=16<' out '<figcaption>4  max@host  rows=16<' no '>5  ' out '<dt>columns</dt><dd>16</dd>' no 'columns=16'
page "a sweep's page is well formed"
is "each case has its waterfall" 0 out '<summary>1  eager@host  rows=8  →  2  max@host  rows=8</summary>' \
    out '<summary>3  eager@host  rows=16  →  4  max@host  rows=16</summary>' no '→  3  '
# shellcheck disable=SC2012
ls drawn | tr '\n' ' ' >out
is "pictures as files" 0 \
    out '^kernels.svg plan-1.svg plan-2.svg plan-3.svg plan-4.svg roofline.svg scatter.svg why-1-2.svg why-3-4.svg $'
cat drawn/plan-1.svg drawn/plan-3.svg >out
is "a file of its own, each plan with its sizes" 0 out '^<svg xmlns="http://www.w3.org/2000/svg"' out 'rows=8  columns=16<' out 'rows=16  columns=16<' out '>a  tanh<' \
    out 'prefers-color-scheme:dark' out '</svg>$'
fb run sizes.lua max --device host --format svg
is "all pictures as one document" 0 out '>Kernels<' out '>Roofline<' out '>Time against bytes<' out '>1  max@host' out '</svg>$'
fb graph gate.lua eager --format svg
is "a plan's picture without measuring" 0 out '>a  layer_norm<' out 'class="flow"' out '~' no 'class="time"'
fb run gate.lua none max --device host --set rows=64,nothing --format html
is "a value that there is not, is no page" 2
fb run gate.lua none nonsense --device host --format html
is "nor is a plan that there is not" 2

# A results file's rows explain themselves as those that were just measured.
fb run gate.lua none max --device host --out rows.jsonl
fb run gate.lua none max --device host --out rows.jsonl --format html
is "a page of rows that a file holds" 0 out '<summary>1  none@host  →  2  max@host</summary>' out 'class="(gain|loss|rest)"' no 'class="bad'

# The puzzle as it is handed out: what gives it away is folded.
fb run split_stack split_stack:eager@torch:h200 combined:eager@torch:h200 split_stack:max@replay:h200 --format html
is "a puzzle with its choices, hints and answer" 0 out '<h2>Puzzle' out '<p class="ask">Why is combined faster' out '<li>☐ It calls the framework' \
    out '<details><summary>hint 1' out '<details><summary>answer' out '<p class="right">1  It calls the framework'
page "a puzzle's page is well formed" "launching and waiting (modelled)"
is "its waterfall stands with the answer, once" 0 out '<h3>1  split_stack:eager@torch:h200  →  2  combined:eager@torch:h200' \
    no '<summary>1  split_stack:eager@torch:h200  →  2'
fb run split_stack combined:max@replay:h200 --format html
is "a puzzle whose columns are not there says so" 0 out 'split_stack:eager@torch and combined:eager@torch are not both among' no 'class="right"'

# What was not measured keeps the sign of its kind in every picture.
cat >kinds.lua <<'LUA'
return require("fusebox").script {
  model = function(g) return g:input("x", { 96, 33 }):tanh():exp():relu() end,
}
LUA
fb run kinds.lua none max --device replay:h200 --format html
is "predictions keep their sign in tables and pictures" 0 out '<td>~[0-9.]+ µs' out 'class="time guess"' out 'circle class="f0 s0 hollow"' out '> · wall ~[0-9.]+ µs' \
    out '>pointwise · ~[0-9.]+ µs' out '>~ −[0-9.]+ ' out '<td class="name">predicted</td>' no '[0-9]–[0-9.]+ µs' no '<td class="good'
page "a page of predictions is well formed"

# Whatever names and texts hold: they are shown, and nothing else happens.
mkdir -p "odd <b>&'"
cat >"odd <b>&'/e\"vil.lua" <<'LUA'
local fb = require "fusebox"
local evil = "</td><script>alert('1')</script><!-- \"x\" 'y' &amp; ]]> <img src=x onerror=alert(2)> \27[31m\u{9b}31m\u{202e}end"
return fb.script {
  title = evil,
  params = { act = fb.choice { evil, "plain", help = evil } },
  variants = {
    one = function(g) return g:op("mine", { g:input("x", { 8 }) }, { note = evil }, function() return g:input("y", { 8 }):relu() end) end,
    two = function(g) return g:input("x", { 8 }):relu() end,
  },
  puzzle = {
    compare = { "one:none", "two:none" },
    ask = evil, choices = { { "bytes", evil } }, hints = { evil }, tell = evil,
  },
}
LUA
fb run "odd <b>&'/e\"vil.lua" none max --device host --format html
is "hostile names give a page" 0
page "which is well formed and shows them as they are" \
    "</td><script>alert('1')</script><!-- \"x\" 'y' &amp; ]]> <img src=x onerror=alert(2)> ?[31m" "odd <b>&'/e\"vil.lua"
is "with no element of theirs" 0 no '<script' no '<img' no '<b>&'

cat >sweep.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  title = "A sweep < two",
  params = { rows = fb.int { 8, min = 1, max = 4096 } },
  model = function(g, p) return g:input("x", { p.rows, 16 }):tanh():relu() end,
  experiment = function(e)
    for c in e:sweep { plan = { "eager", "max" }, rows = { 8, 16 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches })
    end
    e:plot { x = "rows", y = "us", by = "plan" }
    e:plot { y = "us" }
  end,
}
LUA
fb run sweep.lua --experiment --format html --device host
is "an experiment's page: plots, rows with their kind, what the signs mean" 0 out '<h1>A sweep &lt; two' out '<h2>us by rows' \
    out '<h2>us by model and setting' out '<th>rows' out '<th>us' out '<td class="name">measured' out '<dt>~ predicted' no '>~[0-9]' out '</html>'
page "which is well formed"
fb run sweep.lua --experiment --format html --device replay:h200
is "what was never recorded says so in each row, and in the pictures" 0 out '<td>~[0-9.]+' no '<td>[0-9.]*[0-9]\.[0-9]' \
    out '<td class="name">predicted' out 'guess|hollow'
fb run gate.lua --experiment --format html
is "a script without an experiment says so" 1 err 'experiment'

# A browser, where there is one: it draws the page light and dark, narrow and wide, and prints it.
browser=
for one in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || ! command -v $one >/dev/null 2>&1 || browser=$one
done
browse() { # OPTION… PAGE; what its console said is in console
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-pdf-header-footer \
        --user-data-dir="$work/browser" --enable-logging=stderr "$@" >console 2>&1 </dev/null
}
drawn() { # NAME WIDTH GROUND OPTION…
    name=$1 width=$2 ground=$3
    shift 3
    rm -f shot.png
    browse --window-size="$width,900" --screenshot=shot.png "$@" "file://$work/page.html"
    shown=$(python3 "$check" --ground shot.png 2>/dev/null)
    if [ "$shown" = "$ground ${width}x900" ] && ! grep -q 'CONSOLE' console; then
        report ok "$name"
    else
        report not-ok "$name (got \"$shown\"; $(grep CONSOLE console | head -3))"
    fi
}
if [ -n "$browser" ] && command -v python3 >/dev/null 2>&1 && browse --screenshot=shot.png about:blank && [ -s shot.png ]; then
    fb run gate.lua none max --device host --format html
    cp out page.html
    for width in 1280 600; do
        drawn "a browser draws it, $width wide" "$width" ffffff
        drawn "and dark" "$width" 16181c --blink-settings=preferredColorScheme=0
    done
    browse --print-to-pdf=page.pdf --blink-settings=preferredColorScheme=0 "file://$work/page.html"
    holds "and prints it" grep -q '^%PDF' page.pdf
else
    tests=$((tests + 1))
    echo "ok $tests - a browser draws it # SKIP there is no chromium that starts, or no python3"
fi
done_testing
