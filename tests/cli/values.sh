#!/bin/sh
# fusebox values: what a node of a column holds.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

cat >known.lua <<'LUA'
return function(g)
  local x = g:arange(12, "f32"):view(3, 4)
  return (x - 4):sqrt():relu() + 1
end
LUA
fb values known.lua none sqrt --device host
is "shape, dtype, statistics, corner, histogram and error" 0 out '^sqrt +f32\[3,4\] +12 elements, stored by sqrt$' \
    out '^ *min +max +mean +deviation +zeros +NaN +inf$' out '^ *0 +2\.64[0-9]* +1\.68[0-9]* +.* 1 +4 +0$' \
    out '^\[1,0\] +0 +1 +1\.4142 +1\.7321$' out '^\[0,0\] +NaN' out '^ *from +elements' \
    out 'error against the reference: largest .* ✓$'
fb values known.lua none sqrt --device host --format json
is "JSON on stdout, nothing else" 0 no '^fusebox:'
json "the same as JSON" out fusebox=3 plan=none device=host values.node=sqrt values.dtype=f32 values.shape#2 \
    values.elements=12 values.nan=4 values.inf=0 values.zeros=1 values.histogram#16 values.corner#3 \
    values.corner.0.0=NaN values.corner.1.1=1.0 values.error.ok=true values.error.compared=12
fb values known.lua max sqrt --device host
is "inside a kernel that never stores it: which, and what to cut" 1 \
    err1 'sqrt is inside the kernel [a-z_]+, which never stores it: cut it from relu '
fb values known.lua max root --device host
is "a node that is not there is a usage error" 2 err1 'no node "root"'
fb values known.lua none sqr --device host
is "the nearest name" 2 err1 'did you mean "sqrt"'

fb values models/mlp_train grad:max fc1_bias --set hidden=16 --set inputs=8 --device host
is "of a parameter what training leaves in it" 0 out 'fc1_bias +f32\[16\] .*what a run leaves in it' \
    out 'error against the reference: .* ✓'
fb values models/mlp_train grad:max x --set hidden=16 --set inputs=8 --device host
is "an input is what is given" 0 out 'x +f32.*given, feed' out 'no error: it is what the graph is given'
fb values models/mlp_loop carried:eager sigmoid --set hidden=16 --device host
is "of a loop's body the last step" 0 out 'in the last step of its loop' out ' ✓$'
fb values models/mlp_loop carried:eager result --set hidden=16 --device host
is "what a loop leaves" 0 out 'stored by its loop' out ' ✓$'

fb values models/transformer forward:none encoder_layer.self_attn.attention.matmul_2 --device host
is "what lies as it is read, in its own order" 0 out 'matmul_2 +f32\[8,4,16,16\]' out ' ✓$'
fb values models/transformer forward:none encoder_layer.self_attn.view_2 --device host
is "and a view of it as it lies" 0 out 'view_2 +f32\[8,16,64\].* as encoder_layer\.self_attn\.attention\.matmul_2' out ' ✓$'

# A kernel made wrong: its values are shown, with where they are off.
fb eject known.lua none own.c --kernel add --device host
sed 's/\(\[[^]]*\] = \)\(.*\);/\1(\2) * 1.5f;/' own.c >wrong.c && mv wrong.c own.c
fb values known.lua own.json add --device host --trust
is "what a wrong kernel stores is shown, and where it is off" 1 out '✗' out '^ +\[[0-9],[0-9]\] .*expected .* off by' out '^wrong: '

fb values split_stack combined:max@replay:h200 relu
is "a recording has none, in a sentence" 3 err1 'a recording keeps figures and no values.*max@host'
fb values split_stack combined:eager@torch relu
is "a framework shows none, in a sentence" 3 err1 '(shows no values of its own|torch)'
fb values known.lua none
is "a node is missing" 2 err1 'an argument is missing'
fb values known.lua none sqrt --format csv
is "formats are table and json" 2 err1 'there are: table, json'

# What tests of PyTorch's values read references with follows the format, also where there is no PyTorch.
case ${FB_SRCDIR:-.} in /*) reader=$FB_SRCDIR ;; *) reader=$OLDPWD/${FB_SRCDIR:-.} ;; esac
reader=$reader/tests/cli/reference_file.py
if command -v python3 >/dev/null; then
    cat >halves.lua <<'LUA'
return function(g)
  return g:arange(12, "f32"):view(3, 4) * 0.5, g:arange(3, "i64") + 7
end
LUA
    fb run halves.lua none --device host
    hash=$("$FUSEBOX" graph halves.lua --format json | sed -n 's/.*"hash": *"\([0-9a-f]*\)".*/\1/p')
    python3 "$reader" "$XDG_CACHE_HOME/fusebox/reference" "$hash" >out 2>err
    status=$?
    is "a reference is read from its file" 0 out '^0 [0-9]+ 12 0 0\.5 1 1\.5$' out '^0 [0-9]+ 3 7 8 9$'
fi
done_testing
