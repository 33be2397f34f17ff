#!/bin/sh
# Python that runs only where PyTorch is: no name in it is read that nothing defines.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
once "it reads Python with Python"
command -v python3 >/dev/null 2>&1 || { echo "1..0 # SKIP there is no python3"; exit 0; }
: >err
# one process for all: starting one takes longer than a file
python3 "$FB_SRCDIR/tests/cli/names.py" "$FB_SRCDIR"/scripts/*/*.py "$FB_SRCDIR"/tests/*/*.py >found 2>err
holds "all files can be read" test $? -le 1
for file in "$FB_SRCDIR"/scripts/*/*.py "$FB_SRCDIR"/tests/*/*.py; do
    grep -F "$file:" found >out
    holds "${file#"$FB_SRCDIR"/}: its names are defined" test ! -s out
done
echo 'print(nobody)' >bad.py
python3 "$FB_SRCDIR/tests/cli/names.py" bad.py >out 2>&1
holds "one that is not is found" sh -c "test $? -eq 1 && grep -q '^bad.py:1: nothing defines nobody$' out"
done_testing
