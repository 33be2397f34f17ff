#!/bin/sh
# Bad input: one clear line on stderr, the documented exit status, nothing on stdout.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fb run nothing.lua
is "a missing script" 1 err1 '^fusebox: nothing.lua: No such file or directory' no .
fb nothing.lua
is "a missing script without a command" 1 err1 'nothing.lua: No such file or directory'
fb run .
is "a folder is no script" 1 err1 '^fusebox: \.: '
fb run split_stak
is "a bundled script misspelt" 1 err1 'did you mean the bundled script "split_stack"'

printf 'return {\n  x = = 1,\n}\n' >syntax.lua
fb run syntax.lua
is "a syntax error names the line" 1 err '^fusebox: syntax.lua:2: ' err '^ +2 \|   x = = 1,' err '^ +\|   \^'
printf 'return function(g)\n  local x = g:input("x", {4})\n  return x:nonsense()\nend\n' >unknown.lua
fb run unknown.lua
is "an unknown op names the line" 1 err 'unknown.lua:3: .*nonsense'
printf 'return function(g)\n  error("mine alone")\nend\n' >raise.lua
fb run raise.lua
is "an error of the script's own" 1 err 'raise.lua:2: mine alone'
printf 'return function(g)\n  local x = g:input("x", {4, 6})\n  return x:view(5, 5)\nend\n' >shape.lua
fb run shape.lua
is "a shape mismatch names line, op and shapes" 1 err 'shape.lua:3: .*view.*f32\[4,6\]'
printf 'while true do end\n' >endless.lua
fb run endless.lua
is "a script without end is stopped" 1 err 'endless.lua'
printf 'return function(g)\n  while true do end\nend\n' >later.lua
fb run later.lua
is "a variant without end is stopped" 1 err 'later.lua'
: >empty.lua
fb run empty.lua
is "an empty script" 1 err 'empty.lua'
head -c 100 /dev/urandom >noise.lua
fb run noise.lua
is "noise instead of a script" 1 err 'noise.lua'

fb run split_stack eagr
is "an unknown preset" 2 err1 'no preset or plan "eagr"; did you mean "eager"' no .
fb run split_stack split_stak:eager
is "an unknown variant" 2 err1 'no variant "split_stak"; did you mean "split_stack"'
fb run split_stack combined
is "a variant where a plan should be" 2 err1 '"combined" is a variant, not a plan'
fb run split_stack max@cuda:9
is "an unknown device in a column" 3 err1 'no device "cuda:9"'
fb run split_stack --device hots
is "an unknown default device" 3 err1 'no device "hots"; did you mean "host"'
fb run split_stack @host
is "a column without a plan" 2 err1 'is no column'
fb run split_stack --set batch_sice=64
is "an unknown parameter" 2 err1 'no parameter "batch_sice"; did you mean "batch_size"'
fb run split_stack --set batch_size=many
is "a parameter of the wrong kind" 2 err1 'parameter "batch_size" must be a whole number'
fb run split_stack --set batch_size=1
is "a parameter out of its range" 2 err1 'parameter "batch_size" must be at least 64'
fb run split_stack --set batch_size=64,1
is "a wrong value further on in a sweep" 2 err1 'parameter "batch_size" must be at least 64'
fb run split_stack --set dtype=f31
is "an unknown choice" 2 err1 'choice of parameter "dtype" "f31"'
fb run split_stack --set batch_size
is "--set without a value" 2 err1 'name=value'
fb run split_stack --set batch_size=64,,128
is "--set with an empty value" 2 err1 'a value is missing'
fb run split_stack --format pdf
is "a format that does not exist" 2 err1 'no format "pdf"'
fb run split_stack ./no.json
is "a missing plan file" 1 err1 'no.json: no such plan file'
echo '{"fusebox_plan":1,"graph":"00000000000000000000000000000000","launch":"stream","groups":[{"nodes":["nobody"]}]}' >other.json
fb run split_stack combined:other.json $small
is "a plan file for another graph" 1 err 'other.json.*nobody'
echo '{"fusebox_plan":' >broken.json
fb explain split_stack combined:broken.json $small
is "a broken plan file" 1 err1 'broken.json: not valid JSON'
echo '{"nodes": 3}' >graph.json
fb run graph.json
is "a JSON file that is no graph" 1 err1 'graph.json'
fb run split_stack max --worker false $small
is "a worker that ends at once is said, and does no harm to others" 0 out 'max@host' err1 '^fusebox: false: '
fb explain split_stack combined:none --edge layer_nrm.mean tanh $small
is "an unknown node" 2 err1 'no node "layer_nrm.mean"'
fb explain split_stack none
is "a plan alone is one column a variant for explain" 0 out '^split_stack: ' out '^combined: '
fb emit split_stack max
is "emit wants one column" 2 err1 'is 2 columns'
fb emit split_stack combined:max --target cobol
is "an unknown target" 2 err1 'no target "cobol"'
fb run split_stack --experiment max
is "an experiment chooses its columns" 2 err1 'chooses its own columns'
printf 'return function(g)\n  return g:input("x", {4}):relu()\nend\n' >plain.lua
fb run plain.lua --experiment
is "no experiment to run" 1 err1 'no experiment'
echo 'not json' >rows.jsonl
fb run plain.lua none --out rows.jsonl
is "a results file that is none" 1 err1 'rows.jsonl:1: '
holds "is left alone" grep -q 'not json' rows.jsonl
# shellcheck disable=SC2123  # no compiler, no anything
PATH=/nonexistent
export PATH
XDG_CACHE_HOME=$work/fresh /usr/bin/timeout 300 "$FUSEBOX" run plain.lua none >out 2>err </dev/null
status=$?
PATH=/usr/bin:/bin
is "no compiler" 3 err 'compiler|cc'
done_testing
