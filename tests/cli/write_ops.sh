#!/bin/sh
# write_ops.sh FUSEBOX SRCDIR [--check]: writes the parts of files that are made from engine/graph/ops.def, each between
# the two lines that say so. With --check nothing is written, and a part that differs is told.
fusebox=$1 root=$2 check=${3:-} status=0
begin='made from engine/graph/ops.def by `make ops`' end='end of what is made from ops.def'

new=$(mktemp) || exit 99
trap 'rm -f "$new" "$new.part"' EXIT

part() { # FILE FORMAT
    "$fusebox" ops --format "$2" >"$new.part" || exit 99
    awk -v begin="$begin" -v end="$end" -v part="$new.part" '
        index($0, end) { while ((getline line < part) > 0) print line; inside = 0; ends++ }
        !inside { print }
        index($0, begin) { inside = 1; begins++ }
        END { exit begins != 1 || ends != 1 }' "$root/$1" >"$new" || {
        echo "$1: the lines around the part made from ops.def are not there" >&2
        exit 99
    }
    cmp -s "$new" "$root/$1" && return
    if [ -n "$check" ]; then
        echo "$1: not what engine/graph/ops.def says; run \"make ops\"" >&2
        status=1
    else
        cat "$new" >"$root/$1"
        echo "$1"
    fi
}

part scripts/fusebox.d.lua lua
part scripts/import/torch_graph.py python
part scripts/workers/torch_worker.py python
part scripts/workers/onnxruntime_worker.py onnx
exit $status
