#!/bin/sh
# What the machine around may be: its language (a comma for a point, another lower case of I), its clock (which jumps), and
# files longer than 32 bits can say. Figures, JSON, CSV, generated text and Lua's numbers stay as they are.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

# ---- languages ----

cat >mine.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  title = "Numbers with a point",
  params = { rate = fb.float { 0.125, min = 0, max = 1.5 } },
  model = function(g, p)
    assert(tostring(1.5) == "1.5" and tonumber("2.25") == 9 / 4 and string.format("%.2f", 0.5) == "0.50")
    return ((g:input("INPUT_i", { 64, 8 }) * p.rate):exp() + 0.001953125):sum(1)
  end,
  columns = { "none", "max" },
}
LUA

# speaking LOCALE ARGUMENT…   as fb, in that language
speaking() {
    LC_ALL=$1
    export LC_ALL
    shift
    fb "$@"
    LC_ALL=C.UTF-8
}

# said LOCALE   what commands say, in files of a folder of that name
said() {
    mkdir "$1"
    LC_ALL=$1
    export LC_ALL
    for format in table json csv; do
        fb run split_stack split_stack:eager combined:max --device replay:h200 --format $format
        cp out "$1/run.$format"
    done
    fb emit mine.lua max --target c
    cp out "$1/emit.c"
    fb emit mine.lua max --target cuda --set rate=0.75
    cp out "$1/emit.cu"
    fb export mine.lua max iii --as c --device host
    mv iii "$1/exported"
    fb run mine.lua none --set rate=0,5
    cp err "$1/comma"
    LC_ALL=C.UTF-8
    export LC_ALL
}

said C.UTF-8
json "what is compared is JSON" C.UTF-8/run.json columns.0.wall_us.median
holds "and has numbers with a point" grep -q '0\.125' C.UTF-8/emit.c
holds "a comma is no point in any language" test -s C.UTF-8/comma
printf 'return function(g)\n  return g:input("x", { 4, 6 }):relu():neg()\nend\n' >m.lua
fb eject m.lua max --kernel 1 own.c --device host
printf '1.0f' >factor.h
sed -i '1i __asm__(".data\\n.INCBIN \\"factor.h\\"\\n.text");' own.c
mkdir locales
for language in de_DE tr_TR; do
    LOCPATH=$work/locales
    export LOCPATH
    # warnings give it another status
    localedef -i $language -f UTF-8 "locales/$language.UTF-8" >out 2>err
    if [ "$(LC_ALL=$language.UTF-8 env printf %.1f 1 2>/dev/null)" != 1,0 ]; then
        : >out
        report ok "$language # SKIP there is no such language here, and it cannot be made"
        continue
    fi
    said $language.UTF-8
    diff -r C.UTF-8 $language.UTF-8 >out 2>&1
    status=$?
    is "$language: not a byte differs" 0
    : >out
    speaking $language.UTF-8 run mine.lua none max --device host --format json
    json "$language: it is measured and right" out columns.0.wall_us.median columns.0.error.ok=true columns.1.error.ok=true
    speaking $language.UTF-8 run m.lua own.json --trust --device host
    is "$language: a kernel whose assembly reads a file is seen in any case" 1 err '\.incbin'
done
unset LOCPATH
LC_ALL=C
export LC_ALL
fb run split_stack split_stack:eager combined:max --device replay:h200 --format json
holds "C: JSON is the same" cmp out C.UTF-8/run.json
LC_ALL=C.UTF-8
export LC_ALL

# ---- a clock that jumps ----

if sanitized || ! cc -shared -fPIC -O1 -o clock.so "$FB_SRCDIR/tests/cli/clock.c" -ldl 2>err; then
    report ok "a clock that jumps # SKIP nothing can be preloaded"
else
    jumping() {
        LD_PRELOAD=$work/clock.so timeout 300 "$FUSEBOX" "$@" >out 2>err </dev/null
        status=$?
    }
    jumping run mine.lua none max --device host --out rows.jsonl
    is "it is measured while the clock jumps" 0 out '✓'
    json "with times of this world" -l rows.jsonl
    holds "none of them below zero or a day long" awk '{ while (match($0, /"median":[-0-9.e+]+/)) { t = substr($0, RSTART + 9, RLENGTH - 9) + 0
        if (t < 0 || t > 60e6) bad = 1; n++; $0 = substr($0, RSTART + RLENGTH) } } END { exit bad || !n }' rows.jsonl
    jumping run mine.lua none max --device host --out rows.jsonl
    is "a second run goes on from it" 0
    jumping check mine.lua
    is "and what is cached serves" 0 out '^✓'
    calibrated
    jumping record mine.lua --device host --only plans --spread 1000 --out jumped.json.gz # disturbed or not
    is "a recording is made" 0
fi
find "$XDG_CACHE_HOME/fusebox/" -type f -exec touch -h -d '2 years' {} +
fb check mine.lua
is "files from the future are no worse than others" 0 out '^✓'

# ---- lengths beyond 32 bits ----

if truncate -s 5G huge.jsonl 2>err && ln huge.jsonl huge.lua && ln huge.jsonl huge.json; then
    fb huge.jsonl
    is "results of 5 GB are refused" 1 err1 'huge.jsonl: .*(large|long|bytes)'
    fb check huge.lua
    is "so is a script" 1 err1 'huge.lua'
    fb run mine.lua huge.json --device host
    is "so is a plan" 1 err1 'huge.json'
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (1280000000, 1), }" >huge.npy
    truncate -s $((128 + 4 * 1280000000)) huge.npy
    printf 'return function(g) return g:load("x", "huge.npy"):exp() end\n' >reads.lua
    fb check reads.lua none
    is "and a table, by its length in bytes" 1 out 'huge.npy: 5120000128 bytes is more than the limit'
    rm -f huge.*
else
    report ok "lengths beyond 32 bits # SKIP this folder holds no such file"
fi

done_testing
