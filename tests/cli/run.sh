#!/bin/sh
# fusebox run: formats, sweeps, results files that are gone on with.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fb run split_stack $small
is "the script's own columns as a table" 0 err 'combined:eager@torch.* is left out: ' out 'split_stack:eager@host' out 'combined:max@host' out 'median' out 'modelled' out '✓'
LC_ALL=C
fb run split_stack combined:max $small
is "ASCII where the locale is" 0 out 'combined:max@host' no '✓|×|µ'
LC_ALL=C.UTF-8
holds "nothing of passes where nobody asks" test ! -s err
FB_DEBUG=tb fb run split_stack combined:max $small --set batch_size=128
is "where the time went, of each process, and what its worker's passes leave" 0 out '✓' \
    err '^> device at [0-9.]+ s: lowering: [0-9.]+ s, computed' err '^> reference at .* computing the reference' \
    err '^> device at .* checking kernel # of #' err '^> program for c'
fb split_stack $small
is "without a command and a terminal: the table" 0 out 'split_stack:eager@host'

fb run split_stack combined:eager combined:max $small --format json
is "JSON on stdout, nothing else" 0 no '^fusebox:'
json "the report is as documented" out fusebox=3 script params.batch_size=64 params.dtype=f32 devices.host.kind=host \
    devices.host.name columns#2 columns.0.variant=combined columns.0.plan=eager columns.0.device=host columns.0.nodes \
    columns.0.launches=4 columns.0.launch_mode=stream columns.0.wall_us.median columns.0.wall_us.p10 columns.0.wall_us.p90 \
    columns.0.wall_us.n columns.0.predicted_us columns.0.floor_us columns.0.bytes.modelled.read \
    columns.0.bytes.modelled.written '!columns.0.bytes.measured' columns.0.source=measured columns.0.flops \
    columns.0.peak_bytes columns.0.error.max_abs columns.0.error.max_rel columns.0.error.bound columns.0.error.ok=true \
    columns.0.compile_ms columns.0.kernels.0.name columns.0.kernels.0.family columns.0.kernels.0.nodes \
    columns.0.kernels.0.count '!columns.0.failed' columns.1.plan=max columns.1.launches=1
fb run split_stack max $small --format csv
is "CSV has a heading and a line a column" 0 out '^script,variant,plan,device,' out ',split_stack,max,host,' out ',combined,max,host,'
fb run split_stack max $small --format markdown
is "Markdown" 0 out '^\| column +\|' out '^\| ---' out 'combined:max@host'

printf 'return function(g)\n  print("hello from the script")\n  return g:input("x", {4, 6}):relu()\nend\n' >single.lua
fb run single.lua --format json
is "without columns of its own a script begins with eager and auto" 0
json "side by side" out columns#2 columns.0.plan=eager columns.1.plan=auto columns.1.source=measured
cat >unsaid.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  model = function(g) return g:input("x", { 4, 6 }):relu() end,
  experiment = function(e)
    for c in e:sweep {} do e:row(c, { is = 1 }) end
    e:measure {}
  end,
}
LUA
fb run unsaid.lua --experiment --device host --out unsaid.jsonl
cp unsaid.jsonl out
is "an experiment that names no plan has the same two" 0 out '"plan": ?"eager".*"is"|"is".*"plan": ?"eager"' out '"plan": ?"auto".*"is"|"is".*"plan": ?"auto"'
is "and measures the latter" 0 out '"plan": ?"auto".*"wall_us"|"wall_us".*"plan": ?"auto"'
fb run single.lua none --format json
is "what a script prints goes to stderr" 0 err1 '^hello from the script$'
json "a single model has the variant \"\"" out columns#1 columns.0.variant= columns.0.plan=none
fb graph single.lua --format json
cp out graph.json
fb run graph.json max --format json
json "a graph in JSON is a script" out columns#1 columns.0.plan=max columns.0.error.ok=true

fb run split_stack combined:max --set batch_size=64,128 --set num_inputs=2,4 --set input_dim=32 --out sweep.jsonl
is "a sweep is all combinations" 0 out 'batch_size' out 'num_inputs'
holds "a row each" test "$(wc -l <sweep.jsonl)" = 4
json "every line is JSON" -l sweep.jsonl
cp sweep.jsonl before
fb run split_stack combined:max --set batch_size=64,128 --set num_inputs=2,4 --set input_dim=32 --out sweep.jsonl
is "a second run shows them" 0 out '128 +4 '
holds "and measures nothing again" cmp sweep.jsonl before
fb run split_stack combined:max --set batch_size=64,128,256 --set num_inputs=2 --set input_dim=32 --out sweep.jsonl
is "a longer sweep goes on" 0
holds "with the one that was missing" test "$(wc -l <sweep.jsonl)" = 5
head -c -20 before >sweep.jsonl
fb run split_stack combined:max --set batch_size=64,128 --set num_inputs=2,4 --set input_dim=32 --out sweep.jsonl
is "a row cut short is measured again" 0
json "the file is whole" -l sweep.jsonl
holds "and has all four" test "$(wc -l <sweep.jsonl)" = 4
fb sweep.jsonl
is "a results file is shown as a table" 0 out 'combined:max@host' out 'batch_size'

