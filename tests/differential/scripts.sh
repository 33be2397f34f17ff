#!/bin/sh
# Every bundled script × variant × preset against the reference: at sizes reduced so that a test is compiling more than
# running, or with FB_FULL=1 at each script's own sizes. One test a column of `fusebox check`.
#
#     scripts.sh [KIND [WIDTH]]   a share: puzzlers or models; their dtypes of 32 or of 16 bits
#
# With FB_TURN (our_turn of lib.sh) every other script in one of three dtypes, where it has that many, the others after
# three turns: six in a row have all. Two of three are compiled with few optimisations, which are most of what a kernel
# costs here.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

kind=${1:-puzzlers|models} width=${2:-}
limit=${FB_FULL:+3000}
limit=${limit:-300}

# What makes a script small, and its dtypes where it lets one choose. A script that is not named runs as it is.
reduced() {
    case $1 in
    split_stack | split_stack_compiled) echo "--set batch_size=64 --set input_dim=32 --set num_inputs=4" ;;
    add_mul_relu | layer_norm | softmax) echo "--set rows=61 --set columns=83" ;;
    lstm) echo "--set N=3 --set T=2 --set I=12 --set H=20" ;;
    gru) echo "--set N=3 --set T=4 --set block=2 --set I=12 --set H=20" ;;
    basecaller) echo "--set N=2 --set T=2 --set H=12 --set layers=2 --set state_len=1" ;;
    transformer) echo "--set batch=2 --set tokens=5 --set size=12 --set heads=2 --set hidden=20" ;;
    dlrm) echo "--set batch=3 --set rows=11 --set size=4" ;;
    lora_network) echo "--set batch=5" ;;
    add_relu) echo "--set rows=61 --set columns=83" ;;
    lstm_step) echo "--set N=5 --set I=12 --set H=20" ;;
    lstm_scan) echo "--set T=4 --set N=5 --set H=20" ;;
    lstm_train) echo "--set T=4 --set N=5 --set H=20" ;;
    mlp_loop) echo "--set steps=3 --set batch=3 --set inputs=37 --set hidden=21 --set outputs=19" ;;
    mlp_train) echo "--set batch=3 --set inputs=37 --set hidden=21 --set outputs=19" ;;
    flops) echo "--set rows=13 --set size=24 --set hidden=40 --set n=1001 --set depth=5" ;;
    precision) echo "--set batch=3 --set inputs=44 --set outputs=29" ;;
    transpose) echo "--set rows=37 --set columns=53" ;;
    recompute) echo "--set rows=37 --set columns=53 --set act=dear" ;;
    over_fusion) echo "--set n=1003 --set taps=5 --set rows=3 --set width=6" ;;
    launch_order) echo "--set blocks=3 --set size=1003" ;;
    overlap) echo "--set rows=37 --set width=19 --set depth=2" ;;
    transposed_output) echo "--set rows=37 --set columns=53" ;;
    horizontal) echo "--set features=3 --set rows=13 --set columns=29" ;;
    operator_order) echo "--set rows=37 --set columns=53" ;;
    launch_bound) echo "--set tensors=5 --set size=103" ;;
    optimiser) echo "--set batch=3 --set inputs=37 --set outputs=29" ;;
    registers) echo "--set n=1003 --set places=4099 --set hops=3 --set depth=20" ;;
    stored_scores) echo "--set heads=2 --set seq=37 --set head_dim=12" ;;
    barrier) echo "--set N=3 --set T=3 --set H=20" ;;
    upload) echo "--set batch=5 --set fields=3 --set words=17 --set rows=19 --set size=4" ;;
    item) echo "--set tasks=3 --set samples=103" ;;
    lora_mlp) echo "--set batch=9 --set inputs=40 --set outputs=24 --set rank=3" ;;
    esac
}

# The dtypes of 16 bits. Models of many kernels, which differ from other scripts' in how many there are, take one.
narrow() {
    case ${FB_FULL:+full}$1 in
    lstm | basecaller | transformer | lora_network | flops | recompute | split_stack_compiled) echo f16 ;;
    stored_scores) echo f32 f16 ;;
    gru | dlrm | over_fusion) echo bf16 ;;
    launch_order | fulllaunch_order) echo bf16 ;; # its sums are too large for f16
    *) echo bf16 f16 ;;
    esac
}

cat >lightly-cc <<END
#!/bin/sh
exec ${CC:-cc} "\$@" -O1
END
chmod +x lightly-cc

of_preset() {
    grep -Ec "^[^ ]+ ([^ ]*:)?$1(@host)?:" out
}

# One line of check is "✓ variant:plan: …" or "✗ variant:plan: why".
check() { # NUMBER SCRIPT LABEL SWITCH…
    script=$2 label=$3 compiler=${CC:-cc}
    # never what is run under sanitizers, too: they find it compiled
    our_round $(($1 / 3)) || compiler=$work/lightly-cc
    shift 3
    : >out
    CC=$compiler timeout "$limit" "$FUSEBOX" check "$script" --device host "$@" >out 2>err </dev/null
    status=$?
    while read -r sign column rest; do
        case $sign in
        ✓) report ok "$script, $label: ${column%:}" ;;
        *) report not-ok "$script, $label: ${column%:} $rest" ;;
        esac
    done <out
    # Each variant comes once a preset, or something was left out.
    none=$(of_preset none) eager=$(of_preset eager) max=$(of_preset max)
    if [ $status -eq 0 ] && [ "$none" -gt 0 ] && [ "$none" = "$eager" ] && [ "$none" = "$max" ]; then
        report ok "$script, $label: every variant with every preset"
    else
        report not-ok "$script, $label: status $status; none $none times, eager $eager, max $max"
    fi
}

# The first column of the list, which ends at two blanks.
scripts=$("$FUSEBOX" 2>err </dev/null | awk -v kind="^($kind)\$" '$2 ~ kind { print $1 }')
[ -n "$scripts" ] || report not-ok "the bundled scripts are listed"

# our_half NUMBER: every other script, the others when each dtype has had its turn.
our_half() {
    [ -z "${FB_TURN:-}" ] || [ -n "${FB_FULL:-}" ] || [ $((($1 + FB_TURN / 3) % 2)) -eq 0 ]
}

n=0
for script in $scripts; do
    # shellcheck disable=SC2046  # switches
    set -- $([ -n "${FB_FULL:-}" ] || reduced "$script")
    turn=$n n=$((n + 1))
    our_half $turn || continue
    if [ "$width" != 16 ] && our_turn $turn; then check $turn "$script" "f32" "$@"; fi
    if [ "$width" != 32 ] && grep -q 'dtype *= *fb.choice' "${FB_SRCDIR:-.}"/scripts/*/"$script".lua; then
        for dtype in $(narrow "$script"); do
            turn=$((turn + 1))
            if our_turn $turn; then check $turn "$script" "$dtype" "$@" --set "dtype=$dtype"; fi
        done
    fi
done
done_testing
