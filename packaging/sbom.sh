#!/bin/sh
# Writes what this build is made of as SPDX 2.3 in JSON to stdout:
#
#     sbom.sh VERSION EPOCH static|dynamic CUDA NAME=VERSION…
#
# EPOCH: seconds, the document's date; CUDA: the toolkit whose headers were used, or "no"; NAME=VERSION: libraries as
# configure found them. The same arguments give the same bytes.
set -eu
version=$1 epoch=$2 link=$3 cuda=$4
shift 4
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
name="$(printf '%s' "$version $epoch $link $cuda $*" | cksum | cut -d' ' -f1)"
packages=''
relations=''

# ID NAME VERSION LICENCE RELATION: RELATION is said of fusebox, or the other way round where it ends in _OF.
package() {
    packages="$packages,
    {\"SPDXID\": \"SPDXRef-$1\", \"name\": \"$2\", \"versionInfo\": \"$3\", \"downloadLocation\": \"NOASSERTION\",
     \"filesAnalyzed\": false, \"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": \"$4\",
     \"copyrightText\": \"NOASSERTION\"}"
    case $5 in
    *_OF) relation "SPDXRef-$1" "$5" SPDXRef-fusebox ;;
    *) relation SPDXRef-fusebox "$5" "SPDXRef-$1" ;;
    esac
}

relation() {
    relations="$relations,
    {\"spdxElementId\": \"$1\", \"relationshipType\": \"$2\", \"relatedSpdxElement\": \"$3\"}"
}

case $link in
static) linked=STATIC_LINK ;;
*) linked=DYNAMIC_LINK ;;
esac
for library; do
    of=${library%%=*} is=${library#*=}
    [ -n "$is" ] || continue
    case $of in
    lua5.4) package lua lua "$is" MIT $linked ;;
    ncursesw) package ncursesw ncurses "$is" X11-distribute-modifications-variant $linked ;;
    jansson) package jansson jansson "$is" MIT $linked ;;
    libxxhash) package xxhash xxHash "$is" BSD-2-Clause $linked ;;
    libseccomp) package libseccomp libseccomp "$is" LGPL-2.1-only $linked ;;
    zlib) package zlib zlib "$is" Zlib $linked ;;
    uthash) package uthash uthash "$is" BSD-1-Clause STATIC_LINK ;;
    glibc) package glibc glibc "$is" LGPL-2.1-or-later DYNAMIC_LINK ;;
    cmocka) package cmocka cmocka "$is" Apache-2.0 TEST_DEPENDENCY_OF ;;
    vterm) package vterm libvterm "$is" MIT TEST_DEPENDENCY_OF ;;
    *) package "$of" "$of" "$is" NOASSERTION OTHER ;;
    esac
done
[ "$cuda" = no ] || package cuda-headers "CUDA toolkit headers" NOASSERTION NOASSERTION BUILD_DEPENDENCY_OF
# Opened where they are found, never needed: a machine without them runs fusebox all the same.
for of in libcuda NVRTC cuBLASLt CUPTI NVML OpenBLAS; do
    package "$(printf '%s' "$of" | tr '[:upper:]' '[:lower:]')" "$of" NOASSERTION NOASSERTION OPTIONAL_DEPENDENCY_OF
done

cat <<EOF
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "fusebox-$version",
  "documentNamespace": "urn:fusebox:sbom:$version:$name",
  "creationInfo": {"created": "$created", "creators": ["Tool: fusebox-packaging-sbom.sh"]},
  "packages": [
    {"SPDXID": "SPDXRef-fusebox", "name": "fusebox", "versionInfo": "$version", "downloadLocation": "NOASSERTION",
     "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
     "copyrightText": "NOASSERTION"}$packages
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-fusebox"}$relations
  ]
}
EOF