cat >partly.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 8 } },
  variants = {
    good = function(g, p) return g:input("x", { p.n }):relu() end,
    bad = function(g, p) if p.n > 8 then error("too large") end return g:input("x", { p.n }):tanh() end,
  },
}
LUA
fb run partly.lua none --set n=8,16 --out partly.jsonl
is "a failed case is a row with its reason" 1 out '✗ .*too large' err 'partly.lua:6: too large'
holds "beside those that went well" test "$(grep -c wall_us partly.jsonl)" = 3
holds "with its reason" grep -q '"failed":"[^"]*too large' partly.jsonl
cp partly.jsonl before
fb run partly.lua none --set n=8,16 --out partly.jsonl
is "a second run knows the failure" 1 err 'too large'
holds "and repeats nothing" cmp partly.jsonl before

cat >experiment.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 8 } },
  model = function(g, p) return g:input("x", { p.n }):relu():tanh() end,
  experiment = function(e)
    for c in e:sweep { plan = { "none", "max" }, n = { 8, 16 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, launches = r.launches, failed = r.failed })
    end
    e:plot { x = "n", y = "us", by = "plan" }
  end,
}
LUA
fb run experiment.lua --experiment --out experiment.jsonl
is "an experiment's rows as a table" 0 out 'launches' out 'max' out 'none'
holds "its rows and measurements are in the file" test "$(wc -l <experiment.jsonl)" = 8
cp experiment.jsonl before
fb run experiment.lua --experiment --out experiment.jsonl --format json
is "an experiment goes on where it stopped" 0
holds "and measures nothing again" cmp experiment.jsonl before
json "rows and plots as JSON" out rows#4 plots#1 rows.0.row.launches

# What is ranked is printed largest first, with its spread; what failed is said once, and what is not swept is known.
cat >ranked.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 8 }, m = fb.int { 5 } },
  model = function(g, p) return g:input("x", { p.n }):relu() end,
  plans = { graph = function(pl) pl:launch("graph") end },
  experiment = function(e)
    for c in e:sweep { plan = { "none", "max", "graph" }, n = { 8, 16 } } do
      local r = e:measure(c)
      local rate = c.plan == "max" and c.n * c.m or c.n
      e:row(c, { rate = not r.failed and rate or nil, low = rate / 2, high = rate * 2, failed = r.failed })
    end
    e:plot { y = "rate", low = "low", high = "high" }
    e:plot { x = "n", y = "rate", by = "plan", log = "x" }
  end,
}
LUA
fb run ranked.lua --experiment --set m=1000 --device host
is "an experiment's ranking" 0 out '^largest first  *rate  *spread' out '^max  n=16  *16 k  *8 k–32 k  █+░+$' \
    out '✗ .*graph.*\(2 cases, from graph  n=8 to graph  n=16\)'
holds "before it the largest of each, and what it was reached with" \
    grep -qE '^max  *16 k  *8 k–32 k  █+░+  max  n=16$' out
sed -n '/^largest/,$p' out | grep -o 'n=[0-9]*  *[0-9.]* k\{0,1\}' | tr -s ' ' | tr '\n' ';' >order
holds "largest first" grep -q '^n=16 16 k;n=8 8 k;n=16 16 *;n=8 8 *;$' order
fb run ranked.lua --experiment --device host --out ranked.jsonl
cp ranked.jsonl before
fb run ranked.lua --experiment --device host --out ranked.jsonl
holds "a failure that is known is not written again" cmp ranked.jsonl before
fb run ranked.lua --experiment --device host --format svg
is "its plots as a picture" 0 out '^<svg' out '>rate by model and setting<' out '>rate by n<' out '>The largest rate of each model<' out '>max  n=16<' out '</svg>$'

