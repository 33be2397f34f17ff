#!/bin/bash
# Predictions against the recordings that are carried: plans of presets and of the scripts' own, without edits (make bench
# judges those too). 30 % is what a prediction has to keep to, for 90 % of the kernels of scripts that the cost model was
# not tuned with, and for most of the long ones among them; what it keeps now is asked for, so that it gets no worse.
#
# On the H200 it keeps 96.1 % of 1,241 kernels of other scripts, 75.9 % of the 187 of them that take 5 µs and more, and
# 98.4 % of the 549 kernels it was tuned with. Only kernels that were recorded count: where a preset's rules have changed
# since, its new ones are not among them (at least 76 % of the long ones before the rules of inductor did, on the same
# recording). The long ones were 83 % before puzzlers 10 to 18 came: those ask about kernels that surprise, and the model
# does not foresee some of them: lookups that wait for each other (57 µs, 20 predicted), sums across rows (101 and 40).
# The models' own kernels are predicted as they were.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
#
# Of the carried recording 142 kernels have changed since, most of them products in single precision: those are left out
# (a kernel is looked up by what it holds, and a tile that is gone says nothing about one that came: 226 µs recorded with
# the old one of lstm's recomputed cells, 245 predicted for it, 13 for the new one). Of the others 95.7 % of 786 keep it,
# 71.2 % of the 104 long ones, 99.3 % of the 451 tuned with; and thirteen columns that scripts begin with are missing.
# Recorded again, both tests pass, and then say so (a TODO that passes is a failure).
stale='# TODO to be recorded again'
cost=${BENCH_COST:-$(dirname "$FUSEBOX")/tests/bench/bench_cost}
for recording in "$FB_SRCDIR"/scripts/recordings/*.json.gz; do
    "$cost" --presets --least 95 --least-long 75 --least-tuned 98 "$recording" "$FB_SRCDIR"/scripts/puzzlers/*.lua \
        "$FB_SRCDIR"/scripts/models/*.lua >out 2>err </dev/null
    status=$?
    is "predictions agree with $(basename "$recording") $stale" 0 out 'all +[1-9][0-9]+'
    is "and it has the columns that scripts begin with $stale" 0 out '[1-9][0-9]* columns that scripts begin with, 0 of them not'
done
done_testing
