#!/bin/sh
# The Debian package (debian/), as far as that can be told without its tools: fields, versions and lists agree with the
# tree, and what `make install` installs is what the package would hold, with its autopkgtest run on it.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

srcdir=$(cd / && cd "${FB_SRCDIR:-.}" && pwd)
builddir=$(cd "$(dirname "$FUSEBOX")" && pwd)
deb=$srcdir/debian
: >out
: >err

# field FILE NAME   a field's value, its further lines with it
field() {
    awk -v name="$2:" 'tolower($1) == tolower(name) { on = 1; sub(/^[^:]*: */, ""); print; next }
        /^ / && on { print; next } { on = 0 }' "$1"
}

# A list as words, sorted, a line each.
words() { tr -s ' ,' '\n' | grep . | LC_ALL=C sort -u; }

# same NAME   what expected and got hold, a line each, is the same
same() {
    if diff expected got >out 2>&1; then report ok "$1"; else report not-ok "$1"; fi
    : >out
}

# make, as if no other make ran this test.
plain_make() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s --no-print-directory "$@"; }

# ---- versions and fields ----

version=$(sed -n 's/^AC_INIT(\[fusebox\], \[\(.*\)\])$/\1/p' "$srcdir/configure.ac")
"$FUSEBOX" --version >got
echo "fusebox $version" >expected
same "the binary says configure.ac's version"
sed -n '1s/^fusebox (\(.*\)-[0-9.]*) [A-Za-z]*; urgency=[a-z]*$/\1/p' "$deb/changelog" >got
echo "$version" >expected
same "and so does the changelog's last entry"
signed=$(sed -n 's/^ -- [^<]* <[^@ ]*@[^@ ]*>  //p' "$deb/changelog" | head -n 1)
holds "which is signed with a date" date -d "$signed"
command -v dpkg-parsechangelog >/dev/null &&
    holds "and can be parsed" dpkg-parsechangelog -l "$deb/changelog" -S Version

for name in Source Section Priority Maintainer Build-Depends Standards-Version Rules-Requires-Root Package Architecture \
    Depends Description; do
    field "$deb/control" $name | grep -q . || echo "no $name"
done >got
field "$deb/control" Maintainer | grep -Eq '^[^<@]+ <[^@ ]+@[^@ ]+>$' || echo "the maintainer has no address" >>got
field "$deb/control" Standards-Version | grep -Eq '^[0-9]+(\.[0-9]+){2,3}$' || echo "no standard's version" >>got
field "$deb/control" Depends | grep -qF '${shlibs:Depends}' || echo "the binary's libraries are not named" >>got
field "$deb/control" Depends | grep -qF '${misc:Depends}' || echo "debhelper adds nothing" >>got
field "$deb/control" Description | awk 'NR == 1 && (length > 60 || /^(A|An|The|fusebox) / || /\.$/) { print "synopsis: " $0 }
    NR > 1 && (length > 80 || !/^ /) { print } END { if (NR < 3) print "no long description" }' >>got
: >expected
same "control has what a package must have"

find "$deb" -type f -exec grep -nE '[[:blank:]]$' {} + >got
for f in "$deb"/* "$deb"/*/*; do
    [ -f "$f" ] && [ -n "$(tail -c 1 "$f")" ] && echo "$f: no newline at its end"
done >>got
same "no file has blanks at the ends of lines"

head -n 1 "$deb/copyright" >got
echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/' >expected
same "copyright is of the format that machines read"
awk '/^Files:/ { if ($2 == "*") all = 1; files = 1; copyright = licence = text = 0 }
    /^Copyright:/ { copyright = 1 } /^License:/ { licence = $2 != ""; next } /^ / && licence { text = 1 }
    END { print all + 0, files + 0, copyright + 0, licence + 0, text + 0 }' "$deb/copyright" >got
echo '1 1 1 1 1' >expected
same "and names holder and licence of all files"
cat "$deb/source/format" >got
echo '3.0 (quilt)' >expected
same "the source is a tarball and what is added to it"

# ---- what it is built with ----