# A case that fails is a row, and the end of the run says so; one whose device is not there is left out.
cat >failing.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 8 } },
  model = function(g, p) if p.n == 8 then error("too small") end return g:input("x", { p.n }):relu() end,
  experiment = function(e)
    for c in e:sweep { plan = { "none", "max" }, device = { "host", "cuda:7" }, n = { 8, 16, 32 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median })
    end
  end,
}
LUA
fb run failing.lua --experiment --out failing.jsonl
is "an experiment of which cases fail" 1 err '^fusebox: 2 of 12 cases failed; the first: .*too small' out ' 32 '
fb run failing.lua --experiment --out failing.jsonl
is "and whose failures are known" 1 err '^fusebox: 2 of 12 cases failed; the first: .*too small' out ' 32 '
sed 's/p.n == 8/p.n == 7/' failing.lua >fine.lua
fb run fine.lua --experiment
is "what only lacks a device is left out" 0 out ' 32 '
sed 's/"host", //' fine.lua >away.lua
fb run away.lua --experiment
is "unless it is everything" 3 err1 'none of 6 cases could be measured here'

# What rounding alone may turn into anything is right in no useful sense.
cat >vague.lua <<'LUA'
return function(g)
  local x = g:input("x", { 64 })
  return 1 / (x * 1.1 - x * 0.7 - x * 0.4 + 1e-12)
end
LUA
fb check vague.lua
is "a result that nothing can be said of is not checked off" 0 out '^– max: not decided' no '✓'
fb run vague.lua max@host
is "nor is it in a table" 0 out '^max@host .* undecided ' no '✓'

# Limits that no float is: a kernel has the nearest one, also of an operand that is exact.
for dtype in f32 bf16 f16; do
    cat >limits.lua <<LUA
return function(g)
  return (g:input("x", { 6, 16 }, "$dtype") * 2):clamp(-0.7, 1.3)
end
LUA
    fb check limits.lua none max
    is "limits of a clamp are rounded in $dtype" 0 out '^✓ none' out '^✓ max'
done

# What the steps of a loop copy for a library is not there before the first one.
cat >copies.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  title = "copies in a loop",
  plans = { one = function(pl) pl:library("matmul") pl:library("matmul_2") pl:generate("loop") end },
  model = function(g)
    local x, w = g:input("x", { 5, 2, 3 }), g:param("w", { 3, 4 })
    local s, ys = g:scan({ x }, { g:zeros { 2, 3 } }, function(r, s)
      return { (s + r):tanh() }, { s:flip(1):matmul(w), g:rand({ 2, 3 }):matmul(w) }
    end)
    return s[1], ys[1], ys[2]
  end,
}
LUA
fb run copies.lua one@host
is "a loop whose steps copy a view and a random source" 0 out '^one@host .*✓'

# A library reads the copy of a view, and what follows it in the kernel what that is a view of: on the second set of
# inputs both have to be of the same.
cat >both.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  title = "a product and what it was made of",
  plans = { one = function(pl) pl:library("matmul") pl:fuse("matmul", "sub") end },
  model = function(g)
    local v = g:input("x", { 2, 2, 2 }):slice(2, 1, 2):reshape { 2, 2 }
    return v:matmul(v) - v
  end,
}
LUA
fb run both.lua one@host
is "a product's copies and their sources fit together" 0 out '^one@host .*✓'

# Rows of a run whose check was not finished, over a floor that is a guess.
cat >held.jsonl <<'ROWS'
{"script":"a.lua","params":{},"plan":"held","device":"host","source":"measured","wall_us":{"median":12.5,"n":4},"floor_us":2.5,"floor_kind":"guessed","error":{"state":"checking"}}
{"script":"a.lua","params":{},"plan":"right","device":"host","source":"measured","wall_us":{"median":12.5,"n":4},"floor_us":2.5,"error":{"max_rel":1e-7,"ok":true,"state":"right"}}
ROWS
fb held.jsonl
is "no answer before its check has ended, and a guess says so" 0 out '^held@host .* ~5.0 +checking' out '^right@host .* 5.0 +1e-07 ✓' \
    no '^held.*✓'

# Loads behind a test in a loop so short that a compiler writes it out: it may make vectors of them together, and gcc 12
# gives each the mask of the first.
cat >masked.lua <<'LUA'
return function(g)
  local parts = {}
  for i = 1, 4 do parts[i] = g:input("x" .. i, { 2, 3 }) end
  local rows = g:input("y", { 3, 5 }):pad({ 0, 1, 2, 0 }, -1):reshape { 30 }
  return g:cat(parts, 1):sum(), rows - rows:amax(0, true)
end
LUA
fb check masked.lua max
is "short loops that test each load" 0 out '^✓ max'

# A source is rounded to 16 bits once, not to f32 first.
for dtype in f16 bf16; do
    echo "return function(g) return g:rand({ 124, 5021 }, \"$dtype\", { dist = \"normal\" }):neg() end" >odd.lua
    fb check odd.lua max
    is "a source of normal numbers in $dtype" 0 out '^✓ max'
done
done_testing
