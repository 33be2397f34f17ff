#!/bin/sh
# What the sources promise of themselves: arrows between folders point down, and devices are asked what they can do,
# never who they are.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
once "it reads sources"

srcdir=$(cd / && cd "${FB_SRCDIR:-.}" && pwd)
: >out
: >err
# A search of the sources, by their paths from the top.
sources() { (cd "$srcdir" && grep "$@"); }

# Folders from the ground up; a file includes what stands below it or beside it in its own folder.
house="base graph interp target nest schedule judge plan decide code device measure worker workshop script session tui"
below=" config.h "
for folder in $house; do
    below="$below$folder "
    where=engine/$folder
    [ "$folder" = tui ] && where=tui
    up=$(sources -rnoE --include='*.[ch]' '^ *#include "[a-z_]+/' "$where" | sed 's/ *#include "//; s/\/$//' |
        while IFS=: read -r file line to; do
            case "$below" in *" $to "*) ;; *) echo "$file:$line: $to" ;; esac
        done)
    if [ -z "$up" ]; then report ok "$folder includes nothing above it"; else report not-ok "$folder includes: $up"; fi
done

# A comment that names a file names one that is there: files move, and comments stay. (Those of libraries, of the build,
# of one's own and of a cache are not ours.)
others='cblas\.h|dnnl_(types|config)\.h|embedded_files\.c|(name|gelu|lora|a|3)\.[ch]|code\.h'
sources -rhoE --include='*.[ch]' '(/\*|^ \*).*' engine tui | grep -oE '[a-z0-9_]+\.(c|h|cuh|def)\b' |
    LC_ALL=C sort -u | grep -vxE "$others" >named
(cd "$srcdir" && find engine tui kernels tests -name '*.[ch]' -o -name '*.cuh' -o -name '*.def') | sed 's/.*\///' |
    LC_ALL=C sort -u >there
gone=$(LC_ALL=C comm -23 named there)
if [ -s named ] && [ -z "$gone" ]; then report ok "comments name files that are there"; else report not-ok "no such files: $gone"; fi

# Which files outside of device/ and target/ name a device's kind, a target's row or a language.
identity='FB_DEVICE_[A-Z]+|FB_LANGUAGE_[A-Z]+|fb_target_(c|cuda|foreign)\b'
named=$(sources -rlE --include='*.[ch]' "$identity" engine tui | grep -vE '^engine/(device|target)/' | LC_ALL=C sort | tr '\n' ' ')
# printer.c is the list of printers, one a language.
wanted="engine/code/printer.c "
if [ "$named" = "$wanted" ]; then
    report ok "nobody asks who a device is"
else
    report not-ok "files that name a device or target: $named; expected: $wanted"
fi

# Nor by a device's name, which only messages between processes may hold ("host" is also a key of theirs).
# What PyTorch calls a device is PyTorch's.
named=$(sources -rnE --include='*.[ch]' '(\(|[?:=] )"(cuda|host)"' engine tui |
    grep -vE '^engine/(device/|target/|code/export_torch\.c:|measure/report\.c:)')
if [ -z "$named" ]; then report ok "nor by its name"; else report not-ok "a device's name: $named"; fi

# What was written is known where it was written: nobody searches a kernel's text for it (code/needs.h, code/statement.h).
search='(strstr|strchr|strrchr|strpbrk|strncmp|memmem|memcmp|strcasestr|regexec|sscanf)\('
found=$(sources -rnE --include='*.[ch]' "$search[^;]*\b(source|whole)\b" engine/code engine/device)
if [ -z "$found" ]; then report ok "no source is searched"; else report not-ok "source is searched: $found"; fi
# Files of the user's own are: for their comment's lines, for what they use, for their comments.
found=$(sources -rlE --include='*.[ch]' '\b(strstr|memmem|strcasestr|regexec)\(' engine/code | LC_ALL=C sort | tr '\n' ' ')
wanted="engine/code/eject.c engine/code/printer.c engine/code/program.c "
if [ "$found" = "$wanted" ]; then
    report ok "but a user's own"
else
    report not-ok "files that search text: $found; expected: $wanted"
fi

# What two modules need is decided once. Steps of a tensor that lies row by row: beside its shape
# (index.c numbers the points of loops, which may be more than a shape has).
steps=$(sources -rnE --include='*.[ch]' '\b(step|stride|expect)s?(\[[a-z]\])? \*= [^;]*\bdims?\[' engine tui |
    grep -vE '^engine/graph/(graph|index)\.c:')
