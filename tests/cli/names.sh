#!/bin/sh
# Python that runs only where PyTorch is: no name in it is read that nothing defines.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
: >err
for file in "$FB_SRCDIR"/scripts/*/*.py "$FB_SRCDIR"/tests/*/*.py; do
    name="${file#"$FB_SRCDIR"/}: its names are defined"
    if ! command -v python3 >/dev/null 2>&1; then
        tests=$((tests + 1))
        echo "ok $tests - $name # SKIP there is no python3"
    elif python3 "$FB_SRCDIR/tests/cli/names.py" "$file" >out 2>&1; then
        report ok "$name"
    else
        report not-ok "$name"
    fi
done
echo 'print(nobody)' >bad.py
if command -v python3 >/dev/null 2>&1; then
    python3 "$FB_SRCDIR/tests/cli/names.py" bad.py >out 2>&1
    if [ $? -eq 1 ] && grep -q '^bad.py:1: nothing defines nobody$' out; then
        report ok "one that is not is found"
    else
        report not-ok "one that is not is found"
    fi
fi
done_testing
