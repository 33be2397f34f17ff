#!/bin/sh
# README.md and docs/MANUAL.md quote no figure by hand: what they say is what the shipped recordings say. `make
# readme-figures` writes them.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "1..0 # SKIP there is no $python"; exit 0; }
srcdir=$(cd / && cd "${FB_SRCDIR:-.}" && pwd)
# Every question is put to fusebox once: recordings answer the same again.
cat >asked <<'END'
#!/bin/sh
answer=$ANSWERS/$(printf '%s\n' "$@" | cksum | tr ' ' -)
if [ ! -f "$answer" ]; then
    "$FUSEBOX" "$@" >"$answer" || { status=$? && rm -f "$answer" && exit $status; }
fi
cat "$answer"
END
chmod +x asked
mkdir answers
ANSWERS=$work/answers
export FUSEBOX ANSWERS
figures() {
    timeout 300 "$python" "$srcdir/tests/cli/readme_figures.py" ./asked "$@" >out 2>err
    status=$?
}

cat "$srcdir/README.md" "$srcdir/docs/MANUAL.md" >both.md
figures both.md --check
is "README and manual say what is recorded" 0 no 'it says'
sed 's/-->GPU [0-9.]* /-->GPU 1.23 /; s/│ wall  *[0-9]*/│ wall                 111/' both.md >other.md
figures other.md --check
is "a figure that is another is found, in a table and in a screen" 1 out 'it says: .*-->GPU 1.23 ' \
    out 'it says: .*│ wall +111 µs'
figures other.md
is "and written anew" 0
holds "as it was" cmp other.md both.md
holds "the manual's table has no figure of its own" sh -c \
    "! grep -E '^\\|.*\`(models|puzzlers)/' '$srcdir/docs/MANUAL.md' | sed 's/<!--figures.*<!--end-->//' | grep -E '[0-9] (µs|ms)'"
holds "the manual's table is there" grep -q '^| .*puzzlers/split_stack.*<!--figures' "$srcdir/docs/MANUAL.md"
holds "README is short" test "$(wc -l <"$srcdir/README.md")" -le 150
for name in $(grep -oE '\]\(docs/[A-Za-z_]+\.md\)' "$srcdir/README.md" | tr -d '()]'); do
    holds "README leads to $name" test -f "$srcdir/$name"
done
done_testing
