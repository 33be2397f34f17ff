#!/bin/sh
# fusebox fuzz: some graphs, the same every time, so that what fails once fails again (FB_FULL=1: a minute of fresh
# seeds); findings with a compiler that is wrong, and one whose kernels crash.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

if [ -n "${FB_FULL:-}" ]; then
    fb fuzz --time 60 --count 1000000 --plans 4
else
    first=770001 count=18
    # a third of the seeds a turn
    if [ -n "${FB_TURN:-}" ]; then first=$((first + 6 * (FB_TURN % 3))) count=6; fi
    fb fuzz --seed $first --count $count --plans 4
fi
is "random graphs under random plans compute what the reference says" 0 out '^✓ host, seed [0-9]+: [0-9]+ graphs, .* 0 findings'
sed 's/^/# /' out

# What was found once, made small.
i=0
for graph in "${FB_SRCDIR:-.}"/tests/data/found/*.graph.json; do
    i=$((i + 1))
    our_turn $i || continue
    fb run "$graph" "${graph%.graph.json}.plan.json@host"
    name=${graph##*/}
    is "found once: ${name%.graph.json}" 0 out '✓'
done

# A mean of equal values less one of them is 0 by one reference, and 1e-17 by the other: whether it is 0 was decided by both.
fb fuzz --seed 93003837 --count 1 --plan 0
is "found once: two references that decide otherwise" 0 out ' 0 findings'

fb fuzz --seed 3 --count 4 --plans 2 --jobs 1
is "a seed and a count are a run" 0 out 'seed 3: 4 graphs, 8 plans'
fb fuzz --seed 7 --count 1 --plan 3
is "so is one plan of one graph" 0 out 'seed 7: 1 graphs, 1 plans'
holds "kernels are judged on what they were given" grep -q '; [1-9][0-9]* kernels on what they were given' out
fb fuzz --seed 5 --count 2 --plans 3 --coverage
is "what plans came by is a table" 0 out '^[0-9]+ of [0-9]+ rows were reached by none of 6 plans' out '^ +[1-9][0-9]*  verdict +fine' out \
    '^ +0  place +plan/'
holds "that begins with what none did" [ "$(sed -n 3p out | cut -c1-12)" = "         0  " ]
fb fuzz --seed many
is "a seed is a number" 2 err1 'fuzz: --seed many: a whole number is needed'
fb fuzz --device tpu:0
is "an unknown device is refused" 3 err1 'tpu'

REAL_CC=${CC:-cc}
export REAL_CC

# A compiler that gets maxima wrong: the operands of a comparison are exchanged.
cat >wrong-cc <<'END'
#!/bin/sh
for arg; do
    case $arg in
    */prelude.h) ;;
    *.c) d=${arg%/*}; sed -i 's/fb_maxf(/fb_minf(/g' "$d"/[0-9]*.c ;;
    esac
done
exec "$REAL_CC" "$@"
END
chmod +x wrong-cc
CC=$work/wrong-cc fb fuzz --seed 640 --count 3 --plans 2 --most 1 --out found
is "wrong kernels are found, made small and written" 1 out '^✗ seed [0-9]+ plan [0-9]+ wrong: ' out 'fusebox run found/[0-9]+-[0-9]+\.graph\.json'
graph=$(ls found/*.graph.json 2>/dev/null) plan=$(ls found/*.plan.json 2>/dev/null)
holds "to a handful of nodes" test "$(grep -c '"op":' "$graph")" -le 8
fb run "$graph" "$plan@host"
is "a compiler that is right computes it right" 0

if [ -n "${FB_FULL:-}" ]; then
    # One that is wrong where kernels of many cases stand in one file.
    sed 's|sed -i .*;;|for f in "$d"/[0-9]*.c; do [ "$(grep -c ^void "$f")" -lt 20 ] \|\| sed -i "s/fb_maxf(/fb_minf(/g" "$f"; done ;;|' \
        wrong-cc >joined-cc
    chmod +x joined-cc
    CC=$work/joined-cc fb fuzz --seed 600 --count 6 --plans 2 --most 1 --trials 0 --out joined
    is "what is wrong only among others is tried again among them" 1 out 'not alone, and 3 of 3 times again among graphs 600 to 605: '
fi

cat >crash-cc <<'END'
#!/bin/sh
for arg; do
    case $arg in
    *.c) d=${arg%/*}; sed -i '/static\|#/!s/fb_maxf(/(*(volatile int *)8 = 1, fb_maxf)(/g' "$d"/[0-9]*.c ;;
    esac
done
exec "$REAL_CC" "$@"
END
chmod +x crash-cc
CC=$work/crash-cc fb fuzz --seed 600 --count 3 --plans 2 --most 1 --trials 30 --out crashed
is "kernels that crash are a finding, not the end" 1 out '^✗ seed [0-9]+ plan [0-9]+ crashed: '

mkdir tmp
TMPDIR=$work/tmp "$FUSEBOX" fuzz --seed 600 --count 100000 --plans 40 --jobs 2 >out 2>err </dev/null &
fuzz=$!
# patiently COMMAND…: until it succeeds, five minutes at most
patiently() {
    for _ in $(seq 3000); do
        "$@" && return
        sleep 0.1
    done
}
patiently sh -c '[ -n "$(ls tmp)" ]'
kill -INT $fuzz
patiently sh -c "! kill -0 $fuzz 2>/dev/null"
kill -KILL $fuzz 2>/dev/null && echo "it goes on" >>err
wait $fuzz
holds "who stops it does not wait for rounds to end" sh -c '! grep -q "it goes on" err'
holds "what there was is said" grep -q '^stopped: host, seed 600: [0-9]* graphs' out
holds "and nothing is left behind" [ -z "$(ls tmp)" ]
done_testing
