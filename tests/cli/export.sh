#!/bin/sh
# fusebox export: a column as a folder that builds by itself, runs, and compares itself with the reference.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"
strict="-Wall -Wextra -Werror"

# exported NAME FOLDER SCRIPT COLUMN OPTION…: written, built without a warning, run, compared
exported() {
    name=$1 folder=$2 script=$3 column=$4
    shift 4
    fb export "$script" "$column" "$folder" --as c --device host "$@"
    if [ "$status" = 0 ]; then
        timeout 300 make -s -C "$folder" test WARNINGS="$strict" OPTIMISE=-O1 >out 2>err
        status=$?
    fi
    is "$name" 0 out '^ok: [1-9][0-9]* tensors, the largest error 0?[.0-9e-]+ of what is allowed'
}

exported "an LSTM step" lstm lstm_step gates:max --set N=5 --set H=17
exported "LoRA, products of 16 bits by the library, odd sizes" lora lora_mlp lora:none --set batch=7 --set inputs=33 --set outputs=19 --set dtype=bf16
exported "a DLRM training step" dlrm models/dlrm train:max --set batch=3 --set rows=50
exported "attention in one kernel, 16 bits, odd length" attention models/attention max --set seq=33 --set dtype=f16
exported "a transformer's training step" transformer models/transformer train:max --set batch=1 --set tokens=5 --set size=16 --set hidden=24 --set heads=2
exported "a convolution, which is a product there" plane "$FB_SRCDIR/tests/unit/convolutions.lua" plane:auto --set channels=64
exported "one in groups of several pictures, which is generated" grouped "$FB_SRCDIR/tests/unit/convolutions.lua" groups:auto --set channels=64 --set batch=8
exported "a training loop whose parameters stay changed" trained models/mlp_loop assigned:max --set hidden=16
exported "one whose weights are carried and exchanged" carried models/mlp_loop carried:max --set hidden=16

cat >loop.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { steps = fb.int { 5 }, dtype = fb.choice { "f32", "f64" } },
  model = function(g, p)
    local x, y = g:param("errno", { 37 }, p.dtype), g:param("linux", { 37 }, p.dtype)
    local u, v = g:loop(p.steps, { x, y }, function(step, a, b) return (b + a):tanh(), a * 0.5 end)
    return u, v, (g:input("int", { 3, 37 }, p.dtype) + u):sum(-1)
  end,
  plans = { whole = function(pl) pl:generate("loop") end },
}
LUA
exported "odd numbers of swaps end where the caller has them" odd loop.lua none
holds "what swaps leave is put back" grep -q 'memcpy(home\[' odd/odd.c
exported "a loop in one kernel takes its trip count" "1 whole-loop" loop.lua whole --set dtype=f64
holds "names are fit for C, CMake and a shell" test -f "1 whole-loop/t1_whole_loop.h"
for field in errno_ linux_ int_; do
    holds "a field is no word of C ($field)" grep -qE "\*$field; /\*" odd/odd.h
done
holds "shapes, strides, bytes and alignment stand in the header" \
    grep -qE 'int_; /\* input int: f32\[3,37\], strides 37, 1 elements, 444 bytes, aligned to 4 \*/' odd/odd.h

# A wrong kernel, and wrong data.
cp -r odd wrong
sed -i 's/+ \(.*\);$/+ 1.01f * (\1);/; s/tanhf(\(.*\));/tanhf(\1) * 1.001f;/' wrong/src/k*tanh*.c
make -s -C wrong test >out 2>err
status=$?
is "a kernel that was changed fails its test" 2 err '^not ok: result\[[0-9]+\] is .*, expected .* within '
truncate -s -1 odd/test/data.bin
make -s -C odd test >out 2>err
status=$?
is "so does data that was cut short" 2 err 'data.bin is too short'

