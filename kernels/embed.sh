#!/bin/sh
# Writes a C file that holds the files given, for fb_embedded (engine/base/embedded.h): text line by line, .npy and .gz byte by byte.
#   embed.sh SRCDIR FILE…   (FILE relative to SRCDIR; its relative path is the key)
set -eu
srcdir=$1
shift
echo '#include "base/embedded.h"'
echo
echo '#include <stddef.h>'
echo
echo 'const fb_embedded_file fb_embedded_files[] = {'
for file; do
    printf '    {"%s", %s,\n' "$file" "$(wc -c <"$srcdir/$file")"
    case $file in
    *.npy | *.gz) od -An -v -to1 "$srcdir/$file" | sed -e 's/ /\\/g' -e 's/^/     "/' -e 's/$/"/' ;;
    *) sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' -e 's/^/     "/' -e 's/$/\\n"/' "$srcdir/$file" ;;
    esac
    echo '     ""},'
done
echo '    {NULL, 0, NULL}};'
