#!/bin/sh
# fusebox import: a module becomes a graph that fusebox opens with its weights.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

srcdir=${FB_SRCDIR:-.}
case $srcdir in /*) ;; *) srcdir=$OLDPWD/$srcdir ;; esac
python=${PYTHON:-python3}
if ! "$python" -c 'import torch, torch.export' 2>/dev/null; then
    echo "1..0 # SKIP there is no $python with PyTorch"
    exit 0
fi
cat >model.py <<'PY'
import torch
from torch import nn


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU())
        self.rnn = nn.LSTM(8, 4, batch_first=True)

    def forward(self, x):
        return self.rnn(self.body(x))[0].softmax(-1)


class Odd(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


class Chooses(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return x


def make():
    return Both(), (torch.randn(2, 3, 6),)


def chooses():
    return Chooses(), (torch.randn(4),)


def odd():
    return Odd(), (torch.randn(4),)


def fails():
    return Both(3), ()
PY
echo 'import nowhere' >unfit.py
echo 'def make(' >unread.py
import() {
    FUSEBOX_PYTHON=$python timeout 300 "$FUSEBOX" import "$@" >out 2>err </dev/null
    status=$?
}

import model.py:make
is "a module is written" 0 out '^model.json: [0-9]+ nodes'
fb check model.json
is "it opens with its weights, and every preset is right" 0 out '✓ max'
fb graph model.json
is "scopes are submodules and calls" 0 out 'layer_norm' out 'body'
rm -r model.weights
fb check model.json
is "without its weights it does not run" 1
import model.py:odd -o odd.json
is "what has no op is named with its line" 1 err 'model.py:17: aten.special_bessel_j0 is not known'
status=0
[ ! -e odd.json ] && [ ! -e odd.weights ] || status=1
is "and nothing is left behind" 0
import model.py:chooses
is "what hangs on a value is told in a line, with the user's own" 1 err1 '^fusebox: model.py:22: torch.export does not trace it: what is done, or a size, hangs on'
import model.py:nothing
is "a function that is not there is told in a line" 1 err1 '^fusebox: model.py: it has no function nothing'
import nothing.py:make
is "so is a file" 1 err1 '^fusebox: nothing.py: there is no such file'
import model.py:fails
is "what the function raises is told with its line" 1 err1 '^fusebox: model.py:[0-9]+: TypeError: '
import unfit.py
is "and what the file does" 1 err1 "^fusebox: unfit.py:1: ModuleNotFoundError: No module named 'nowhere'"
import unread.py
is "and that it is no Python" 1 err1 '^fusebox: unread.py:1: SyntaxError: '

# Each against PyTorch's own answer, in double.
models=$srcdir/tests/cli/torch_models.py
for made in mlp lstm gru long encoder resnet lora conv1 dlrm outer gpt odds cache words experts calls masked; do
    import "$models:$made" -o "$made.json"
    is "$made is written" 0
    fb check "$made.json"
    is "$made: every preset is right" 0 out '✓ tinygrad'
    fb graph "$made.json" --format json
    cp out graph.json
    "$python" -W ignore "$srcdir/tests/cli/torch_values.py" module graph.json "$XDG_CACHE_HOME/fusebox/reference" "$models:$made" >out 2>err
    status=$?
    is "$made: the reference's answer is the module's" 0 out "outputs are PyTorch's"
done
fb graph long.json
is "a long recurrent layer is a loop" 0 out 'loop'
fb graph cache.json
is "what a module keeps is assigned" 0 out 'assign\(.* seen' out 'assign\(.* hidden'
fb graph calls.json eager
is "eager has one kernel for each of PyTorch's calls" 0 out '^ +18  ' no '^ +19  '
for made in calls experts; do # pictures that are made larger; topk, whose other places are nowhere
    fb run "$made.json" eager@torch --worker "$python $srcdir/scripts/workers/torch_worker.py"
    is "$made: PyTorch runs it back as it was" 0 out '✓'
done
import "$models:padded" -o padded.json
is "attention over padded sequences is written" 0
fb graph padded.json inductor@replay:h200
is "each layer is one kernel of a GPU, and the mask is asked once" 0 out '^ +3  chain' no '^ +4  '
fb check padded.json
is "padded: every preset is right" 0
import "$models:keeper" -o keeper.json
is "a module that changes an input is refused" 1 err '^fusebox: Keeper: the module changes x, which is no buffer of its own'
for made in train_norms train_pictures train_transposed train_chances; do
    import "$models:$made" -o "$made.json" --train
    is "$made is written with its gradients" 0
    fb run "$made.json" max
    is "$made: it opens and runs" 0 out '✓'
    fb graph "$made.json" --format json
    cp out graph.json
    "$python" -W ignore "$srcdir/tests/cli/torch_values.py" module graph.json "$XDG_CACHE_HOME/fusebox/reference" "$models:$made" train >out 2>err
    status=$?
    is "$made: loss and gradients are PyTorch's" 0 out "outputs are PyTorch's"
done
import "$models:mlp" --train
is "without a loss there are no gradients" 1 err 'with --train the first result has to be a loss'

# Single calls, many in a module: value, shape and dtype of each.
cases=$srcdir/tests/cli/torch_cases.py
for made in in_place promotion reductions shapes pools convolutions norms activations layers sorts places pictures grids odd transforms; do
    import "$cases:$made" -o "$made.json"
    is "calls of $made are written" 0
    fb run "$made.json" max
    is "$made: they open and run" 0 out '✓'
    fb graph "$made.json" --format json
    cp out graph.json
    "$python" -W ignore "$srcdir/tests/cli/torch_values.py" module graph.json "$XDG_CACHE_HOME/fusebox/reference" "$cases:$made" >out 2>err
    status=$?
    is "$made: each is PyTorch's" 0 out "outputs are PyTorch's"
done
import "$cases:refused" -o refused.json
refused='^fusebox: torch_cases\.py:[0-9]+: '
is "all that is refused is told at once, with the user's line" 1 \
    err "${refused}int8 is no dtype" err "the input inputs_.*: uint8 is no dtype" err "${refused}torch.cond, of which" \
    err "${refused}aten.as_strided of a tensor that does not lie in order" err "${refused}an index that is a mask" \
    err "${refused}elements changed at places that a mask names" err "${refused}aten.randn draws numbers" \
    err "${refused}aten.where: the size of its result hangs on values" err "${refused}the largest of bags of unlike sizes" \
    err "${refused}a number taken out of a tensor: the number that it gives hangs on values" err "${refused}aten.sin of complex numbers"
is "so is a chain, with its submodules" 1 err "${refused}aten.linalg_inv is not known to fusebox \(in modules_of.[0-9]+\)" \
    err "${refused}aten.special_bessel_j0 is not known to fusebox \(in modules_of.[0-9]+.inner\)"
import "$models:dlrm" -o drawn.json --weights drawn
is "weights are drawn where that is asked for" 0 no 'weights in'
fb run drawn.json max
is "and need no files" 0
import "$models:masked" -o masked_drawn.json --weights drawn
fb run masked_drawn.json max
is "a mask of -inf is drawn of what is finite in it" 0 out '✓'
done_testing
