#!/bin/sh
# Writes a C file that holds the text of the files given, for fb_embedded (engine/base/embedded.h).
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
    printf '    {"%s",\n' "$file"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' -e 's/^/     "/' -e 's/$/\\n"/' "$srcdir/$file"
    echo '     ""},'
done
echo '    {NULL, NULL}};'
