#!/bin/sh
# Compilers that are confined still compile: gcc, clang, a wrapper that keeps what it compiled, one of the user's own in a
# folder of the user's; generated kernels and kernels from files. Nothing is left of it.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

TMPDIR=$work/tmp XDG_CACHE_HOME=$work/own
export TMPDIR XDG_CACHE_HOME
unset FUSEBOX_CONFINE
mkdir -p "$TMPDIR" "$XDG_CACHE_HOME" home/bin
HOME=$work/home
printf 'return function(g) return g:input("x", { 64, 8 }):tanh():sum(-1):relu() end\n' >f.lua
printf '#!/bin/sh\nexec cc "$@"\n' >home/bin/mycc
chmod +x home/bin/mycc

fb eject f.lua none own.c --kernel tanh --device host
is "a kernel is written" 0
for compiler in gcc clang 'ccache gcc' "$work/home/bin/mycc" 'gcc -B/usr/lib/'; do
    # shellcheck disable=SC2086  # the words of a command
    if ! command -v ${compiler%% *} >/dev/null; then
        echo "# no $compiler here"
        continue
    fi
    CC=$compiler
    export CC
    fb run f.lua none own.json --device host --trust
    is "$compiler compiles what is generated and what is in a file" 0 out 'none.*✓' out 'own.*✓'
done
# One that reads what is neither the system's nor its own, and keeps something: it is stopped, unless the user says so.
mkdir home/papers
echo 1 >home/papers/secret
cat >home/bin/nosy <<END
#!/bin/sh
[ "\$1" = --version ] && exec cc --version
cat $work/home/papers/secret >&2 || exit 7
echo kept >$work/home/kept
exec cc "\$@"
END
chmod +x home/bin/nosy
CC=$work/home/bin/nosy
if fb devices --list && grep -q 'confinement:.*Landlock [0-9]' out; then
    fb run f.lua none --device host
    is "a compiler that reads papers is stopped" 1 err 'nosy did not compile .*Permission denied'
    holds "and keeps nothing" test ! -e home/kept
fi
FUSEBOX_CONFINE=no fb run f.lua none --device host
is "FUSEBOX_CONFINE=no lets it" 0 out 'none.*✓'
rm -f home/kept home/papers/secret home/bin/nosy
unset CC
# What stands above compilers may be putting away its folder just now.
for _ in $(seq 120); do
    find "$TMPDIR" "$XDG_CACHE_HOME" -name 'fusebox-work-*' >err
    [ -s err ] || break
    sleep 0.5
done
: >out
if [ -s err ]; then report not-ok "no folder of theirs is left"; else report ok "no folder of theirs is left"; fi
find home -type f ! -name mycc >err
if [ -s err ]; then report not-ok "nothing is kept in the home folder"; else report ok "nothing is kept in the home folder"; fi

# What it is confined by stands among what was found.
fb devices --list
is "devices say what holds" 0 out '^  confinement: '
done_testing
