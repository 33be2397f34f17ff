// Generated CUDA C as a C++ program on the CPU: one block after the other, its threads as fibers that change at barriers and
// where a warp does something together. For the answer alone; nothing here is fast. Stands in front of a kernel's unit,
// from which the parts in PTX are taken out (emulate_cuda.h); their meaning is here.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __noinline__
#define FB_DEVICE static inline
#define FB_STAGES 1
#define FB_MEET_SOME(barrier, threads) shim::barrier_of(barrier, threads)

struct shim_dim {
    unsigned x, y, z;
};
static shim_dim threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

struct fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
};

struct warp {
    int arrived = 0;
    unsigned round = 0;
    const char *what = nullptr;
    void *lane[32];
};

static std::vector<fiber> fibers;
static std::vector<warp> warps;
static ucontext_t scheduler;
static unsigned current, arrived, barrier_round;
static unsigned long moves; // arrivals at barriers and ends of threads: while nothing moves, nothing ever will
static void (*body)(void *);
static void *body_ctx;

static void yield()
{
    const unsigned me = current;
    swapcontext(&fibers[me].context, &scheduler);
}

static void fiber_main()
{
    body(body_ctx);
    fibers[current].done = true;
}

static void die(const char *what)
{
    fprintf(stderr, "emulated kernel: %s\n", what);
    abort();
}

static void barrier()
{
    const unsigned round = barrier_round;
    moves++;
    if (++arrived == fibers.size()) {
        arrived = 0;
        barrier_round++;
        return;
    }
    while (barrier_round == round) yield();
}

// The first `threads` threads alone, at one of a block's barriers: hardware stops a kernel whose threads count differently.
static void barrier_of(int barrier, unsigned threads)
{
    static unsigned here[16], round[16], count[16];
    const unsigned mine = round[barrier];
    if (here[barrier] && count[barrier] != threads) die("threads meet at one barrier in different numbers");
    count[barrier] = threads;
    moves++;
    if (++here[barrier] == threads) {
        here[barrier] = 0;
        round[barrier]++;
        return;
    }
    while (round[barrier] == mine) yield();
}

// All lanes of a warp bring something; the last to come does `together` for all of them.
template <class F> static void collective(const char *what, void *mine, F together)
{
    warp &w = warps[current / 32];
    const unsigned round = w.round;
    moves++;
    if (w.arrived && strcmp(w.what, what) != 0) die("lanes of a warp do different things together");
    w.what = what;
    w.lane[current % 32] = mine;
    if (++w.arrived == 32) {
        together(w.lane);
        w.arrived = 0;
        w.round++;
        return;
    }
    while (w.round == round) yield();
}

static void run_block(unsigned threads)
{
    enum { STACK = 256 << 10 };
    fibers.resize(threads);
    warps.assign((threads + 31) / 32, warp());
    arrived = 0;
    for (unsigned i = 0; i < threads; i++) {
        fiber &f = fibers[i];
        f.stack.resize(STACK);
        f.done = false;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = &scheduler;
        makecontext(&f.context, fiber_main, 0);
    }
    for (unsigned left = threads; left;) {
        const unsigned long before = moves;
        for (current = 0; current < threads; current++) {
            fiber &f = fibers[current];
            if (f.done) continue;
            threadIdx.x = current;
            swapcontext(&scheduler, &f.context);
            left -= f.done;
            moves += f.done;
        }
        if (moves == before) die("a barrier that not all threads reach");
    }
}

static void run(const int grid[3], int threads, void (*f)(void *), void *ctx)
{
    body = f;
    body_ctx = ctx;
    gridDim = {(unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]};
    blockDim = {(unsigned)threads, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) run_block((unsigned)threads);
}

template <class... A, size_t... I> static void call(void (*f)(A...), void *const *args, std::index_sequence<I...>)
{
    f((A)args[I]...);
}

// Dynamic shared memory; what lies behind what a kernel asked for is watched.
__attribute__((aligned(1024))) unsigned char shared[(256 << 10) + 256];

template <class... A> static void launch(void (*f)(A...), const int grid[3], int threads, int dynamic, void *const *args)
{
    struct both {
        void (*f)(A...);
        void *const *args;
    } what = {f, args};
    memset(shared, 0xff, sizeof shared);
    run(grid, threads,
        [](void *ctx) {
            both *b = (both *)ctx;
            call(b->f, b->args, std::index_sequence_for<A...>());
        },
        &what);
    for (size_t i = (size_t)dynamic; i < sizeof shared; i++)
        if (shared[i] != 0xff) die("writes behind its shared memory");
}

} // namespace shim

static void __syncthreads() { shim::barrier(); }
static void fb_meet_all() { shim::barrier(); }
static void __syncwarp(unsigned = ~0u) { shim::collective("syncwarp", nullptr, [](void **) {}); }
static void __threadfence() {}
static void fb_fetch_line(const void *at) { (void)*(const volatile char *)at; }