if [ -z "$steps" ]; then report ok "strides are computed in one place"; else report not-ok "strides: $steps"; fi
# The contractions of a kernel: when its nodes are put together.
where='\b(k|kernel|group)(\.|->)nodes\[[^;]*FB_CLASS_CONTRACTION'
found=$(sources -rnE --include='*.[ch]' "$where" engine tui)
if [ -z "$found" ]; then report ok "and so are a kernel's contractions"; else report not-ok "contractions: $found"; fi
# Which group of a plan is no kernel, and what reads a value: by a search of plan/.
found=$(sources -rnE --include='*.c' '\bfb_(plan_group_refusal|slots_computing)\(' engine tui | grep -v '^engine/plan/')
if [ -z "$found" ]; then report ok "a plan is searched by plan/"; else report not-ok "searches by hand: $found"; fi
# What a nest is: its kind, and not which of its parts are there.
part='nest->(tiled|chain|accumulator)'
flags=$(sources -rnE --include='*.[ch]' "$part( [!=]= FB_NONE)? (&&|\|\|) !?([a-z]+->)*$part( |\)|;|\$)" engine)
if [ -z "$flags" ]; then report ok "a nest is of one kind"; else report not-ok "several flags: $flags"; fi
# And what its family can do, in the family's row. rows.c tells copies that no family's group asked for.
asked=$(sources -rlE --include='*.[ch]' 'family [!=]= FB_FAMILY_' engine | LC_ALL=C sort | tr '\n' ' ')
wanted="engine/measure/rows.c "
if [ "$asked" = "$wanted" ]; then
    report ok "nobody asks which family it is of"
else
    report not-ok "files that ask for a family: $asked; expected: $wanted"
fi

# Nor are the table's own rows told apart by the nest they ask for.
found=$(sources -rnE --include='*.[ch]' '(row|\])(->|\.)kind [!=]= FB_NEST_' engine/judge)
if [ -z "$found" ]; then report ok "a family's row says what it is"; else report not-ok "rows by kind: $found"; fi

# How a kernel is dealt to threads is decided in schedule/, from its knobs; what writes it out reads what was decided.
decided='FB_KNOB_|knobs->value|fb_gemm_tile_of\(|fb_schedule_chain_tile\('
found=$(sources -rnE --include='*.[ch]' "$decided" engine/code)
if [ -z "$found" ]; then report ok "a schedule is decided once"; else report not-ok "decided in code/: $found"; fi

# Nor what is missing in a tile, or what a row of its sums has: of a tile's epilogue, by cost and code (schedule/tile.h).
found=$(sources -rnE --include='*.[ch]' '\bt->(rows|columns) % [a-z>.-]*(tile\.|x->m\b|strip)' engine/code engine/schedule |
    grep -v '^engine/schedule/tile\.c:')
if [ -z "$found" ]; then report ok "a tile's epilogue too"; else report not-ok "decided beside tile.c: $found"; fi

# What a kernel would be without one of its knobs, in knobs.c: one that is not set is not set by hand elsewhere.
found=$(sources -rnE --include='*.[ch]' 'value\[FB_KNOB_[A-Z_]+\] = ' engine tui | grep -v '^engine/schedule/knobs\.c:')
if [ -z "$found" ]; then report ok "a pipeline's usual stages too"; else report not-ok "knobs set by hand: $found"; fi

# Knobs that nobody gave are read by one function, and there is one set that says nothing.
found=$(sources -rnE --include='*.[ch]' 'fb_knobs automatic\b|knobs \? knobs->value' engine tui |
    grep -v '^engine/schedule/knobs\.h:')
if [ -z "$found" ]; then report ok "so is what no knob says"; else report not-ok "knobs that may be missing: $found"; fi

# A warp's threads are the target's to tell.
warps=$(sources -rnE --include='*.[ch]' 'threadIdx\.x [/%]+ 32|\bFB_WARP\b' engine)
if [ -z "$warps" ]; then report ok "no warp size is written down"; else report not-ok "warp sizes: $warps"; fi

# The first word of a public function's name says which folder it lives in.
words=$(sources -rE --include='*.h' '^[a-z][^(]*\bfb_[a-z0-9_]+\(' engine tui | grep -vE '^[^:]*:(typedef|return)\b' |
    sed -E 's/^([a-z]+\/[a-z]+)[^:]*:[^(]*\bfb_([a-z0-9]+)[a-z0-9_]*\(.*/\2 \1/' | LC_ALL=C sort -u)
shared=$(echo "$words" | awk '{ n[$1]++; in_[$1] = in_[$1] " " $2 } END { for (w in n) if (n[w] > 1) print "fb_" w "_" in_[w] }')
if [ "$(echo "$words" | wc -l)" -gt 100 ] && [ -z "$shared" ]; then
    report ok "a prefix is one folder's"
else
    report not-ok "prefixes of several folders: $shared"
fi
done_testing