# In a program: C++ too, installed, and without an allocation in a run.
holds "the header is C++ too" sh -c 'command -v g++ >/dev/null || exit 0; printf "#include \"lstm/lstm.h\"\nint main() { return lstm_explain(LSTM_OK) == 0; }\n" >m.cc && g++ -Wall -Wextra -Werror -fsyntax-only m.cc'
make -s -C lstm install PREFIX="$work/own" >out 2>err
status=$?
is "it installs" 0
if command -v pkg-config >/dev/null; then
    printf '#include <lstm.h>\n#include <stdio.h>\nint main(void) { lstm *h; return lstm_create(&h) != LSTM_OK || lstm_run(h, NULL) != LSTM_NULL || puts(lstm_error(h)) < 0; }\n' >use.c
    PKG_CONFIG_PATH=$work/own/lib/pkgconfig
    export PKG_CONFIG_PATH
    # shellcheck disable=SC2016
    holds "and is found by pkg-config" sh -c 'cc use.c -o use $(pkg-config --static --cflags --libs lstm) && LD_LIBRARY_PATH=own/lib ./use | grep -q "tensors: is missing"'
else
    report ok "and is found by pkg-config # SKIP there is none"
fi
if command -v cmake >/dev/null; then
    holds "CMake builds and tests it" sh -c 'cmake -S lora -B b && cmake --build b && cd b && ctest'
else
    report ok "CMake builds and tests it # SKIP there is none"
fi
cat >count.c <<'C'
#include <stddef.h>
#include <stdlib.h>
static int now, asked;
void *__real_malloc(size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n) { asked += now; return __real_malloc(n); }
void *__wrap_aligned_alloc(size_t a, size_t n) { asked += now; return __real_aligned_alloc(a, n); }
#include "attention/attention.h"
#include <stdio.h>
attention_status __real_attention_run(attention *h, const attention_tensors *t);
attention_status __wrap_attention_run(attention *h, const attention_tensors *t)
{
    now = 1;
    attention_status s = __real_attention_run(h, t);
    now = 0;
    if (asked) fprintf(stderr, "%d allocations in a run\n", asked), exit(3);
    return s;
}
C
cc -fopenmp -o count attention/test/main.c count.c attention/libattention.a \
    -Wl,--wrap=malloc,--wrap=aligned_alloc,--wrap=attention_run -lm -ldl >out 2>err && ./count attention/test/data.bin >out 2>err
status=$?
is "a run allocates nothing" 0 out '^ok: '

# What is there stays; what cannot be written leaves nothing.
mkdir there && echo mine >there/Makefile
fb export lstm_step gates:max there --as c --device host
is "a folder that is there is left alone" 2 err1 'there: it is there already, and nothing is written over'
holds "with what is in it" grep -qx mine there/Makefile
ln -s nowhere link
fb export lstm_step gates:max link --as c --device host
is "so is a link to nowhere" 2 err1 'link: it is there already'
fb export lstm_step gates:max no/such --as c --device host
is "a folder that cannot be made" 1 err1 'no/such: No such file'
fb export lstm_step gates:max out2
is "a form must be named" 2 err1 'as is missing: --as c, torch or inductor'
fb export lstm_step gates:max out2 --as rust
is "and be one that there is" 2 err1 'no form "rust"; there are: c, torch, inductor'
fb export lstm_step max out2 --as c --device host
is "of one column" 2 err1 'name one, such as'
fb export lstm_step gates:max out2 --as c --device host --set N=1,2
is "at one size" 2 err1 'one value'
holds "nothing is left of those" test ! -e out2
fb export lstm_step gates:max out2 --as c --device host --no-test --set N=3 --set H=5
is "without a test" 0 out '^make -C out2$'
holds "there is none" test ! -e out2/test
holds "and make says so" sh -c 'make -s -C out2 test OPTIMISE=-O0 | grep -q "no test was exported"'

# ---- operators of PyTorch: the same programs, in a module that is not compiled against it ----

python=${PYTHON:-python3}
has_torch=
"$python" -c 'import torch' 2>/dev/null && has_torch=yes