template <class T> static T __shfl_xor_sync(unsigned, T x, int mask)
{
    struct exchange {
        T in, out;
        int mask;
    } mine = {x, x, mask};
    shim::collective("shuffle", &mine, [](void **lane) {
        for (int l = 0; l < 32; l++)
            ((exchange *)lane[l])->out = ((exchange *)lane[l ^ ((exchange *)lane[l])->mask])->in;
    });
    return mine.out;
}

static unsigned atomicAdd(unsigned *at, unsigned by) { return (*at += by) - by; }

template <class T, class U> static typename std::common_type<T, U>::type min(T a, U b) { return a < b ? a : b; }
template <class T, class U> static typename std::common_type<T, U>::type max(T a, U b) { return a > b ? a : b; }
static float __uint_as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static float __int_as_float(int bits) { return __uint_as_float((uint32_t)bits); }
static uint32_t shim_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
#define __expf expf // a C library declares one of that name
static float __fdividef(float a, float b) { return a / b; }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dmul_rn(double a, double b) { return a * b; }
static float rsqrtf(float x) { return 1 / sqrtf(x); }
static double rsqrt(double x) { return 1 / sqrt(x); }

// ---- 16-bit floats ----

struct fb_f16 {
    unsigned short bits;
};
struct fb_bf16 {
    unsigned short bits;
};

static float fb_from_f16(fb_f16 h)
{
    int exponent = h.bits >> 10 & 31, mantissa = h.bits & 1023;
    float x = exponent == 31 ? (mantissa ? NAN : INFINITY)
              : exponent     ? ldexpf((float)(mantissa | 1024), exponent - 25)
                             : ldexpf((float)mantissa, -24);
    return h.bits >> 15 ? -x : x;
}

static fb_f16 fb_to_f16(float x)
{
    unsigned short sign = (unsigned short)(std::signbit(x) ? 0x8000 : 0);
    float a = fabsf(x);
    if (x != x) return {0x7fff};
    if (a >= 65520) return {(unsigned short)(sign | 0x7c00)};
    if (a == 0) return {sign};
    int exponent = ilogbf(a) < -14 ? -14 : ilogbf(a);
    int units = (int)nearbyintf(ldexpf(a, 10 - exponent)); // carries into the exponent by itself
    return {(unsigned short)(sign | (exponent == -14 && units < 1024 ? units : ((exponent + 14) << 10) + units))};
}

static float fb_from_bf16(fb_bf16 h) { return __uint_as_float((uint32_t)h.bits << 16); }
static fb_bf16 fb_to_bf16(float x)
{
    uint32_t bits = shim_bits(x);
    if (x != x) return {0x7fff};
    return {(unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// ---- what tile.cuh says in PTX ----

// Copies in the background come when they are waited for, not before: a kernel that forgets to reads poison.
namespace shim {
struct copy {
    void *to;
    unsigned char bytes[16];
};
static std::vector<std::vector<copy>> *batches()
{
    static std::vector<std::vector<std::vector<copy>>> of(2048);
    return &of[current];
}
} // namespace shim

static void fb_copy_16(void *to, const void *from)
{
    if (((uintptr_t)to | (uintptr_t)from) % 16) shim::die("a piece that is not aligned");
    auto *b = shim::batches();
    if (b->empty()) b->emplace_back();
    shim::copy c = {to, {}};
    memcpy(c.bytes, from, 16);
    b->back().push_back(c);
}

static void fb_zero_16(void *to)
{
    if ((uintptr_t)to % 16) shim::die("a piece that is not aligned");
    memset(to, 0, 16);
}

static void fb_copies_mark()
{
    auto *b = shim::batches();
    if (b->empty()) b->emplace_back();
    b->emplace_back();
}

template <int LEFT> static void fb_copies_wait()
{
    auto *b = shim::batches();
    while (b->size() > LEFT + 1) { // the last is open
        for (auto &c : b->front()) memcpy(c.to, c.bytes, 16);
        b->erase(b->begin());
    }
}

template <bool TURNED> static void fb_load_fragment(unsigned (&r)[4], const void *at)
{
    struct part {
        unsigned *r;
        const unsigned short *at;
    } mine = {r, (const unsigned short *)at};
    if ((uintptr_t)at % 16) shim::die("a fragment that is not aligned");
    shim::collective(TURNED ? "ldmatrix turned" : "ldmatrix", &mine, [](void **lane) {
        for (int l = 0; l < 32; l++)
            for (int j = 0; j < 4; j++) {
                unsigned two[2];
                for (int e = 0; e < 2; e++) {
                    int row = TURNED ? 2 * (l % 4) + e : l / 4, col = TURNED ? l / 4 : 2 * (l % 4) + e;
                    two[e] = ((part *)lane[8 * j + row])->at[col];
                }
                ((part *)lane[l])->r[j] = two[0] | two[1] << 16;
            }
    });
}

namespace shim {
struct operands {
    float *c;
    const unsigned *a, *b;
};

// of(register, half): an operand's element; K: 16 for halves, 8 for tf32.
template <int K, class F> static void multiply(void **lane, F of)
{
    float a[16][K], b[K][8];
    constexpr int E = K / 8; // elements a register
    for (int l = 0; l < 32; l++) {
        const operands *o = (const operands *)lane[l];
        const int g = l / 4, t = l % 4;
        for (int i = 0; i < 4; i++)
            for (int e = 0; e < E; e++) a[g + (i & 1) * 8][E * t + e + (i >> 1) * K / 2] = of(o->a[i], e);
        for (int i = 0; i < 2; i++)
            for (int e = 0; e < E; e++) b[E * t + e + i * K / 2][g] = of(o->b[i], e);
    }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) {
            const int row = l / 4 + (i >> 1) * 8, col = 2 * (l % 4) + (i & 1);
            float sum = ((operands *)lane[l])->c[i];
            for (int k = 0; k < K; k++) sum += a[row][k] * b[k][col];
            ((operands *)lane[l])->c[i] = sum;
        }
}
} // namespace shim

static void fb_multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], fb_f16)
{
    shim::operands mine = {c, a, b};
    shim::collective("mma f16", &mine, [](void **lane) {
        shim::multiply<16>(lane, [](unsigned r, int e) { return fb_from_f16({(unsigned short)(r >> 16 * e)}); });
    });
}

