#!/bin/sh
# Every decoder over the inputs that are kept for it, as they are, cut off at 63 places and changed in 200 ways.
replay=${FB_BUILD:-.}/tests/fuzz/replay
corpus=${FB_SRCDIR:-.}/tests/fuzz/corpus
n=0
for folder in "$corpus"/*/; do
    n=$((n + 1))
    name=$(basename "$folder")
    if said=$("$replay" "$name" "$folder"* 2>&1); then
        echo "ok $n - $said"
    else
        echo "not ok $n - $name"
        echo "$said" | tail -n 40 | sed 's/^/# /'
    fi
done
echo "1..$n"
