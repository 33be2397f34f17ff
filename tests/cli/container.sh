#!/bin/sh
# The container file cannot be built where tests run, so it is held against what it builds from: bootstrap's packages,
# configure's switches, the files of the tree, and what the binary is linked with.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

tree=$FB_SRCDIR
file=$tree/Containerfile
# one instruction a line
sed -e '/^#/d' -e :a -e '/\\$/N; s/\\\n */ /; ta' "$file" >lines

list() { sed -n "/^$1='/,/'\$/p" "$tree/bootstrap" | tr -d "'" | sed "s/^$1=//" | tr ' ' '\n' | grep .; }
list build_packages >wanted
sed -n 's/.*apt-get install -y --no-install-recommends \(.*\) && rm .*/\1/p' lines | tr ' ' '\n' | grep . >installed
holds "both lists are found" test "$(wc -l <wanted)" -gt 10 -a "$(wc -l <installed)" -gt 8

# What is built, is built by bootstrap, which installs what it lacks.
grep '^RUN .*bootstrap' lines >builds
holds "bootstrap builds it" grep -q '/src/bootstrap build ' builds
holds "from the tree" grep -qx 'COPY \. /src' lines
: >out
for name in $(grep -o 'FB_[A-Z]*=' builds | tr -d =); do grep -q "\${$name:-" "$tree/bootstrap" || echo "$name"; done >>out
holds "with variables that bootstrap reads" test -s builds -a ! -s out
: >out
for switch in $(grep -o -- '--enable-[a-z]*' builds); do
    grep -q "AC_ARG_ENABLE(\[${switch#--enable-}\]" "$tree/configure.ac" || echo "$switch"
done >>out
holds "and switches that configure has" test ! -s out

# Nothing is copied that is not there: from the tree, or by make install from the stage before.
sed -n 's/^COPY \([^-].*\) [^ ]*$/\1/p' lines | tr ' ' '\n' >copied
: >out
while read -r path; do test -e "$tree/$path" || echo "$path"; done <copied >>out
holds "what it copies from the tree is there" test -s copied -a ! -s out
holds "what it copies from the build is what was installed there" sh -c \
    'grep -q "DESTDIR=/image" lines && grep -q -- "--prefix=/usr\"" lines && grep -qx "COPY --from=build /image/usr /usr" lines'
holds "a stage that is copied from has that name" grep -qx 'FROM debian:bookworm AS build' lines
holds "both stages are of the same system" test "$(grep -c '^FROM debian:bookworm' lines)" -eq "$(grep -c '^FROM' lines)"
holds "it starts fusebox" grep -qx 'ENTRYPOINT \["fusebox"\]' lines

# In the second stage: each package of bootstrap's, as what it is at run time. "-": only to build.
cat >at_run_time <<'END'
gcc gcc
libc6-dev libc6-dev
make -
autoconf -
automake -
pkg-config -
liblua5.4-dev liblua5.4-0
libncurses-dev libncursesw6
libjansson-dev libjansson4
uthash-dev -
libxxhash-dev libxxhash0
libseccomp-dev libseccomp2
zlib1g-dev zlib1g
libopenblas0-pthread libopenblas0-pthread
ncurses-base ncurses-base
END
cut -d' ' -f1 at_run_time | sort >known
sort wanted | diff known - >out
holds "every package of bootstrap is known here" test ! -s out
: >out
awk '$2 != "-" { print $2 }' at_run_time | while read -r package; do grep -qx "$package" installed || echo "$package"; done >>out
holds "and has what it is at run time in the image" test ! -s out

# What the binary is linked with is in one of them, or in every Debian.
cat >libraries <<'END'
libc. -
libm. -
ld-linux -
libdl. -
libpthread. -
librt. -
libutil. -
libgcc_s. -
libtinfo libncursesw6
libasan -
libubsan -
libtsan -
liblua5.4 liblua5.4-0
libncursesw libncursesw6
libjansson libjansson4
libxxhash libxxhash0
libseccomp libseccomp2
libz. zlib1g
END
if command -v readelf >/dev/null; then
    readelf -d "$FUSEBOX" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >needed
    : >out
    while read -r library; do
        package=$(while read -r start name; do case $library in "$start"*) echo "$name" ;; esac done <libraries | head -n 1)
        [ "$package" = - ] || grep -qx "${package:-none}" installed || echo "$library"
    done <needed >>out
    holds "each library of the binary is in the image" test -s needed -a ! -s out
else
    report ok "each library of the binary is in the image # SKIP no readelf"
fi

# The commands that documents give for it name what it makes.
grep -ho 'fusebox seat --at [a-z@]*' "$tree/docs/WORKSHOP.md" "$file" >out
holds "the documents' command is one of fusebox's" grep -q 'fusebox seat --at class@gpubox' out
"$FUSEBOX" seat --help >help
holds "with an option that it has" grep -q -- '--at=WHERE' help
done_testing
