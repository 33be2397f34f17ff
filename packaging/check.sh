#!/bin/sh
# A release holds what it promises (make check-release): two tarballs of one commit are equal bytes, whoever makes them
# when; the list of what it is made of names all that the binary is linked to; and what is installed goes again without
# a rest. TAP.
# shellcheck disable=SC2317  # what `check` calls
set -u
cd "$FB_BUILDDIR" || exit 99
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
n=0
failed=0

check() { # NAME COMMAND…
    name=$1
    shift
    n=$((n + 1))
    if "$@" >"$work/said" 2>&1; then
        echo "ok $n - $name"
    else
        failed=1
        echo "not ok $n - $name"
        sed 's/^/# /' "$work/said" | tail -20
    fi
}

# ---- the tarball ----

tarball() { # TO UMASK ZONE
    (umask "$2" && TZ=$3 $MAKE -s dist) && mv fusebox-*.tar.xz "$1"
}

twice() {
    tarball "$work/one.tar.xz" 022 UTC && sleep 1.1 && tarball "$work/two.tar.xz" 077 Pacific/Kiritimati &&
        cmp "$work/one.tar.xz" "$work/two.tar.xz"
}

plain() { # nobody's name, one date
    tar --full-time -tvJf "$work/one.tar.xz" | awk '$2 != "0/0" { print; bad = 1 } { day[$4 $5] = 1 }
        END { for (d in day) n++; exit bad || n != 1 }'
}

complete() { # all that git knows but what only git reads
    git -C "$FB_SRCDIR" ls-files | grep -vx '\.gitignore' | LC_ALL=C sort >"$work/tracked" &&
        tar -tJf "$work/one.tar.xz" | sed 's|^[^/]*/||' | LC_ALL=C sort >"$work/packed" &&
        missing=$(LC_ALL=C comm -23 "$work/tracked" "$work/packed") && { [ -z "$missing" ] || { echo "$missing"; false; }; }
}

# ---- what it is made of ----

linked() {
    for library in $(readelf -d "$FUSEBOX" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
        case $library in
        liblua*) of=lua ;;
        libncurses* | libtinfo*) of=ncurses ;;
        libjansson*) of=jansson ;;
        libxxhash*) of=xxHash ;;
        libseccomp*) of=libseccomp ;;
        libz.*) of=zlib ;;
        libc.* | libm.* | libdl.* | libpthread.* | ld-linux*) of=glibc ;;
        libasan* | libubsan* | libtsan*) continue ;;
        *) of=$library ;;
        esac
        grep -q "\"name\": \"$of\", \"versionInfo\": \"[0-9]" fusebox.spdx.json || { echo "$library is not listed"; return 1; }
    done
}

again() { # it carries the date of the commit, which may be younger than the build
    rm fusebox.spdx.json && $MAKE -s fusebox.spdx.json && mv fusebox.spdx.json "$work/sbom" &&
        $MAKE -s fusebox.spdx.json && cmp fusebox.spdx.json "$work/sbom"
}

# ---- installed and gone ----

installed() {
    $MAKE -s install DESTDIR="$work/root" && test -x "$work/root$(where bindir)/fusebox" &&
        test -f "$work/root$(where docdir)/fusebox.spdx.json" &&
        XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state "$work/root$(where bindir)/fusebox" --version
}

where() {
    printf 'show:\n\t@echo $(%s)\n' "$1" | $MAKE -s -f Makefile -f - show
}

gone() {
    $MAKE -s uninstall DESTDIR="$work/root" && left=$(find "$work/root" ! -type d) && { [ -z "$left" ] || { echo "$left"; false; }; }
}

# ---- the Debian package: its hardening flags refuse what ours may not, and lintian reads what was built ----

packaged() {
    mkdir "$work/deb" && tar -C "$work/deb" -xJf "$work/one.tar.xz" && cd "$work"/deb/fusebox-* &&
        DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -us -uc -b >"$work/built" 2>&1 ||
        { grep -E 'error|Error|dependencies' "$work/built"; return 1; }
    cd "$work/deb" && dpkg-deb -c fusebox_*.deb | grep -q ' \./usr/bin/fusebox$' && ls fusebox-dbgsym_*.deb
}

accepted() { # no error, no warning; what it merely notes is not asked for
    lintian --fail-on error,warning "$work"/deb/*.changes
}

check "two tarballs of one commit are equal bytes" twice
check "they hold every file of it" complete
check "they name nobody, and have one date" plain
check "the list of what it is made of is JSON" "$JSON_CHECK" fusebox.spdx.json spdxVersion=SPDX-2.3 dataLicense=CC0-1.0 \
    SPDXID=SPDXRef-DOCUMENT documentNamespace creationInfo.created creationInfo.creators#1 packages.0.name=fusebox
check "it names all that the binary is linked to" linked
check "and is the same when it is made again" again
check "installed it runs" installed
check "uninstalled nothing is left" gone
if command -v dpkg-buildpackage >"$work/said" && command -v dh >"$work/said"; then
    check "the tarball makes a Debian package" packaged
    check "which lintian accepts" accepted
else
    n=$((n + 1))
    echo "ok $n - the Debian package # SKIP no debhelper here"
fi
echo "1..$n"
exit $failed
