#!/bin/sh
# Commands that measure nothing: help, version, lists, new, devices.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fb --version
is "--version names the program and its version" 0 out '^fusebox [0-9]+\.[0-9]+'
fb --help
is "--help lists the commands and the exit statuses" 0 out 'explain SCRIPT' out 'Exit status' out 'worker'
for command in run diff values explain emit graph check gate export new devices seat workshop worker; do
    fb $command --help
    is "$command --help speaks of the command and the common options" 0 out "fusebox $command" out '--device' out '--set'
done

fb
is "without a terminal and a script: the list" 0 out 'split_stack' out 'lstm_step' out 'lora_mlp'
fb frobnicate x y
is "a word that is no command is refused in one line" 2 err1 '^fusebox: no command or script "frobnicate"'
fb explian split_stack
is "a misspelt command finds the nearest" 2 err1 'did you mean "fusebox explain"'
fb run
is "a missing argument is a usage error" 2 err1 'argument is missing'
fb new a b
is "an argument too many is a usage error" 2 err1 'one argument too many: "b"'
fb run --nonsense x
is "an unknown option is a usage error" 2 err 'unrecognized option'

fb new mine.lua
is "new writes a script" 0
fb graph mine.lua
is "the new script is a graph" 0 out 'relu' out 'layer_norm'
cp mine.lua before
fb new mine.lua
is "new does not write over a file" 1 err1 'mine.lua: File exists'
holds "the file is as it was" cmp mine.lua before
fb new copy.lua --from split_stack
is "new copies a bundled script" 0
holds "the copy is the script" grep -q 'split_stack = function' copy.lua
fb new other.lua --from split_stak
is "new finds the nearest bundled name" 1 err1 'did you mean the bundled script "split_stack"'
holds "and writes nothing" test ! -e other.lua
fb new no/such/folder.lua
is "new into a missing folder" 1 err1 'No such file or directory'

fb devices --self-test=1 --device host
is "devices compares a plan with itself" 0 out '^[01] of 1 comparisons of equal columns called them different by wall'
fb devices --self-test=0
is "at least once" 2 err1 'self-test: 1 to'
fb devices --self-test=2 --device host --out self.jsonl
is "and keeps each comparison" 0 out ' of 2 comparisons'
holds "as rows" test "$(grep -c '"self_test":"host"' self.jsonl)" = 2
cp self.jsonl kept.jsonl
fb devices --self-test=2 --device host --out self.jsonl
is "goes on from those it holds" 0 out ' of 2 comparisons'
holds "without measuring them again" cmp self.jsonl kept.jsonl
fb devices --self-test=1 --device replay:h200
is "a recording runs nothing" 3 err1 'replay:h200 runs nothing that could be measured'
fb devices --out self.jsonl --device host
is "a file is for the self-test" 2 err1 'goes with --self-test'
fb devices --list
is "devices lists the host" 0 out '^host: '
holds "each once" test "$(cut -d: -f1 out | grep -c '^host$')" = 1
is "and the compiler by its version" 0 out '^  C compiler: .*[0-9], '
fb devices --list --format json
json "devices as JSON" out fusebox=1 devices.host.kind=host devices.host.name
fb devices --list --device cuda:99
is "a device that is not there" 3 err1 'no device "cuda:99"'
fb devices
is "devices calibrates" 0 out 'calibrated 20' out 'GB/s'
fb devices --list --format json
json "and keeps what it measured" out devices.host.calibrated=true devices.host.date
kept=$(find "$XDG_CACHE_HOME" -name 'host-*.json')
# Good, whatever else this machine did when it was made.
edit_checked "$kept" 's/"doubted":true,//'
cp "$kept" good
edit_checked "$kept" 's/"launch_us":[0-9.e-]*/"launch_us":123/'
fb devices
is "a good calibration is kept" 0 out 'launch 123 µs' no 'doubted'
# What a disk or another program made of it is none.
cp "$kept" 123
"$CHECKED" -r "$kept" >unsealed
for how in 's/"launch_us":123/"launch_us":124/' '$d' ''; do
    if [ -n "$how" ]; then sed "$how" 123 >"$kept"; else cp unsealed "$kept"; fi
    fb devices --list
    is "a calibration that was changed (${how:-without a checksum}) is none" 0 out 'uncalibrated' no '12[34] µs'