static void fb_multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], fb_bf16)
{
    shim::operands mine = {c, a, b};
    shim::collective("mma bf16", &mine, [](void **lane) {
        shim::multiply<16>(lane, [](unsigned r, int e) { return fb_from_bf16({(unsigned short)(r >> 16 * e)}); });
    });
}

static unsigned fb_tf32(float x) { return (shim_bits(x) + 0x1000) & ~0x1fffu; }

static void fb_multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], float)
{
    shim::operands mine = {c, a, b};
    shim::collective("mma tf32", &mine,
                     [](void **lane) { shim::multiply<8>(lane, [](unsigned r, int) { return __uint_as_float(r); }); });
}

// ---- what wgmma.cuh says in PTX ----

// Addresses are what descriptors say, strides and swizzle of the real ones; sums are poison until they are waited for.
struct fb_wide_tile {
    const unsigned char *at;
    int strip, group;
};

static fb_wide_tile fb_describe(const void *at, int strip, int group) { return {(const unsigned char *)at, strip, group}; }
static void fb_written_for_wide() {}
static void fb_wide_begin() {}

namespace shim {
// An element of a tile of 16-bit elements; `outer`: row of the left operand, column of the right one.
static unsigned short element_of(fb_wide_tile t, bool turned, int outer, int k)
{
    const unsigned char *at = turned ? t.at + outer / 64 * t.strip + k / 8 * t.group + k % 8 * 128 + outer % 64 * 2
                                     : t.at + outer / 8 * t.group + outer % 8 * 128 + k * 2;
    uintptr_t place = (uintptr_t)at;
    place ^= (place >> 7 & 7) << 4;
    return *(const unsigned short *)place;
}

struct sent {
    float *c;
    std::vector<float> sums;
};
static std::vector<std::vector<sent>> *wide_batches() // the last is open
{
    static std::vector<std::vector<std::vector<sent>>> of(2048);
    if (of[current].empty()) of[current].emplace_back();
    return &of[current];
}

// The four warps of a warpgroup bring their registers; the last to come multiplies for all.
struct wide_operands {
    const unsigned *a;
    float *in, *out;
};
struct gathering {
    int arrived = 0;
    unsigned round = 0;
    wide_operands lane[128];
};
static gathering gatherings[16];

template <class F> static void wide_together(wide_operands mine, F together)
{
    gathering &g = gatherings[current / 128];
    const unsigned round = g.round;
    moves++;
    g.lane[current % 128] = mine;
    if (++g.arrived == 128) {
        together(g.lane);
        g.arrived = 0;
        g.round++;
        return;
    }
    while (g.round == round) yield();
}

template <class ELEM> static float value_of(unsigned short bits);
template <> float value_of<fb_f16>(unsigned short bits) { return fb_from_f16({bits}); }
template <> float value_of<fb_bf16>(unsigned short bits) { return fb_from_bf16({bits}); }

// left(lane, row, k): an element of the left operand; lane: of all that were brought.
template <int N, bool B_TURNED, class ELEM, class L>
static void wide(float *c, const unsigned *a, fb_wide_tile b, bool add, L left)
{
    auto *batches = wide_batches();
    std::vector<float> before(c, c + N / 2), after(N / 2);
    for (auto &batch : *batches)
        for (auto &s : batch)
            if (s.c == c) before = s.sums;
    if (!add) before.assign(N / 2, 0.0f);
    wide_together({a, before.data(), after.data()}, [&](wide_operands *lane) {
        for (int row = 0; row < 64; row++)
            for (int n = 0; n < N; n++) {
                const int l = row / 16 * 32 + row % 8 * 4 + n % 8 / 2, i = n / 8 * 4 + row % 16 / 8 * 2 + n % 2;
                float sum = lane[l].in[i];
                for (int k = 0; k < 16; k++) sum += left(lane, row, k) * value_of<ELEM>(element_of(b, B_TURNED, n, k));
                lane[l].out[i] = sum;
            }
    });
    for (int i = 0; i < N / 2; i++) c[i] = NAN;
    batches->back().push_back({c, after});
}

template <int N, bool A_TURNED, bool B_TURNED, class ELEM> static void wide_shared(float *c, fb_wide_tile a, fb_wide_tile b, bool add)
{
    wide<N, B_TURNED, ELEM>(c, nullptr, b, add,
                            [=](wide_operands *, int row, int k) { return value_of<ELEM>(element_of(a, A_TURNED, row, k)); });
}
} // namespace shim

