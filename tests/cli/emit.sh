#!/bin/sh
# fusebox emit: every target, which needs no GPU; what NVRTC or a disassembler makes of it only where they are.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fb emit split_stack combined:max $small --target c
is "C" 0 out 'void .*_kernel' no '__global__'
FB_DEBUG=nskbv fb emit split_stack combined:max $small --target c
is "what each pass leaves, by its letter" 0 err '^> nest of layer_norm' err '^> schedule of layer_norm' err '^> kernel layer_norm' \
    err '^> program for c' err 'pool: [0-9]+ bytes'
FB_DEBUG=s fb emit split_stack combined:max $small --target cuda
holds "and of no other" sh -c '! grep -q "^> [^s]" err && grep -q "blocks of [0-9]* threads" err'
fb emit split_stack combined:max $small --target cuda
is "CUDA, which needs nothing of CUDA" 0 out '__global__' out 'tanhf'
fb emit split_stack combined:none $small --target cuda
is "a plan of a host's column is made for the GPU" 0 out 'launches'
fb emit split_stack combined:eager $small --target cuda --kernel tanh
is "one kernel by its name" 0 out 'tanh_kernel' no 'layer_norm_kernel'
fb emit split_stack combined:eager $small --target c --kernel 1
is "by its number" 0 out 'void layer_norm_kernel' no 'void tanh_kernel'
fb emit split_stack combined:eager $small --target c --kernel gelu
is "no such kernel" 2 err1 'no kernel "gelu"; there are: layer_norm, tanh'
fb emit split_stack split_stack:eager $small --target c -k 'feature[*].tanh'
is "by its nodes, once what they share" 0 out 'void tanh_kernel' no 'void layer_norm_kernel'
holds "and no more than that" test "$(grep -c '^void ' out)" = 1
fb emit split_stack split_stack:none $small --target c -k 'feature[*].layer_norm.me[*]'
is "no such nodes" 2 err1 'no kernel "feature\[\*\].layer_norm.me\[\*\]"; there are:'
cat >product.lua <<'END'
local fb = require "fusebox"
return fb.script { model = function(g) return g:input("x", { 64, 64 }):matmul(g:param("w", { 64, 64 })) end }
END
fb emit product.lua max --device host
is "nothing but library calls: a sentence, and the launches" 0 out 'matmul = gemm\(x, w\)' no 'static inline' \
    err1 'max generates no kernel: each of its launches is a call of the library'
fb emit product.lua max -k matmul
is "one of them has no source" 3 err1 'kernel 1 is the library.s: there is no source'
fb emit split_stack combined:max $small --target wasm
is "no such target" 2 err1 'no target "wasm"; there are: c, cuda, ptx, sass, resources'
fb emit split_stack combined:max $small --target c --arch sm_90
is "an architecture without a GPU's target" 2 err1 '\-\-arch goes with'

fb emit split_stack combined:max $small --target ptx
if [ "$status" = 3 ]; then
    is "without NVRTC or the headers: one line" 3 err1 'NVRTC|headers'
    fb emit split_stack combined:max $small --target resources
    is "for resources, too" 3 err1 'NVRTC|headers'
    done_testing
    exit 0
fi
is "PTX" 0 out '^\.target sm_90' out '\.visible \.entry'
cat >one.lua <<'END'
local fb = require "fusebox"
return fb.script {
  plans = { graph = function(pl) pl:launch("graph") end },
  model = function(g) return g:input("x", { 64 }, "f32"):relu() end,
}
END
fb record --compile=sm_90 one.lua
is "what would be recorded, a plan for a GPU too" 0 out '^sm_90: [0-9]+ plans .* 1 new kernels, 0 failed'
fb emit split_stack combined:max $small --target ptx --arch sm_80
is "PTX of another architecture" 0 out '^\.target sm_80'
fb emit split_stack combined:max $small --target ptx --arch volta
is "an architecture in words" 2 err1 'is written sm_90, not "volta"'
fb emit split_stack split_stack:eager $small --target resources --kernel stack
is "a stack's pointers are no table in local memory" 0 out '^kernel .*local' out '^stack +copy +[^ ]+ +[^ ]+ +[0-9]+ +0 +0 +0 '
fb emit split_stack combined:max $small --target ptx --arch sm_20
is "one that NVRTC has forgotten" 2 err1 'knows no sm_20; there are: sm_'
fb emit split_stack combined:eager $small --target resources
is "resources" 0 out '^kernel .*registers .*occupancy' out '^layer_norm +reduce .* %' out '^sm_90: 65536 registers'
fb emit split_stack combined:eager $small --target ptx --kernel tanh
is "PTX of one kernel" 0 out 'entry tanh_kernel' no 'entry layer_norm'
fb emit lora_mlp lora:eager --target resources --arch sm_120
is "of calls, too, and another architecture's limits" 0 out '^cuBLASLt +library' out '^sm_120: .* 1536 threads'

mkdir bin
printf '#!/bin/sh\necho "disassembled $1"; test -s "$2"\n' >bin/nvdisasm
chmod +x bin/nvdisasm
PATH=$PWD/bin:$PATH fb emit split_stack combined:max $small --target sass
is "machine code, through the toolkit's disassembler" 0 out 'disassembled -c' out '^// '
printf '#!/bin/sh\nexit 1\n' >bin/nvdisasm
PATH=$PWD/bin:$PATH fb emit split_stack combined:max $small --target sass
is "one that fails" 1 err1 'nvdisasm cannot read'
rm -r bin
fb emit split_stack combined $small --target c
cp out alone
fb emit split_stack combined:auto $small --target c
is "a variant without a plan is that with auto" "$(cmp -s out alone; echo $?)"
if [ ! -x /usr/local/cuda/bin/nvdisasm ] && [ ! -x /usr/local/cuda/bin/cuobjdump ]; then
    CUDA_HOME=$PWD CUDA_PATH=$PWD PATH=/usr/bin:/bin fb emit split_stack combined:max $small --target sass
    is "none there" 3 err1 'needs nvdisasm or cuobjdump'
fi
done_testing
