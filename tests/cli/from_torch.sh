#!/bin/sh
# scripts/import/from_torch.py: a module becomes a graph that fusebox opens with its weights.
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
        return torch.fft.fft(x).abs()


def make():
    return Both(), (torch.randn(2, 3, 6),)


def odd():
    return Odd(), (torch.randn(4),)
PY
import() {
    timeout 300 "$python" -W ignore "$srcdir/scripts/import/from_torch.py" "$@" >out 2>err </dev/null
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
is "what has no op is named with its line" 1 err 'model.py:17: aten.fft_fft is not known'
import model.py:nothing
is "a function that is not there is told in a line" 1 err1 '^from_torch: model.py: it has no function nothing'
import nothing.py:make
is "so is a file" 1 err1 '^from_torch: nothing.py: there is no such file'

# Each against PyTorch's own answer, in double.
models=$srcdir/tests/cli/torch_models.py
for made in mlp lstm gru long encoder resnet lora conv1 dlrm outer gpt odds; do
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
import "$models:cache" -o cache.json
is "a module that keeps something is refused" 1 err '^from_torch: Cache: the module changes seen'
import "$models:dlrm" -o drawn.json --weights drawn
is "weights are drawn where that is asked for" 0 no 'weights in'
fb run drawn.json max
is "and need no files" 0
done_testing
