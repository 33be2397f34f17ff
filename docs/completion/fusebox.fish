# fish completion for fusebox: commands, bundled scripts, files, presets and the options of each command.
set -l commands run diff values explain emit graph check gate export import new devices record lesson fuzz ops eject seat workshop worker

function __fusebox_scripts
    fusebox </dev/null 2>/dev/null | awk 'NR > 1 && $2 != "recent" { print $1 }'
end

function __fusebox_options
    set -l words (commandline -opc)
    set -l command
    test (count $words) -gt 1; and contains -- $words[2] run diff values explain emit graph check gate export import new devices record lesson fuzz ops eject seat workshop worker; and set command $words[2]
    fusebox $command --help 2>/dev/null | string match -ar -- '--[a-z][a-z-]*' | sort -u
end

function __fusebox_targets
    fusebox emit --target '' 2>&1 | string replace -r '.*there are: ' '' | string split ', '
end

complete -c fusebox -n "not __fish_seen_subcommand_from $commands" -a "$commands"
complete -c fusebox -a '(__fusebox_scripts)'
complete -c fusebox -n "__fish_seen_subcommand_from $commands" -a 'none eager max inductor xla tinygrad auto rolled best'
complete -c fusebox -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__fusebox_options)'
complete -c fusebox -l format -x -a 'table json csv markdown html svg text dot'
complete -c fusebox -l only -x -a 'plans toggles peers experiments'
complete -c fusebox -l as -x -a 'c torch inductor'
complete -c fusebox -s w -l worker -x -a 'auto torch jax onnxruntime tinygrad'
complete -c fusebox -s t -l target -x -a '(__fusebox_targets)'
complete -c fusebox -s d -l device -x -a 'host cuda:0 replay workshop'
complete -c fusebox -s o -l out -r
complete -c fusebox -l values -x -a 'noise zeros ones'
complete -c fusebox -l trace -r
complete -c fusebox -l keys -r
complete -c fusebox -l before -r
complete -c fusebox -l at -r
complete -c fusebox -l socket -r
complete -c fusebox -l pictures -x -a '(__fish_complete_directories)'
