#!/bin/sh
# make lint: formatting, static analysis, shell scripts. A tool that is not installed is one line, not a failure.
#
#   FB_SRCDIR     the sources
#   LINT_FLAGS    compiler flags that find every header, as make has them
#   LINT_CUDA     not empty: headers of the CUDA toolkit are there
#   LINT_ONLY     some of "format cppcheck tidy shell"; all when empty
#   LINT_FILES    C files to look at instead of all
# shellcheck disable=SC2086,SC2317,SC2016  # lists of names and flags are split; functions are called through check; sh -c
set -u
cd "${FB_SRCDIR:-.}" || exit 1
here=tests/lint
bad=0

say() { printf 'lint: %s\n' "$*"; }

# wanted NAME TOOL: is it asked for, and is it there?
wanted() {
    case " ${LINT_ONLY:-$1} " in *" $1 "*) ;; *) return 1 ;; esac
    command -v "$2" >/dev/null 2>&1 && return 0
    say "skipped $1: no $2"
    return 1
}

# Runs a check, its output as it is, and remembers a failure.
check() {
    name=$1
    shift
    if "$@"; then say "$name: fine"; else
        say "$name: FAILED"
        bad=1
    fi
}

# Golden files are generated source, formatted by the generator.
c_files=${LINT_FILES:-$(find engine tui tests kernels -name '*.[ch]' ! -path 'tests/golden/*' | LC_ALL=C sort)}
# What is compiled here: without the toolkit's headers the cuda device is not, and kernels/ holds text for other compilers.
compiled=$(printf '%s\n' $c_files | grep '\.c$' | grep -v '^kernels/')
[ -n "${LINT_CUDA:-}" ] || compiled=$(printf '%s\n' $compiled | grep -v '^engine/device/cuda')

format() {
    clang-format --dry-run -Werror --ferror-limit=1 $c_files 2>&1
}

# The tests stand in for functions of the engine, which confuses it.
run_cppcheck() {
    sources=$(printf '%s\n' $compiled | grep -v '^tests/')
    includes=$(printf '%s\n' $LINT_FLAGS | grep '^-I' | grep -v '^-I/usr/include')
    cppcheck -q --std=c11 --enable=warning,performance,portability --error-exitcode=1 --library=gnu,$here/loops.cfg \
        --suppressions-list=$here/cppcheck.txt \
        $includes $sources
}

# One finding of clang-tidy is "FILE:LINE:COLUMN: warning: TEXT [CHECK]"; those named in known.txt are left out.
# The tests are left out: their assertions end in longjmp, which the analyzer takes for going on.
tidy() {
    out=$(mktemp) || return 1
    printf '%s\n' $compiled | grep -v '^tests/' | xargs -P"$(nproc)" -n4 sh -c '
        exec clang-tidy --quiet "$0" "$@" -- -std=gnu17 $LINT_FLAGS' >"$out" 2>/dev/null
    awk -v here="$PWD/" '
        FNR == NR { if (NF && $1 !~ /^#/) known[$1 " " $2] = 1; next }
        /: (warning|error): .*\[[a-z].*\]$/ {
            split($1, at, ":")
            file = at[1]
            sub(here, "", file)
            sub(/^\.\//, "", file)
            names = $NF
            gsub(/[][]|,-warnings-as-errors/, "", names)
            split(names, name, ",")
            show = !((file " " name[1]) in known) && !seen[$0]++
            found += show
        }
        show { print }
        END { exit found > 0 }' $here/known.txt "$out"
    status=$?
    rm -f "$out"
    return $status
}

# In the tests, lists of switches are split on purpose, words are read from short outputs, and single quotes keep text.
# shellcheck disable=SC2046
shell() {
    shellcheck -x -P SCRIPTDIR -e SC2086,SC1091,SC2013,SC2016 bootstrap .ci/run $(find kernels packaging tests scripts -name "*.sh")
}

export LINT_FLAGS
wanted format clang-format && check format format
wanted cppcheck cppcheck && check cppcheck run_cppcheck
wanted tidy clang-tidy && check clang-tidy tidy
wanted shell shellcheck && check shellcheck shell
exit $bad
