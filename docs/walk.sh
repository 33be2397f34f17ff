#!/bin/sh
# Writes a walk through the workbench: keys in, screens out, as markdown. Needs tmux, and fusebox in the PATH or FUSEBOX.
#
#     docs/walk.sh WIDTHxHEIGHT SCRIPT <docs/student.walk >docs/walk_student.md
#
# A line of the walk is text, "> " and keys as tmux names them, or "! SCRIPT", which opens another script. After keys comes
# the screen. Everything is played on the shipped recording, so that every machine shows the same.
set -eu
size=$1 script=$2
home=$(mktemp -d)
# What was killed may write for a moment yet.
trap 'tmux -L walk kill-server 2>/dev/null || true; rm -rf "$home" 2>/dev/null || { sleep 2; rm -rf "$home"; }' EXIT
export XDG_CACHE_HOME="$home/cache" XDG_STATE_HOME="$home/state" XDG_CONFIG_HOME="$home/config" LC_ALL=C.UTF-8
open() {
    tmux -L walk kill-server 2>/dev/null && sleep 1
    tmux -L walk new-session -d -s walk -x "${size%x*}" -y "${size#*x}" "${FUSEBOX:-fusebox} --device replay:h200 $1"
    sleep 4
    screen
}
screen() {
    printf '```\n'
    tmux -L walk capture-pane -p -t walk | sed 's/ *$//'
    printf '```\n\n'
}
opened=
while IFS= read -r line; do
    case $line in
    '! '*) open "${line#! }" && opened=1 ;;
    '> '*)
        [ -n "$opened" ] || { open "$script" && opened=1; }
        printf 'Keys: `%s`\n\n' "${line#> }"
        # shellcheck disable=SC2086  # a list of keys
        tmux -L walk send-keys -t walk ${line#> }
        sleep 2
        screen
        ;;
    *) printf '%s\n' "$line" ;;
    esac
done