done
cp 123 "$kept"
edit_checked "$kept" 's/"name":"[^"]*"/"name":"Abacus"/'
fb devices --list
is "nor is one of another machine" 0 out 'uncalibrated' no '123 µs|Abacus'
printf 'return function(g) return g:input("x", { 64 }):relu() end\n' >plain.lua
rm "$kept"
mkfifo "$kept"
fb run plain.lua none
is "a pipe in its place is none, and that is said" 0 out 'uncalibrated' out 'none@host.* ~[0-9.]+ .*✓'
fb run plain.lua none --format json
json "the floor of a guess says so" out columns.0.floor_us columns.0.floor_kind=guessed
rm -f "$kept"
cp good "$kept"
edit_checked "$kept" 's/"calibrated":true/"calibrated":true,"doubted":true/'
fb devices --list
is "one in doubt says so" 0 out 'while the machine was busy: doubted'
cat >two.lua <<'LUA'
return function(g) return g:input("x", { 4096 }):relu():tanh() end
LUA
fb explain two.lua none --edge relu tanh --device host
is "a calibration in doubt predicts no time for an edge" 0 out 'fine: .*saves 1 launch and [0-9.]+ kB; no time is predicted' \
    no '→ [0-9.]+ [nµm]?s'
fb run two.lua none max --device host --format json
json "nor for a column; bytes and launches stay" out columns.0.launches=2 columns.0.bytes.modelled.read columns.0.wall_us \
    '!columns.0.predicted_us' '!columns.0.floor_us' '!columns.0.kernels.0.predicted_us'
fb diff two.lua none max --device host --format json
json "nor for what the difference is of, but for the bytes" out why.parts.rest '!why.parts.bytes' '!why.parts.compute' why.details.bytes.text
fb explain two.lua max --steps --device host
is "nor for a decision" 0 no 'predicted'
cp good "$kept"
fb explain two.lua none --edge relu tanh --device host
is "one that is good does" 0 out 'its kernels predicted [0-9.]+ [nµm]?s → [0-9.]+ [nµm]?s'
for asked in "" --edge\ relu\ tanh --steps --procedure --nest --schedule --loops; do
    # shellcheck disable=SC2086  # the option's words
    fb explain two.lua eager@torch $asked
    is "a framework's column has nothing to explain: $asked" 2 err1 'eager@torch has no plan of ours'
done
edit_checked "$kept" 's/"copy_hot":\[\(\[[^]]*\],\{0,1\}\)*\]/"copy_hot":[[1024.0,0.00001]]/'
fb run models/add_relu eager@host
is "what runs faster than its floor makes the calibration doubtful" 0 out 'doubted: .*fusebox devices --recalibrate'

# A model's importer is Python's; what it is called with is told by one that only says so.
cat >says.py <<'END'
#!/bin/sh
printf '%s\n' "$@"
END
chmod +x says.py
python=says.py
importing() {
    FUSEBOX_PYTHON=$PWD/$python "$FUSEBOX" import "$@" >out 2>err </dev/null
    status=$?
}
importing --unroll 3 --weights drawn --train -o a.json --weights files m.py:make
is "an import is Python's" 0 out '/from_torch.py$' out '^--unroll$' out '^3$' out '^files$' out '^--train$' out '^a.json$' \
    out '^m.py:make$' no '^drawn$'
holds "whose files lie beside it" test -f "$(sed -n 's/from_torch.py$/torch_calls.py/p' out)"
importing
is "it wants a module" 2
importing --weights some m.py:make
is "with weights of a kind that there is" 2 err1 '--weights is files or drawn, not "some"'
importing --unroll many m.py:make
is "and steps that are a number" 2 err1 '"many" is no number of steps'
python=nothing.py
importing m.py:make
is "without Python it says so" 3 err1 'nothing.py cannot be run: .*FUSEBOX_PYTHON'
done_testing