# operators NAME FOLDER SCRIPT COLUMN WHAT OPTION…: written, built without a warning, tested in C and, where it is, in PyTorch
operators() {
    name=$1 folder=$2 script=$3 column=$4 what=$5
    shift 5
    fb export "$script" "$column" "$folder" --as torch --device host "$@"
    if [ "$status" = 0 ]; then
        python3 -m py_compile "$folder"/*.py >out 2>err || status=1
        timeout 600 make -s -C "$folder" test WARNINGS="$strict" OPTIMISE=-O1 PYTHON="$python" >out 2>err || status=1
    fi
    [ -n "$has_torch" ] || what='skipped: this Python has no PyTorch'
    is "$name" 0 out "^$what"
}

cat >several.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 5, min = 0 }, dtype = fb.choice { "f32", "f64", "f16", "bf16" } },
  variants = {
    several = function(g, p)
      local x = g:input("lambda", { 3, p.n }, p.dtype)
      local ids, w = g:input("self", { 4 }, "i64", { dist = "integer", high = 3 })
      g:scope("feature", 3, function() w = g:param("weight", { p.n }, p.dtype, { dist = "normal" }) end)
      local y = (x * w):tanh()
      return y, y:sum(-1), ids + 1, x, y + x, x + w
    end,
    sum = function(g, p) return g:input("a", { 6, p.n }, p.dtype) + g:param("b", { 6, p.n }, p.dtype) end,
    ints = function(g, p) return g:input("i", { 4, p.n }, "i32", { dist = "integer", high = 9 }) * 2 end,
    loop = function(g, p)
      local x, w = g:input("x", { p.n }, p.dtype), g:param("forward", { p.n }, p.dtype)
      return (g:loop(4, { x }, function(step, a) return (a * w):tanh() end))
    end,
    state = function(g, p)
      local mean, x = g:param("mean", { p.n }, p.dtype), g:input("x", { p.n }, p.dtype)
      local now = mean * 0.9 + x * 0.1
      g:assign(mean, now)
      return now:sum(), mean
    end,
    words = function(g, p) -- of C, of its headers, of what is generated; each alone would do harm
      local y = g:input("fb_x", { p.n }, p.dtype)
      for _, name in ipairs { "NULL", "not", "errno", "M_PI", "HUGE_VAL", "concept", "int64_t", "fb_", "fb_2", "M_PI_2" } do
        y = (y * g:param(name, { p.n }, p.dtype)):tanh()
      end
      return y
    end,
    many = function(g, p) -- more than an operator of PyTorch has arguments
      local y, first = g:input("x", { p.n }, p.dtype), nil
      for k = 1, 70 do
        local w = g:param("w" .. k, { p.n }, p.dtype)
        first, y = first or w, y * 0.9 + w
      end
      return y, y:sum(), first
    end,
    many_kept = function(g, p)
      local y = g:input("x", { p.n }, p.dtype)
      for k = 1, 70 do
        local w = g:param("w" .. k, { p.n }, p.dtype)
        y = y * 0.9 + w
        if k % 2 == 0 then g:assign(w, w * 0.5) end
      end
      return y
    end,
  },
}
LUA
with='ok: [0-9]+ tensors of PyTorch as expected, with a gradient'
without='ok: [0-9]+ tensors of PyTorch as expected, without a gradient'
operators "operators: several outputs, inputs that come back, words of Python" several several.lua several:max "$with"
operators "operators: of nothing" empty several.lua several:none "$with" --set n=0
operators "operators: of no elements at all" nothing several.lua sum:max "$with" --set n=0
operators "operators: a gradient that is the one given, f16" sum several.lua sum:max "$with" --set dtype=f16
operators "operators: integers" ints several.lua ints:max "$without"
operators "operators: back through a loop, f64" turns several.lua loop:max "$with" --set dtype=f64
operators "operators: a parameter that is changed in place" kept several.lua state:max "$without"
operators "operators: words that mean something elsewhere" words several.lua words:max "$with"
operators "operators: more tensors than PyTorch has arguments" many several.lua many:max "$with"
operators "operators: many of which some are changed" many_kept several.lua many_kept:max "$without"
operators "operators: LoRA in bf16, products by the library" tlora lora_mlp lora:none "$with" --set batch=7 --set inputs=33 --set outputs=19 --set dtype=bf16
operators "operators: attention in f16, odd length" tattention models/attention max "$with" --set seq=33 --set dtype=f16
operators "operators: a DLRM training step" tdlrm models/dlrm train:max "$without" --set batch=3 --set rows=50
holds "a script that assigns says why it has no gradient" \
    grep -q '^_no_gradient(_forward, "it changes `mean` in place, and such a step is not differentiated")$' kept/kept_torch.py
holds "and one without floats does" grep -q '^_no_gradient(_forward, "none of its outputs is a float")$' ints/ints_torch.py

cp -r several worse
sed -i 's/tanhf(\(.*\));/tanhf(\1) * 1.001f;/' worse/forward/src/k*.c
rm -f worse/forward/*.so worse/forward/*.o worse/forward/src/*.o
make -s -C worse/forward all >out 2>err
if [ -n "$has_torch" ]; then
    "$python" worse/test_torch.py >out 2>err
    status=$?
    is "a kernel that was changed fails the operators' test" 1 err '^not ok: tanh, called\[[0-9]+\] is '
    cat >use.py <<'PY'
import sys
import threading

import torch

for folder in ("several", "kept", "tlora", "turns"):
    sys.path.insert(0, folder)
import several_torch
import kept_torch
import tlora_torch
import turns_torch


def refused(what, call):
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as e:
        print(what, type(e).__name__, str(e).splitlines()[0])
        return
    sys.exit(f"{what} was taken")


# Values and gradients against PyTorch's own, with a module of the script's parameters.
module = several_torch.Module()
print("state", list(module.state_dict()))
module.load_state_dict({"feature[3].weight": torch.linspace(-1, 1, 5)})
w = module.state_dict()["feature[3].weight"].clone().requires_grad_()
x, ids = torch.randn(3, 5, requires_grad=True), torch.tensor([0, 2, 1, 2])
def eager(x, ids, w):
    y = torch.tanh(x * w)
    return y, y.sum(-1), ids + 1, x, y + x, x + w
def weigh(outputs):
    return sum((o * (i + 1)).sum() for i, o in enumerate(outputs) if o.is_floating_point())
right = eager(x, ids, w)
slopes = torch.autograd.grad(weigh(right), (x, w))
parameter = next(module.parameters())
for call in (module, torch.compile(module, fullgraph=True), torch.export.export(module, (x, ids)).module()):
    got = call(x, ids)
    for g, r in zip(got, right, strict=True):
        torch.testing.assert_close(g, r)
    if call is not module and not got[0].requires_grad:
        continue
    p = parameter if parameter.requires_grad and call is not None else w
    back = torch.autograd.grad(weigh(got), (x, p), allow_unused=True)
    torch.testing.assert_close(back[0], slopes[0])
    if back[1] is not None:
        torch.testing.assert_close(back[1], slopes[1])
print("values and gradients")
x, w = torch.randn(5, dtype=torch.float64, requires_grad=True), torch.randn(5, dtype=torch.float64, requires_grad=True)
torch.autograd.gradcheck(turns_torch.run, (x, w))
other = turns_torch.Module()
torch.testing.assert_close(other(x), turns_torch.run(x, other.state_dict()["forward"]))
print("gradcheck")

# In place, and what is no copy stays where it is.
module, x = kept_torch.Module(), torch.ones(5)
mean = next(module.parameters())
mean.fill_(2.0)
at = mean.data_ptr()
total, old = module(x)
torch.testing.assert_close((total, old, mean.detach()), (torch.tensor(9.5), torch.full((5,), 2.0), torch.full((5,), 1.9)))
total, old = torch.compile(module, fullgraph=True)(x)
torch.testing.assert_close((old, mean.detach()), (torch.full((5,), 1.9), torch.full((5,), 1.81)))
print("in place", mean.data_ptr() == at)
refused("graded:", lambda: kept_torch.run(torch.ones(5, requires_grad=True), torch.ones(5)))
held = torch.ones(9)
refused("overlap:", lambda: kept_torch.run(held[:5], held[4:]))
refused("changed:", lambda: kept_torch.run(torch.ones(10)[::2], torch.ones(5)))

# What does not fit, each in a sentence.
given = [torch.zeros(t.shape, dtype=t.dtype) for t in tlora_torch._forward.given]
put = lambda other: lambda: tlora_torch.run(other, *given[1:])
refused("dtype:", put(given[0].float()))
refused("shape:", put(torch.zeros(8, 33, dtype=torch.bfloat16)))
refused("strides:", put(torch.zeros(33, 7, dtype=torch.bfloat16).t()))
refused("device:", put(given[0].to("meta")))
refused("sparse:", put(given[0].to_sparse()))
x = torch.randn(7, 33, dtype=torch.bfloat16, requires_grad=True)
module = tlora_torch.Module()
refused("twice:", lambda: torch.autograd.grad(torch.autograd.grad(module(x).sum(), x, create_graph=True)[0].sum(), x))

# Two threads.
right, wrong = module(x).detach(), []
def work():
    with torch.no_grad():
        for _ in range(200):
            if not torch.equal(module(x), right):
                wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("threads", len(wrong))
PY
    "$python" use.py >out 2>err
    status=$?
    is "operators in a program: values and gradients are PyTorch's own" 0 out '^values and gradients$'
    for line in "state \['feature\[3\]\.weight'\]" 'gradcheck' 'in place True' 'threads 0' \
        'graded: RuntimeError kept: it changes parameters in place and has no gradient: call it under torch.no_grad' \
        'overlap: RuntimeError kept: (mean|x): is written, and lies over another tensor' \
        'dtype: TypeError tlora: x is torch.float32; it was exported for torch.bfloat16' \
        'shape: ValueError tlora: x has the shape \(8, 33\); it was exported for \(7, 33\)' \
        'strides: ValueError tlora: x has the strides \(1, 7\); it is not copied, and must be packed row by row' \
        'device: ValueError tlora: x is on meta; it was exported for cpu' \
        'sparse: TypeError tlora: x is torch.sparse_coo; a dense tensor is wanted' \
        'twice: RuntimeError tlora: there is no gradient through it: there is no gradient of a gradient'; do
        holds "operators: $line" grep -qE "^$line" out
    done
    rm -f tlora/forward/libtlora.so
    "$python" -c 'import sys; sys.path.insert(0, "tlora"); import tlora_torch' >out 2>err
    status=$?
    is "a library that is not there is asked for" 1 err 'ImportError: tlora: .*libtlora.so is not built yet: make -C '
else
    report ok "operators in a program # SKIP $python has no PyTorch"
fi
(ulimit -f 60 && fb export lstm_step gates:max cut --as torch --device host --set N=64 --set H=64 && exit "$status") # blocks of 512 or 1024 bytes
status=$?
is "what cannot be written whole" 1 err1 'File too large'
holds "what could not be written whole is not there" test ! -e cut

# For a GPU: compiled and linked here; it runs where one is.
fb emit loop.lua none --target ptx
cuda=
for at in "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-*; do [ -n "$at" ] && [ -f "$at/include/cuda.h" ] && cuda=$at; done
stub=$(find "$cuda"/lib*/stubs -name libcuda.so 2>/dev/null | head -1)
if [ "$status" = 0 ] && [ -n "$stub" ]; then
    fb export loop.lua none gpu --as c --arch sm_90
    is "a column for a GPU" 0
    make -s -C gpu all test/main WARNINGS="$strict" CUDA_HOME="$cuda" >out 2>err
    status=$?
    is "is built without a warning" 0
    mkdir stub && ln -s "$stub" stub/libcuda.so.1
    LD_LIBRARY_PATH=$work/stub:$(dirname "$(dirname "$stub")") gpu/test/main gpu/test/data.bin >out 2>err
    status=$?
    case $status in 0 | 77) status=0 ;; esac
    is "and runs, or says that there is no GPU" 0 out '^(ok|skipped): '
    holds "with code of the architecture and PTX for later ones" grep -q 'ptx_0\[\]' gpu/src/code.h
    fb export lora_mlp lora:none tgpu --as torch --arch sm_90 --no-test --set batch=7
    is "operators for a GPU, products by the library" 0
    make -s -C tgpu WARNINGS="$strict" CUDA_HOME="$cuda" >out 2>err
    status=$?
    is "and are built without a warning" 0
    holds "with their gradient" test -e tgpu/backward/libtgpu_backward.so
    holds "for tensors of a GPU" grep -qx '_DEVICE = "cuda"' tgpu/tgpu_torch.py
    # Blocks of a long row wait for each other, so all of them must be there at once.
    cat >rows.lua <<'LUA'
return function(g)
  local x = g:input("x", { 2, 262144 })
  local e = (x - x:amax(-1, true)):exp()
  return e / e:sum(-1, true)
end
LUA
    fb export rows.lua max rows --as c --arch sm_90 --no-test
    is "long rows for a GPU" 0
    holds "say how many blocks wait for each other" grep -qE 'cubin_0, .*{256, 1, 1}, [0-9]+, false, 128, false},$' rows/rows.c
    make -s -C rows WARNINGS="$strict" CUDA_HOME="$cuda" >out 2>err
    status=$?
    is "and are built without a warning" 0
else
    report ok "a column for a GPU # SKIP no CUDA toolkit"
fi
done_testing
