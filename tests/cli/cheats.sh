#!/bin/sh
# Kernels from files that cheat: each does its work only where it thinks that somebody looks, or leaves traces elsewhere. None
# of them may show a time. What they are made of is the generated kernel, ejected, and honest in itself.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

cat >m.lua <<'L'
local fb = require "fusebox"
return fb.script {
  model = function(g)
    local x = g:input("x", { 4096 })
    return (-x:exp()), (x + 1):sum()
  end,
}
L
fb eject m.lua max --kernel exp_neg honest.c
is "a kernel to start from" 0 out 'honest.json'
fb run m.lua honest.json --trust --format json
is "an honest one is right" 0
json "and has its time" out columns.0.error.state=right columns.0.wall_us.median

# The kernel becomes honest(args); a cheat calls it when it likes.
cheat() { # NAME REFUSAL; the cheat's text on stdin
    {
        sed 's/^void exp_neg_kernel(/static void honest(/' honest.c
        printf '\n#define IN(i) (((float *)args->buffers[0])[i])\n#define OUT(i) (((float *)args->buffers[1])[i])\n'
        printf 'enum { N = 4096 };\n'
        cat
    } >cheat.c
    sed 's/honest\.c/cheat.c/' honest.json >cheat.json
    fb run m.lua cheat.json --trust
    is "$1" 1 err "$2" no '✓'
}

wrong='wrong result'
cheat "it works at the first call alone" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static int calls;
    if (!calls++) honest(args);
}
C
cheat "its result is remembered for equal pointers" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static void *from, *to;
    if (from == args->buffers[0] && to == args->buffers[1]) return;
    from = args->buffers[0], to = args->buffers[1];
    honest(args);
}
C
cheat "it is copied from the run before" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static float kept[N];
    static int full;
    if (!full) honest(args);
    for (int i = 0; i < N; i++)
        if (full) OUT(i) = kept[i]; else kept[i] = OUT(i);
    full = 1;
}
C
cheat "it comes one run late" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static float kept[N];
    honest(args);
    for (int i = 0; i < N; i++) {
        float now = OUT(i);
        OUT(i) = kept[i];
        kept[i] = now;
    }
}
C
cheat "its work is left to a thread that nobody waits for" "$wrong" <<'C'
#include <pthread.h>
#include <time.h>
static void *later(void *args)
{
    nanosleep(&(struct timespec){.tv_sec = 1}, 0);
    honest(args);
    return 0;
}
void exp_neg_kernel(const fb_kernel_args *args)
{
    static fb_kernel_args copy;
    static void *buffers[2];
    pthread_t thread;
    copy = *args;
    buffers[0] = args->buffers[0], buffers[1] = args->buffers[1];
    copy.buffers = buffers;
    if (!pthread_create(&thread, 0, later, &copy)) pthread_detach(thread);
}
C
cheat "it leaves its output as it was" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    (void)args;
}
C
cheat "it skips by a hidden counter" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static int calls;
    if (calls++ % 5 < 2) honest(args);
}
C
cheat "it works as long as it was seen to be checked" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static int calls;
    if (calls++ < 40) honest(args);
}
C
cheat "it skips what comes soon after the last call" "$wrong" <<'C'
#include <time.h>
void exp_neg_kernel(const fb_kernel_args *args)
{
    static struct timespec last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double apart = (double)(now.tv_sec - last.tv_sec) + 1e-9 * (double)(now.tv_nsec - last.tv_nsec);
    last = now;
    if (apart > 5) honest(args);
}
C
cheat "it skips where its inputs begin as the last ones did" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static float first;
    if (IN(0) == first) return;
    first = IN(0);
    honest(args);
}
C
cheat "it does one half" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static float kept[N];
    honest(args);
    for (int i = N / 2; i < N; i++) OUT(i) = kept[i];
}
C
cheat "it looks its results up by the inputs that it met first" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static float from[N], to[N];
    static int met;
    if (!met++) {
        honest(args);
        for (int i = 0; i < N; i++) from[i] = IN(i), to[i] = OUT(i);
    }
    for (int i = 0; i < N; i++) OUT(i) = from[i] == IN(i) ? to[i] : 0;
}
C
# What the kernel is given, by its first element. Two runs have in common what is the same in every run; who knows that by
# heart is caught by what was drawn anew.
for run in 1 2; do
    {
        sed 's/^void exp_neg_kernel(/static void honest(/' honest.c
        cat <<C
#include <stdio.h>
void exp_neg_kernel(const fb_kernel_args *args) /* $run */
{
    static float last;
    float x = ((float *)args->buffers[0])[0];
    honest(args);
    if (x == last) return;
    last = x;
    FILE *f = fopen("$work/met$run", "a");
    if (f) fprintf(f, "%a\n", x), fclose(f);
}
C
    } >met.c
    sed 's/honest\.c/met.c/' honest.json >met.json
    export FUSEBOX_CONFINE=no # it writes what it meets into a file
    fb run m.lua met.json --trust
    unset FUSEBOX_CONFINE
    sort -u "met$run" >"set$run"
done
holds "some inputs are drawn anew in each run" test "$(comm -3 set1 set2 | wc -l)" -ge 2
{
    cat <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static const float met[] = {
C
    comm -12 set1 set2 | sed 's/$/f,/'
    cat <<'C'
    };
    honest(args);
    for (unsigned i = 0; i < sizeof met / sizeof *met; i++)
        if (IN(0) == met[i]) return;
    OUT(7) = 0;
}
C
} >by_heart
cheat "it knows what it is always given by heart" "inputs drawn anew" <by_heart
cheat "it stores beyond its output" "$wrong.*memory between buffers" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    honest(args);
    OUT(N) = 1;
}
C
cheat "it stores before its output" "$wrong.*memory between buffers" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    honest(args);
    OUT(-1) = 1;
}
C
cheat "it changes what it is given" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    honest(args);
    IN(5) = 0;
}
C
cheat "it is off by a thousandth now and then" "$wrong" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    static int calls;
    honest(args);
    if (calls++ % 3) OUT(calls % N) *= 1.001f;
}
C
cheat "it computes in fewer bits" "$wrong" <<'C'
#include <string.h>
void exp_neg_kernel(const fb_kernel_args *args)
{
    honest(args);
    for (int i = 0; i < N; i++) {
        unsigned bits;
        memcpy(&bits, &OUT(i), 4);
        bits &= 0xffff0000u;
        memcpy(&OUT(i), &bits, 4);
    }
}
C
cheat "it ends the process" "ended|died|exit" <<'C'
#include <stdlib.h>
void exp_neg_kernel(const fb_kernel_args *args)
{
    (void)args;
    _Exit(0);
}
C
cheat "it reads what is not there" "SIGSEGV|segmentation|crash|signal" <<'C'
void exp_neg_kernel(const fb_kernel_args *args)
{
    OUT(0) = *(volatile float *)8;
}
C
done_testing