static void fb_wide_mark() { shim::wide_batches()->emplace_back(); }

template <int LEFT> static void fb_wide_wait()
{
    auto *b = shim::wide_batches();
    while (b->size() > LEFT + 1) {
        for (auto &s : b->front()) {
            bool again = false; // added to by what is not waited for
            for (size_t i = 1; i < b->size(); i++)
                for (auto &later : (*b)[i]) again |= later.c == s.c;
            if (!again) memcpy(s.c, s.sums.data(), s.sums.size() * sizeof(float));
        }
        b->erase(b->begin());
    }
}

#define SHIM_WIDE(N)                                                                                                       \
    template <bool A_TURNED, bool B_TURNED, class ELEM>                                                                    \
    static void fb_wide_##N(float *c, fb_wide_tile a, fb_wide_tile b, bool add, ELEM)                                      \
    {                                                                                                                      \
        shim::wide_shared<N, A_TURNED, B_TURNED, ELEM>(c, a, b, add);                                                      \
    }
SHIM_WIDE(64)
SHIM_WIDE(128)
SHIM_WIDE(256)

template <bool B_TURNED, class ELEM> static void fb_wide_64(float *c, const unsigned *a, fb_wide_tile b, bool add, ELEM)
{
    shim::wide<64, B_TURNED, ELEM>(c, a, b, add, [](shim::wide_operands *lane, int row, int k) {
        const shim::wide_operands &o = lane[row / 16 * 32 + row % 8 * 4 + k % 8 / 2];
        return shim::value_of<ELEM>((unsigned short)(o.a[k / 8 * 2 + row % 16 / 8] >> 16 * (k % 2)));
    });
}

// A count: arrivals that a phase takes, those still missing, phases that have ended.
struct shim_count {
    unsigned short arrivals, missing;
    unsigned ended;
};

static void fb_count_start(unsigned long long *count, int arrivals)
{
    *(shim_count *)count = {(unsigned short)arrivals, (unsigned short)arrivals, 0};
}

static void fb_count_arrive(unsigned long long *count)
{
    shim_count *c = (shim_count *)count;
    shim::moves++;
    if (--c->missing == 0) c->missing = c->arrivals, c->ended++;
}

static void fb_count_copies(unsigned long long *count)
{
    fb_copies_mark();
    fb_copies_wait<0>();
    fb_count_arrive(count);
}

static void fb_count_wait(unsigned long long *count, int parity)
{
    volatile shim_count *c = (shim_count *)count;
    while ((c->ended & 1) == (unsigned)parity) shim::yield();
}

static float fb_relu_wide(float x) { return x < 0 ? 0 : x; }
static float fb_sigmoid_wide(float x) { return 1 / (1 + expf(-x)); }

/* ---- several neighbours in one access: a GPU takes them at multiples of their size only ---- */

template <class T, int N> struct alignas(sizeof(T) * N) fb_pack {
    T at[N];
};

static void fb_check_place(const void *p, size_t size)
{
    if ((uintptr_t)p % size) shim::die("a vector at a place that is no multiple of its size");
}

template <int N, class T> static fb_pack<T, N> fb_load(const T *from)
{
    fb_check_place(from, sizeof(fb_pack<T, N>));
    return *(const fb_pack<T, N> *)from;
}

template <int N, class T> static void fb_store(T *to, const fb_pack<T, N> &values)
{
    fb_check_place(to, sizeof(fb_pack<T, N>));
    *(fb_pack<T, N> *)to = values;
}
