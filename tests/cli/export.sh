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
is "a form must be named" 2 err1 'as is missing: --as c'
fb export lstm_step gates:max out2 --as rust
is "and be one that there is" 2 err1 'no form "rust"; there is: c'
fb export lstm_step max out2 --as c --device host
is "of one column" 2 err1 'name one, such as'
fb export lstm_step gates:max out2 --as c --device host --set N=1,2
is "at one size" 2 err1 'one value'
holds "nothing is left of those" test ! -e out2
fb export lstm_step gates:max out2 --as c --device host --no-test --set N=3 --set H=5
is "without a test" 0 out '^make -C out2$'
holds "there is none" test ! -e out2/test
holds "and make says so" sh -c 'make -s -C out2 test OPTIMISE=-O0 | grep -q "no test was exported"'

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