# bootstrap's lists; what build-essential brings is not named again.
eval "$(awk "/^(build|check)_packages='/ { on = 1 } on { print } /'\$/ { on = 0 }" "$srcdir/bootstrap")"
essential='^(gcc|g\+\+|libc6-dev|make)$'
# shellcheck disable=SC2154
echo "$build_packages $check_packages" | words | grep -Evx "$essential" >expected
field "$deb/control" Build-Depends | sed 's/([^)]*)//; s/<[^>]*>//; s/:any//' | words | grep -v '^debhelper-compat$' >got
same "it is built with what bootstrap installs"
# What a run opens is for tests here, like what the tests add.
echo "$check_packages libopenblas0-pthread ncurses-base" | words | grep -Evx "$essential" >expected
field "$deb/control" Build-Depends | sed -n 's/<!nocheck>//p' | sed 's/:any//' | words >got
same "and without tests, with less"
echo "gcc libc6-dev libopenblas0-pthread" | words >expected
{ field "$deb/control" Depends && field "$deb/control" Recommends; } | words | grep -v '[$]' >got
same "it runs with a compiler and a BLAS"

holds "rules can be run" test -x "$deb/rules"
for target in build binary clean; do plain_make -n -f "$deb/rules" $target; done >got 2>&1
printf 'dh build\ndh binary\ndh clean\n' >expected
same "and leave every step to debhelper"
sed -n 's/.*dh_auto_configure -- *//p' "$deb/rules" | words | sed 's/=.*//; s/^--without-/--with-/' |
    while read -r switch; do
        "$srcdir/configure" --help | grep -q -e "$switch" || echo "configure knows no $switch"
    done >got
: >expected
same "configure knows the switches that they give"
grep -oE '^override_dh_[a-z_]+' "$deb/rules" | grep -vxE 'override_dh_auto_(configure|build|test|install)' >got
same "and every override is of a step that there is"

(cd "$srcdir" && while read -r doc; do
    # shellcheck disable=SC2086  # a pattern
    ls $doc
done <"$deb/docs") >out 2>err
status=$?
is "documents that are named are there" 0 out '^README.md$' out '^docs/MANUAL.md$' out '^docs/SECURITY.md$'

# ---- what it is made from ----

# Every file that git knows stands in a list of Makefile.am, or a folder it is in does. (A tarball is no clone.)
printf 'show:\n\t@printf "%%s\\n" $(DISTFILES)\n' | (cd "$builddir" && plain_make -f Makefile -f - show) 2>err |
    sed "s|^$srcdir/||; s|^\(\.\./\)*||; s|^\./||" >listed
holds "the tarball has files" grep -qx 'tests/cli/debian.sh' listed
if tracked=$(git -C "$srcdir" ls-files 2>/dev/null); then
    echo "$tracked" | awk 'NR == FNR { listed[$0] = 1; next }
        $0 && $0 != ".gitignore" { at = $0; while (!(at in listed) && sub(/\/[^\/]*$/, "", at)); if (!(at in listed)) print }' \
        listed - >got
    : >expected
    same "and every file of the tree"
fi

# ---- what it installs ----

root=$work/root
zsh=$(sed -n 's/.*dh_auto_install -- //p' "$deb/rules")
(cd "$builddir" && plain_make install DESTDIR="$root" prefix=/usr mandir=/usr/share/man "$zsh") >out 2>err
status=$?
is "it installs under a folder" 0
(cd "$srcdir" && find scripts -type f ! -path '*/recordings/*' ! -path '*/__pycache__/*' | sed 's|^|usr/share/fusebox/|'
    echo usr/bin/fusebox
    echo usr/share/bash-completion/completions/fusebox
    echo usr/share/doc/fusebox/fusebox.spdx.json
    echo usr/share/fish/vendor_completions.d/fusebox.fish
    echo usr/share/man/man1/fusebox.1
    echo usr/share/zsh/vendor-completions/_fusebox) | LC_ALL=C sort >expected
(cd "$root" && find . ! -type d | sed 's|^\./||') | LC_ALL=C sort >got
same "the binary, its man page, completions, scripts and the list of what it is made of"
(cd "$root" && find . -type f -perm /111 ! -path './usr/bin/*' && find . -perm /022) >got
: >expected
same "only the binary may be run, and nobody else may write"
ROOT=$root timeout 500 sh "$deb/tests/installed" >out 2>err
status=$?
is "what is installed works, as its own test says" 0 out '^the installed package works$' out "^fusebox $version\$"
field "$deb/tests/control" Tests >expected
(cd "$deb/tests" && find . -type f ! -name control | sed 's|^./||') >got
same "which the package names"

done_testing
