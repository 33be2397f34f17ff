#!/bin/sh
# fusebox run --trace: a file that Perfetto and Chrome read.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fb run split_stack combined:none combined:max $small --device host --trace t.json --format json
is "a trace beside the report" 0
json "one process a column, launches and kernels" t.json displayTimeUnit=ns traceEvents.0.ph=M traceEvents.0.pid=1 \
    traceEvents.0.name=process_name traceEvents.0.args.name=combined:none@host traceEvents.4.ph=X traceEvents.4.name \
    traceEvents.4.tid=1 traceEvents.4.ts traceEvents.4.dur traceEvents.5.tid=10
holds "the second is one kernel" test "$(grep -o '"ph":"X","pid":2' t.json | wc -l)" = 2
holds "busy is said" grep -q '"labels":"busy .* of ' t.json
fb run overlap both_ways:overlapped --set rows=64 --device host --trace t.json
is "of a plan that overlaps its copies" 0 out 'copied  *copies  *hidden'
holds "copies have lanes of their own" sh -c 'grep -q "feed batch.*\"tid\":8" t.json && grep -q "receive relu.*\"tid\":90" t.json'
fb run split_stack combined:max $small --device host --trace t.json --metrics
is "metrics that a device has not" 0 err1 'combined:max.*: the trace has no metrics: host has no metrics over time'
fb run split_stack combined:max --set batch_size=64,128 --set input_dim=32 --set num_inputs=2 --device host --trace t.json
is "of a sweep" 0
holds "each is named" grep -q 'combined:max@host batch_size=128"' t.json
fb run split_stack combined:max $small --device host --out r.jsonl
fb run split_stack combined:max combined:none $small --device host --out r.jsonl --trace t.json
is "what a results file holds does not run" 0 err1 'combined:max.* is not in the trace: it stands in r.jsonl already'
holds "the other is there" grep -q combined:none t.json
fb run split_stack combined:max $small --device host --trace no/such/t.json
is "a file that cannot be written" 1 err1 'no/such'
fb run split_stack combined:max $small --metrics
is "metrics without a file" 2 err1 'needs --trace FILE'
fb run split_stack --experiment --trace t.json
is "of an experiment" 2 err1 'of columns'
done_testing
