#!/bin/sh
# What tests have run of engine/ and tui/, by folder, from a build with --enable-coverage: lines, and branches that were
# taken at least once. Then the lines of legality, sandbox and trust that nothing has run.
#
#     coverage.sh BUILD SOURCES
#
# Exit status 1 below the targets: branches of engine/ 90 %, lines of those files 100 %.
set -eu
cd "$1"
sources=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict='engine/judge/legality.c engine/script/sandbox.c engine/code/consent.c'

# FILE LINES RUN BRANCHES TAKEN, a line each
find engine tui -name '*.gcno' | LC_ALL=C sort | while read -r notes; do
    gcov -b -n -o "$(dirname "$notes")" "$notes" 2>/dev/null || true # what was built anew since it ran has no counts
done | awk -v top="$sources/" '
    function of(text) { sub(/^[^:]*:/, "", text); return text * n(text) / 100 }
    function n(text) { sub(/.* of /, "", text); return text }
    function out() { if (file ~ /^(engine|tui)\/.*\.c$/) printf "%s %d %.0f %d %.0f\n", file, lines, run, branches, taken }
    /^File / { out(); file = $2; gsub(/\x27/, "", file); sub(/^(\.\.\/)+/, "", file); if (index(file, top) == 1) file = substr(file, length(top) + 1)
               lines = run = branches = taken = 0 }
    /^Lines executed/ { lines = n($0); run = of($0) }
    /^Taken at least once/ { branches = n($0); taken = of($0) }
    /^$/ { out(); file = "" }
    END { out() }' >"$work/files"

awk '
    function add(name) { lines[name] += $2; run[name] += $3; branches[name] += $4; taken[name] += $5 }
    function share(a, b) { return b ? sprintf("%5.1f %%", 100 * a / b) : "      -" }
    function show(name) { printf "%-20s %6d %s %7d %s\n", name, lines[name], share(run[name], lines[name]), branches[name], share(taken[name], branches[name]) }
    { split($1, part, "/"); folder = part[1] "/" part[2]
      if (!(folder in lines)) order[++k] = folder
      add(folder); add(part[1]) }
    END { printf "%-20s %6s %7s %7s %7s\n", "", "lines", "run", "branch.", "taken"
          for (i = 1; i <= k; i++) show(order[i])
          show("engine"); if ("tui" in lines) show("tui")
          exit branches["engine"] && taken["engine"] < 0.9 * branches["engine"] }' "$work/files" && status=0 || status=1

echo
for file in $strict; do
    awk -v file="$file" '$1 == file { printf "%s: %d of %d lines, %d of %d branches\n", $1, $3, $2, $5, $4 }' "$work/files"
    notes=$(find "$(dirname "$file")" -name "*$(basename "$file" .c).gcno" | head -n 1)
    [ -n "$notes" ] || continue
    gcov -t -o "$(dirname "$notes")" "$notes" 2>/dev/null | awk -F: -v want="/${file#engine/}" '
        / *-: *0:Source:/ { on = index("/" $0, want) } on && $1 ~ /#####/ { sub(/^[^:]*:/, ""); print "    not run " $0; bad = 1 }
        END { exit bad }' || status=1
done
exit $status
