#!/bin/sh
# Guided by coverage from the inputs that are kept: guided.sh BUILD [DECODER…], FB_FUZZ_SECONDS (60) each. What is new
# goes to BUILD/found/DECODER; a finding is a file beside it, named by libFuzzer, and the end of this.
build=$1
shift
corpus=${FB_SRCDIR:-.}/tests/fuzz/corpus
[ $# -gt 0 ] || set -- $(ls "$corpus")
status=0
for name in "$@"; do
    mkdir -p "$build/found/$name"
    if FB_DECODER=$name "$build/tests/fuzz/libfuzzer" -max_total_time="${FB_FUZZ_SECONDS:-60}" -timeout=20 \
        -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 -artifact_prefix="$build/found/$name-" \
        "$build/found/$name" "$corpus/$name" >"$build/found/$name.log" 2>&1; then
        echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/found/$name.log") executions, fine"
    else
        echo "$name: a finding; the end of $build/found/$name.log:"
        grep -E 'ERROR|SUMMARY|does not hold|Test unit written' "$build/found/$name.log"
        status=1
    fi
done
exit $status
