#!/bin/bash
# The man page and the completion know every command and the keys they promise.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
page=$FB_SRCDIR/docs/man/fusebox.1
fb --help
commands=$(sed -n '/^Commands:/,/^Without/s/^  \([a-z]\{1,\}\) .*/\1/p' out; grep -oE '^  (devices|worker|fuzz)' out)
holds "--help lists commands" test "$(echo "$commands" | wc -w)" -gt 9
missing=
for c in $commands; do
    grep -qE "^\.BI? $c( |$)" "$page" || missing="$missing $c"
    for shell in fusebox _fusebox fusebox.fish; do
        grep -qE "commands[= ].*\b$c\b" "$FB_SRCDIR/docs/completion/$shell" || missing="$missing $shell:$c"
    done
done
echo "$missing" >err
holds "every command is in man page and completion" test -z "$missing"

# What completes after some words.
complete_words() {
    bash -c '. "$1"; shift; PATH=$(dirname "$FUSEBOX"):$PATH; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fusebox; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$FB_SRCDIR/docs/completion/fusebox" "$@" >out 2>err
    status=$?
}
complete_words "$FUSEBOX" ex
is "a command's beginning is completed" 0 out '^explain$'
complete_words "$FUSEBOX" run lstm_s
is "so is a bundled script's" 0 out '^lstm_step$'
complete_words "$FUSEBOX" run --for
is "and an option's" 0 out '^--format$'
complete_words "$FUSEBOX" emit lstm_step x --target pt
is "and a target's" 0 out '^ptx$'
# Reasons of decisions: each row of docs/messages.md as a regular expression, and what scripts give is held against them.
sed -n '/^## Decisions/,$s/^| \(.*\) | .* |$/\1/p' "$FB_SRCDIR/docs/messages.md" |
    sed -e 's/[][().*+?{}|^$\\]/\\&/g' -e 's/…/.*/g' -e 's/^/^/; s/$/$/' >reasons
for script in split_stack attention mlp_train; do
    for plan in auto max eager inductor xla tinygrad; do
        fb explain "$script" "$plan" --steps --device replay:h200
        sed -nE 's/^ +[0-9]+  (taken|refused|unable) +[^:]*: //p' out | tr -d '`' >>given
    done
done
grep -vEf reasons given | sort -u >err
holds "decisions have reasons" test "$(sort -u given | wc -l)" -gt 50
holds "and docs/messages.md explains them" test ! -s err

# docs/ARCHITECTURE.md follows one kernel: its blocks are what the commands print.
guide=$FB_SRCDIR/docs/ARCHITECTURE.md
block() { # LANGUAGE or COMMAND: the first block of code in that language, or the one below that command
    awk -v want="$1" '/^```/ { if (on) exit; on = $0 == "```" want || below; next } on { print } !on { below = below || $0 == "    $ " want }' "$guide"
}
block lua >rms.lua
block "fusebox graph rms.lua" >said
fb graph rms.lua
holds "the graph" cmp said out
block "fusebox explain rms.lua none --edge mul mean --device replay:h200" >said
fb explain rms.lua none --edge mul mean --device replay:h200
holds "a verdict" cmp said out
block "fusebox explain rms.lua max --steps" | grep -v '^…$' >said
fb explain rms.lua max --steps
holds "the decisions" sh -c 'test -s said && ! grep -vxFf out said'
block "fusebox explain rms.lua max --nest" >said
fb explain rms.lua max --nest
holds "the nest" cmp said out
block c >said
fb emit rms.lua max --target c
holds "and the kernel in C" sh -c 'test -s said && ! grep -vxFf out said'
block cuda >said
fb emit rms.lua max --target cuda
holds "and in CUDA" sh -c 'test -s said && ! grep -vxFf out said'
for f in $(grep -ohE '`(engine|tui|kernels|scripts|tests|build-aux)/[A-Za-z0-9_./-]*\.[a-z]+`' "$FB_SRCDIR"/docs/ARCHITECTURE.md "$FB_SRCDIR"/docs/ADDING.md |
    tr -d '\`' | grep -v NAME | sort -u); do
    test -f "$FB_SRCDIR/$f" || echo "$f"
done >missing
mv missing out
holds "both pages name files that are there" test ! -s out
done_testing
