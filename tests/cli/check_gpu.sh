#!/bin/sh
# The scripts of `make check-gpu` (tests/gpu/check.sh), with programs that stand in for those that need a GPU: results come at once,
# parts can be chosen and limited, and a run that was stopped goes on where it was.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
once "every program in it stands in for another"
gpu=${FB_SRCDIR:-.}/tests/gpu
mkdir bin
# Two parts of two cases each. With "slow" in the folder the last case goes on until that is gone; with "bad" one fails.
cat >bin/check_gpu <<'END_OF_PROGRAM'
#!/bin/sh
done_file=/dev/null part=
while [ $# -gt 0 ]; do
    case $1 in
    --parts) printf 'scripts/a.lua:0/1\nscripts/b.lua:0/1\n' && exit 0 ;;
    --traffic) part=traffic ;;
    --part) part=$2 && shift ;;
    --done) done_file=$2 && shift ;;
    esac
    shift
done
[ -e "$FB_STAND_IN/none" ] && echo "1..0 # SKIP no CUDA GPU" && exit 77
n=0 failed=0
for case in one two; do
    grep -qsx "$part $case" "$done_file" && continue
    n=$((n + 1))
    while [ -e "$FB_STAND_IN/slow" ] && [ "$part $case" = "scripts/b.lua:0/1 two" ]; do touch "$FB_STAND_IN/stuck" && sleep 0.1; done
    [ -e "$FB_STAND_IN/bad" ] && [ "$part $case" = "scripts/a.lua:0/1 two" ] && failed=1 && echo "not ok $n - $part $case: bad, 0.1 s" &&
        continue
    echo "ok $n - $part $case: error/bound 0.1, 3 launches, $n.5 s"
    echo "$part $case" >>"$done_file"
done
echo "1..$n"
exit $failed
END_OF_PROGRAM
# Whoever is stuck has had its time: no test has to guess how long the others take.
cat >bin/timeout <<'END_OF_PROGRAM'
#!/bin/sh
[ "$1" = -k ] && shift 2
shift
"$@" &
while kill -0 $! 2>/dev/null; do
    if [ -e "$FB_STAND_IN/stuck" ] && [ -e "$FB_STAND_IN/time_is_over" ]; then
        kill $!
        wait $!
        rm "$FB_STAND_IN/stuck"
        exit 124
    fi
    sleep 0.05
done
wait $!
END_OF_PROGRAM
chmod +x bin/check_gpu bin/timeout
export FB_BUILD=$work/bin FB_STAND_IN=$work JOBS=1 FB_TEST_CACHE=$work/cache
unset PARTS LIMIT SHARE DONE

check() {
    env "$@" PATH="$work/bin:$PATH" sh "$gpu/check.sh" >out 2>err
    status=$?
}

check PARTS="plans traffic"
is "both parts, one numbering each" 0 out '^ok 4 - scripts/b.lua:0/1 two: .*, 2.5 s$' out '^1\.\.4$' out '^ok 2 - traffic two'
is "the slowest cases are named" 0 out '^# slowest: 2.5 s: scripts/[ab].lua:0/1 two$'

check PARTS=traffic
is "one part alone" 0 no 'scripts/a' out '^ok 2 - traffic'

check PARTS=plans SHARE=2/2
is "a share of the plans" 0 no 'scripts/a' out '^ok 2 - scripts/b.lua'
check PARTS=plans SHARE=3/2
is "no such share" 1 out "SHARE is K/N, with K from 1 to N, and not '3/2'"

touch bad
check PARTS="plans traffic"
is "a failure stays one" 1 out '^not ok 2 - scripts/a.lua:0/1 two' out '^# plans failed with status 1' out '^ok 2 - traffic'
rm bad

touch none
check PARTS="plans traffic"
is "no GPU: skipped" 77 out '^1\.\.0 # SKIP no CUDA GPU'
rm none

touch slow
env PARTS=plans sh "$gpu/check.sh" >live 2>&1 &
i=0
while [ $i -lt 600 ] && ! grep -qs '^ok 3 - scripts/b.lua:0/1 one' live; do sleep 0.1 && i=$((i + 1)); done
holds "results are there before the part ends" sh -c 'grep -q "^ok 3" live && ! grep -q "^1\.\." live'
rm slow
wait
rm -f stuck

touch slow time_is_over
check PARTS="plans traffic" LIMIT=500 DONE=passed
is "a part that runs out of time is not finished, the next one runs" 2 out '^# 1 of 2 parts ended within 500 s, 1 were stopped, 3 tests ran' \
    out '^# plans was not finished: 3 tests passed in 500 s' out '^ok 2 - traffic two'
rm slow
check PARTS="plans traffic" DONE=passed
is "the next run goes on where it was" 0 out '^ok 1 - scripts/b.lua:0/1 two' no 'ok 2' out '^# ---- traffic: done before'
check PARTS="plans traffic" DONE=passed
is "and then all is done" 0 out '^# ---- plans: done before' no '^ok'
done_testing
