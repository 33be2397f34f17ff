#!/bin/sh
# What inputs hold while a column is timed: noise, zeros or ones. Each shows it, none is compared with another, and the
# answer is checked with noise all the same.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

cat >m.lua <<'L'
local fb = require "fusebox"
return fb.script {
  model = function(g)
    local x = g:input("x", { 4096 })
    return (-x:exp()), (x + 1):sum()
  end,
}
L
fb run m.lua max 'max#zeros' 'max@host#ones' --out rows.jsonl
is "a column shows what it was timed with" 0 out 'max@host#zeros .* - ' out 'max@host#ones .* - ' out 'max@host  '
cp rows.jsonl before
fb run m.lua max 'max#zeros' 'max@host#ones' --out rows.jsonl --format json
is "each is a row of its own" 0
holds "and found again" cmp rows.jsonl before
json "a report says so, but for noise" out '!columns.0.values' columns.1.values=zeros columns.1.error.state=right \
    columns.1.error.scope=kernels columns.2.values=ones columns.2.error.state=right
fb run m.lua max 'max#noise' --values ones --format csv
is "--values is what columns have that do not say" 0 out ',ones,' out '^(script|.*m\.lua),.*,max,host,'
fb run m.lua 'max#nought'
is "there are no others" 2 err1 'no values "nought"; there are: noise, zeros, ones'
fb run m.lua max --values some
is "nor for all" 2 err1 'no values "some"; there are: noise, zeros, ones'
fb run split_stack 'combined:max@replay:h200#zeros'
is "a recording knows of noise alone" 3 err 'was recorded with noise for inputs, and knows nothing of zeros'

fb eject m.lua max --kernel exp_neg honest.c
is "a kernel to start from" 0 out 'honest.json'
other() { # CONDITION, on its input x; WHAT it does then beside its work
    {
        echo '#include <time.h>'
        sed 's/^void exp_neg_kernel(/static void honest(/' honest.c
        printf '\nvoid exp_neg_kernel(const fb_kernel_args *args)\n{\n    const float *x = args->buffers[0];\n'
        printf '    honest(args);\n    if (%s) %s;\n}\n' "$1" "$2"
    } >other.c
    sed 's/honest\.c/other.c/' honest.json >other.json
}
zeros='x[0] == 0 && x[1] == 0'
other "$zeros" 'nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL)'
fb run m.lua 'other.json#zeros' --trust --format json
is "it waits for zeros" 0
holds "which is what is timed" awk -F'[:,]' '/"median"/ { exit !($2 > 25000) }' out
other "$zeros" '((float *)args->buffers[1])[7] *= 1.01f'
fb run m.lua other.json --trust
is "wrong for zeros, and right for noise" 0 out '✓'
fb run m.lua 'other.json#zeros' --trust
is "the answer to what is timed is checked too" 1 err 'with zeros for inputs, ' no '✓'
other 'x[7] != 0' '((float *)args->buffers[1])[7] *= 1.01f'
fb run m.lua 'other.json#zeros' --trust
is "what zeros hide is found with noise" 1 err 'wrong result' no '✓'

done_testing
