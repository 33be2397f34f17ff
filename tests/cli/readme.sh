#!/bin/sh
# README.md quotes no figure by hand: what it says is what the shipped recordings say. `make readme-figures` writes them.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "1..0 # SKIP there is no $python"; exit 0; }
srcdir=$(cd / && cd "${FB_SRCDIR:-.}" && pwd)
figures() {
    timeout 300 "$python" "$srcdir/tests/cli/readme_figures.py" "$FUSEBOX" "$@" >out 2>err
    status=$?
}

figures "$srcdir/README.md" --check
is "README says what is recorded" 0 no 'it says'
sed 's/-->GPU [0-9.]* /-->GPU 1.23 /; s/│ wall  *[0-9]*/│ wall                 111/' "$srcdir/README.md" >other.md
figures other.md --check
is "a figure that is another is found, in a table and in a screen" 1 out 'it says: .*-->GPU 1.23 ' \
    out 'it says: .*│ wall +111 µs'
figures other.md
is "and written anew" 0
holds "as it was" cmp other.md "$srcdir/README.md"
holds "the document's table has no figure of its own" sh -c \
    "! grep -E '^\\|.*\`(models|puzzlers)/' '$srcdir/README.md' | sed 's/<!--figures.*<!--end-->//' | grep -E '[0-9] (µs|ms)'"
done_testing
