// Generated CUDA C as a C++ program on the CPU: one block after the other, its threads as fibers that change at barriers and
// where a warp does something together. For the answer alone; nothing here is fast. Stands in front of a kernel's unit,
// from which the parts in PTX are taken out (emulate_cuda.h); their meaning is here. Blocks that may wait for each other (a
// merged kernel's) are there at once: one goes on until all its threads wait, then the next.
//
// With SHIM_RACES, a unit is instrumented (-fsanitize=thread) and says to races.h what its threads do to memory and what
// they wait for. What the compiler leaves in the unit's .bss is then a kernel's in shared memory: all else is elsewhere.
#ifndef TESTS_UNIT_CUDA_SHIM_HPP // it may have been read before, precompiled
#define TESTS_UNIT_CUDA_SHIM_HPP
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __noinline__
#define FB_DEVICE static inline
#define FB_STAGES 1
#define FB_MEET_SOME(barrier, threads) shim::barrier_of(barrier, threads)

#ifdef __ELF__
#define SHIM_STATE __attribute__((section("shim_state"))) static
#define SHIM_DEVICE __attribute__((section("shim_device"))) static // a variable in memory, of all blocks
#else
#define SHIM_STATE static
#define SHIM_DEVICE static
#endif
#ifdef SHIM_RACES
#define SHIM_CALLED __attribute__((noinline)) // so that the caller's place is known
#define SHIM_INSIDE static inline __attribute__((always_inline))
#else
#define SHIM_CALLED
#define SHIM_INSIDE static
#endif

struct shim_dim {
    unsigned x, y, z;
};
SHIM_STATE shim_dim threadIdx, blockIdx, blockDim, gridDim;

// ---- what is said to races.h ----

enum { RACES_READ, RACES_WRITE, RACES_ATOMIC };
enum { RACES_ITSELF, RACES_COPIES, RACES_WIDE };

struct races_ops { // as there
    void (*launch)(const char *kernel, unsigned threads, unsigned blocks, const void *dynamic, size_t n_dynamic,
                   const void *statics, size_t n_statics, const void *device, size_t n_device);
    void (*begin)(void);
    void (*thread)(unsigned now);
    void (*access)(const void *at, size_t bytes, int what, int by, const void *site);
    void (*meet)(const unsigned *threads, unsigned n);
    void (*together)(const unsigned *lanes, unsigned n);
    void (*fence)(void);
    void (*atomic)(const void *at, size_t bytes, const void *site);
    void (*mark)(int by);
    void (*wait)(int by, unsigned left);
    void (*arrive)(const void *count, int by, bool last);
    void (*await)(const void *count);
    void (*reach)(unsigned block);
};

#ifdef __ELF__
extern "C" {
#define SHIM_BOUND __attribute__((visibility("hidden"), weak))
extern char __bss_start[] SHIM_BOUND, _end[] SHIM_BOUND, __start_shim_device[] SHIM_BOUND, __stop_shim_device[] SHIM_BOUND;
}
static void *shim_statics() { return __bss_start; }
static size_t shim_statics_size() { return (size_t)(_end - __bss_start); }
#else
static void *shim_statics() { return nullptr; } // a kernel of several blocks at once has none then
static size_t shim_statics_size() { return 0; }
#endif

#ifdef SHIM_RACES
extern "C" {
const races_ops *shim_races __attribute__((section("shim_state"))) = nullptr; // set by who loads this
}
#define SHIM_SAY(...) (shim_races ? shim_races->__VA_ARGS__ : (void)0)

// A thread whose row is beyond the last one reads that one, and nothing comes of it: such reads are no races.
SHIM_STATE volatile bool *shim_is_beyond;
__attribute__((no_sanitize("thread"))) static bool shim_counts(int what)
{
    return what != RACES_READ || !shim_is_beyond || !*shim_is_beyond;
}

#define SHIM_INSTRUMENT(name, what, size)                                                                                  \
    extern "C" __attribute__((no_sanitize("thread"))) void __tsan_##name(void *at)                                         \
    {                                                                                                                      \
        if (shim_counts(what)) SHIM_SAY(access(at, size, what, RACES_ITSELF, __builtin_return_address(0)));                \
    }
#define SHIM_INSTRUMENT_SIZE(size)                                                                                         \
    SHIM_INSTRUMENT(read##size, RACES_READ, size)                                                                          \
    SHIM_INSTRUMENT(write##size, RACES_WRITE, size)                                                                        \
    SHIM_INSTRUMENT(unaligned_read##size, RACES_READ, size)                                                                \
    SHIM_INSTRUMENT(unaligned_write##size, RACES_WRITE, size)                                                              \
    SHIM_INSTRUMENT(volatile_read##size, RACES_READ, size)                                                                 \
    SHIM_INSTRUMENT(volatile_write##size, RACES_WRITE, size)
SHIM_INSTRUMENT_SIZE(1)
SHIM_INSTRUMENT_SIZE(2)
SHIM_INSTRUMENT_SIZE(4)
SHIM_INSTRUMENT_SIZE(8)
SHIM_INSTRUMENT_SIZE(16)
extern "C" {
#define SHIM_APART __attribute__((no_sanitize("thread")))
SHIM_APART void __tsan_read_range(void *at, long size)
{
    if (shim_counts(RACES_READ)) SHIM_SAY(access(at, (size_t)size, RACES_READ, RACES_ITSELF, __builtin_return_address(0)));
}
SHIM_APART void __tsan_write_range(void *at, long size)
{
    SHIM_SAY(access(at, (size_t)size, RACES_WRITE, RACES_ITSELF, __builtin_return_address(0)));
}
SHIM_APART void __tsan_init() {}
SHIM_APART void __tsan_func_entry(void *) {}
SHIM_APART void __tsan_func_exit(void *) {}
SHIM_APART void __tsan_vptr_update(void *, void *) {}
}
#else
#define SHIM_SAY(...) ((void)0)
#endif

namespace shim {

enum { MAX_THREADS = 8192, MAX_WATCHED = 2048 }; // races: beyond, clocks would fill the memory

// A place to go on from. A context keeps the signals' mask too, at two system calls a change: where the compiler jumps by
// itself a thread goes that way, but for its first step.
struct place {
    ucontext_t context;
    void *jump[5];
};

struct fiber {
    place at;
    std::unique_ptr<char[]> stack; // not cleared: of most, little is ever touched
    bool begun, done;
};

struct warp {
    int arrived = 0;
    unsigned round = 0;
    const char *what = nullptr;
    void *lane[32];
};

// Those that have come to a barrier.
struct meeting {
    unsigned n = 0, round = 0, count = 0;
    std::vector<unsigned> thread;
};

// Block of those that are there at once: its barriers, and its shared memory while another one's threads run.
struct block {
    meeting all, some[16];
    std::vector<unsigned char> dynamic, statics;
};

SHIM_STATE std::vector<fiber> fibers;
SHIM_STATE std::vector<warp> warps;
SHIM_STATE std::vector<block> blocks;
SHIM_STATE meeting grid_meeting;
SHIM_STATE std::vector<meeting> cluster_meetings;
SHIM_STATE unsigned a_cluster = 1; // blocks
SHIM_STATE place scheduler;
SHIM_STATE unsigned current;   // of all fibers: those of one block behind those of another
SHIM_STATE unsigned long moves; // arrivals at barriers and ends of threads: while nothing moves, nothing ever will
SHIM_STATE void (*body)(void *);
SHIM_STATE void *body_ctx;

// While the emulator reads and writes a kernel's memory for it.
struct quietly {
    quietly() { SHIM_SAY(thread(~0u)); }
    ~quietly() { SHIM_SAY(thread(current)); }
};

SHIM_STATE volatile bool is_beyond[MAX_THREADS]; // what instruments does not count as a reader

// For the rest of a scope; emulate_cuda.h puts it where a kernel has found out.
struct beyond {
    explicit beyond(bool is) { is_beyond[current] = is; }
    ~beyond() { is_beyond[current] = false; }
};

#ifdef __x86_64__
#define SHIM_JUMPS __attribute__((noinline, no_sanitize("thread"))) static
SHIM_JUMPS void jump_to(place &to) { __builtin_longjmp(to.jump, 1); }

SHIM_JUMPS void change(place &from, place &to)
{
    if (!__builtin_setjmp(from.jump)) jump_to(to);
}

SHIM_JUMPS void begin(place &from, place &to)
{
    if (!__builtin_setjmp(from.jump)) setcontext(&to.context);
}
#else
static void jump_to(place &to) { setcontext(&to.context); }
static void change(place &from, place &to) { swapcontext(&from.context, &to.context); }
static void begin(place &from, place &to) { change(from, to); }
#endif

static void yield() { change(fibers[current].at, scheduler); }

static void fiber_main()
{
    body(body_ctx);
    fibers[current].done = true;
    jump_to(scheduler);
}

static void die(const char *what)
{
    fprintf(stderr, "emulated kernel: %s\n", what);
    abort();
}

static block &here() { return blocks[current / blockDim.x]; }

static void meet(meeting &m, unsigned threads)
{
    const unsigned round = m.round;
    moves++;
    if (m.thread.size() <= m.n) m.thread.resize(m.n + 1);
    m.thread[m.n++] = current;
    if (m.n == threads) {
        SHIM_SAY(meet(m.thread.data(), m.n));
        m.n = 0;
        m.round++;
        return;
    }
    while (m.round == round) yield();
}

static void barrier() { meet(here().all, blockDim.x); }

// Some threads of a block alone, at one of its barriers: hardware stops a kernel whose threads count differently.
static void barrier_of(int barrier, unsigned threads)
{
    meeting &m = here().some[barrier];
    if (m.n && m.count != threads) die("threads meet at one barrier in different numbers");
    m.count = threads;
    meet(m, threads);
}

static void barrier_of_cluster()
{
    meet(cluster_meetings[current / blockDim.x / a_cluster], a_cluster * blockDim.x);
}

static void barrier_of_all() { meet(grid_meeting, (unsigned)fibers.size()); }

// All lanes of a warp bring something; the last to come does `together` for all of them.
template <class F> static void collective(const char *what, void *mine, F together, bool orders = false)
{
    const unsigned a_block = (blockDim.x + 31) / 32, thread = current % blockDim.x;
    warp &w = warps[current / blockDim.x * a_block + thread / 32];
    const unsigned round = w.round;
    moves++;
    if (w.arrived && strcmp(w.what, what) != 0) die("lanes of a warp do different things together");
    w.what = what;
    w.lane[thread % 32] = mine;
    if (++w.arrived == 32) {
        {
            quietly q;
            together(w.lane);
        }
        unsigned lanes[32];
        for (unsigned l = 0; l < 32; l++) lanes[l] = current - thread % 32 + l;
        SHIM_SAY(together(lanes, 32));
        if (orders) SHIM_SAY(meet(lanes, 32));
        w.arrived = 0;
        w.round++;
        return;
    }
    while (w.round == round) yield();
}

// Dynamic shared memory; what lies behind what a kernel asked for is watched.
__attribute__((aligned(1024), section("shim_shared"))) static unsigned char shared[(256 << 10) + 256] = {};
SHIM_STATE size_t dynamic_size;

static void run_threads(unsigned b)
{
    const unsigned threads = blockDim.x;
    for (current = b * threads; current < (b + 1) * threads; current++) {
        fiber &f = fibers[current];
        if (f.done) continue;
        threadIdx.x = current % threads;
        SHIM_SAY(thread(current));
#ifdef SHIM_RACES
        shim_is_beyond = &is_beyond[current];
#endif
        if (f.begun) {
            change(scheduler, f.at);
        } else {
            f.begun = true;
            begin(scheduler, f.at);
        }
        SHIM_SAY(thread(~0u));
        moves += f.done;
    }
}

static bool all_done()
{
    for (const fiber &f : fibers)
        if (!f.done) return false;
    return true;
}

// Those that are there at once, from `first` on: one, or a cluster along the grid's first dimension, or the whole grid, which is
// of one dimension then.
static void run_blocks(unsigned n, unsigned first = 0)
{
    enum { STACK = 256 << 10 };
    const unsigned threads = blockDim.x;
    if (n * threads > MAX_THREADS) die("too many threads at once");
    fibers.resize(n * threads);
    warps.assign(n * ((threads + 31) / 32), warp());
    blocks.assign(n, block());
    grid_meeting = meeting();
    cluster_meetings.assign(n / a_cluster + 1, meeting());
    SHIM_SAY(begin());
    for (unsigned i = 0; i < n * threads; i++) {
        fiber &f = fibers[i];
        if (!f.stack) f.stack.reset(new char[STACK]);
        f.begun = f.done = false;
        getcontext(&f.at.context);
        f.at.context.uc_stack.ss_sp = f.stack.get();
        f.at.context.uc_stack.ss_size = STACK;
        f.at.context.uc_link = nullptr; // fiber_main does not return
        makecontext(&f.at.context, fiber_main, 0);
    }
    unsigned char *const statics = (unsigned char *)shim_statics();
    for (unsigned b = 0; b < n && n > 1; b++) {
        blocks[b].dynamic.assign(shared, shared + dynamic_size);
        blocks[b].statics.assign(statics, statics + shim_statics_size());
    }
    while (!all_done()) {
        const unsigned long before = moves;
        for (unsigned b = 0; b < n; b++) {
            if (n == 1) {
                run_threads(0);
                continue;
            }
            blockIdx.x = first + b;
            memcpy(shared, blocks[b].dynamic.data(), dynamic_size);
            if (statics) memcpy(statics, blocks[b].statics.data(), shim_statics_size());
            for (unsigned long moved = moves - 1; moved != moves;) {
                moved = moves;
                run_threads(b);
            }
            memcpy(blocks[b].dynamic.data(), shared, dynamic_size);
            if (statics) memcpy(blocks[b].statics.data(), statics, shim_statics_size());
        }
        if (moves == before) die("a barrier that not all threads reach");
    }
}

static void run(const int grid[3], int at_once, int threads, void (*f)(void *), void *ctx)
{
    body = f;
    body_ctx = ctx;
    gridDim = {(unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]};
    blockDim = {(unsigned)threads, 1, 1};
    for (unsigned z = 0; z < gridDim.z; z++)
        for (unsigned y = 0; y < gridDim.y; y++)
            for (unsigned x = 0; x < gridDim.x; x += (unsigned)at_once) {
                blockIdx = {x, y, z};
                run_blocks((unsigned)at_once, x);
            }
}

template <class... A, size_t... I> static void call(void (*f)(A...), void *const *args, std::index_sequence<I...>)
{
    f((A)args[I]...);
}

template <class... A>
static void launch(const char *kernel, void (*f)(A...), const int grid[3], int at_once, int cluster, int threads, int dynamic,
                   void *const *args)
{
    struct both {
        void (*f)(A...);
        void *const *args;
    } what = {f, args};
    memset(shared, 0xff, sizeof shared);
    signal(SIGILL, [](int) { die("reads or writes a value at no multiple of its size"); }); // -fsanitize=alignment traps
    dynamic_size = (size_t)dynamic;
    a_cluster = (unsigned)cluster;
#ifdef SHIM_RACES
    const races_ops *const watching = shim_races;
    if (at_once > 1 && at_once * threads > MAX_WATCHED) shim_races = nullptr;
#elif !defined __ELF__
    if (at_once > 1) die("blocks that wait for each other have shared variables of their own only where races are looked for");
#endif
    SHIM_SAY(launch(kernel, (unsigned)threads, at_once > 1 ? (unsigned)at_once : 1, shared, sizeof shared, shim_statics(),
                    shim_statics_size(), __start_shim_device, (size_t)(__stop_shim_device - __start_shim_device)));
    run(grid, at_once, threads,
        [](void *ctx) {
            both *b = (both *)ctx;
            call(b->f, b->args, std::index_sequence_for<A...>());
        },
        &what);
    for (size_t i = (size_t)dynamic; i < sizeof shared; i++)
        if (shared[i] != 0xff) die("writes behind its shared memory");
#ifdef SHIM_RACES
    shim_races = watching;
#endif
}

} // namespace shim

static void __syncthreads() { shim::barrier(); }
static void fb_meet_all() { shim::barrier_of_all(); }
static void fb_sorted_meet(unsigned *, unsigned, unsigned) { shim::barrier_of_all(); }
static void __syncwarp(unsigned = ~0u) { shim::collective("syncwarp", nullptr, [](void **) {}, true); }
static void __threadfence() { SHIM_SAY(fence()); }
static void fb_fetch_line(const void *at)
{
    shim::quietly q;
    (void)*(const volatile char *)at;
}

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

/* From the lane that `from` says, of this lane's group of `width`; one outside it gives the lane's own. */
template <class T> static T shim_shuffle(T x, int from, int width)
{
    struct exchange {
        T in, out;
        int from, width;
    } mine = {x, x, from, width};
    shim::collective("shuffle", &mine, [](void **lane) {
        for (int l = 0; l < 32; l++) {
            exchange *own = (exchange *)lane[l];
            int first = l / own->width * own->width;
            bool inside = own->from >= 0 && own->from < own->width;
            own->out = inside ? ((exchange *)lane[first + own->from])->in : own->in;
        }
    });
    return mine.out;
}
template <class T> static T __shfl_up_sync(unsigned, T x, int by, int width = 32)
{
    return shim_shuffle(x, (int)threadIdx.x % width - by, width);
}
template <class T> static T __shfl_sync(unsigned, T x, int from, int width = 32)
{
    return shim_shuffle(x, from % width, width);
}

static unsigned __ballot_sync(unsigned, bool yes)
{
    unsigned word = yes ? 1u << threadIdx.x % 32 : 0;
    for (int mask = 16; mask > 0; mask /= 2) word |= __shfl_xor_sync(~0u, word, mask);
    return word;
}
static int __ffs(unsigned word) { return __builtin_ffs((int)word); }

SHIM_CALLED static unsigned atomicAdd(unsigned *at, unsigned by)
{
    SHIM_SAY(atomic(at, sizeof *at, __builtin_return_address(0)));
    shim::quietly q;
    return (*at += by) - by;
}

SHIM_CALLED static unsigned long long atomicAdd(unsigned long long *at, unsigned long long by)
{
    SHIM_SAY(atomic(at, sizeof *at, __builtin_return_address(0)));
    shim::quietly q;
    return (*at += by) - by;
}

SHIM_CALLED static float atomicAdd(float *at, float by)
{
    SHIM_SAY(atomic(at, sizeof *at, __builtin_return_address(0)));
    shim::quietly q;
    const float before = *at;
    *at = before + by;
    return before;
}

SHIM_CALLED static double atomicAdd(double *at, double by)
{
    SHIM_SAY(atomic(at, sizeof *at, __builtin_return_address(0)));
    shim::quietly q;
    const double before = *at;
    *at = before + by;
    return before;
}

template <int N> static void fb_add_vector(float *at, const float (&x)[N])
{
    for (int v = 0; v < N; v++) atomicAdd(at + v, x[v]);
}

template <class T, class U> static typename std::common_type<T, U>::type min(T a, U b) { return a < b ? a : b; }
template <class T, class U> static typename std::common_type<T, U>::type max(T a, U b) { return a > b ? a : b; }
static float __uint_as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static int __float_as_int(float x)
{
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float __double2float_rz(double x)
{
    const float nearest = (float)x;
    return fabs((double)nearest) > fabs(x) ? nextafterf(nearest, 0) : nearest;
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
static float fb_reciprocal_near(float x) { return 1 / x; }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dmul_rn(double a, double b) { return a * b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float rsqrtf(float x) { return 1 / sqrtf(x); }
static double rsqrt(double x) { return 1 / sqrt(x); }

// S. Winitzki's first guess, then Halley's rule.
static double erfinv(double y)
{
    double a = fabs(y), w = log((1 - a) * (1 + a)), b = 4.330746750799873 + w / 2;
    if (!(a < 1)) return a == 1 ? copysign((double)INFINITY, y) : (double)NAN;
    double x = fmax(sqrt(sqrt(b * b - w / 0.147) - b), a * 0.886226925452758); // near 0 the guess has no digits left
    for (int i = 0; i < 6 && x > 0; i++) {
        double off = (a < 0.5 ? erf(x) - a : 1 - a - erfc(x)) / (1.1283791670955126 * exp(-x * x));
        x -= off / (1 + x * off);
    }
    return copysign(x, y);
}

static float erfinvf(float y) { return (float)erfinv(y); }

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
    int size;
};
SHIM_STATE std::vector<std::vector<std::vector<copy>>> copies(MAX_THREADS);
static std::vector<std::vector<copy>> *batches() { return &copies[current]; }

static void copies_come(unsigned left)
{
    auto *b = batches();
    while (b->size() > left + 1) { // the last is open
        for (auto &c : b->front()) memcpy(c.to, c.bytes, (size_t)c.size);
        b->erase(b->begin());
    }
}
} // namespace shim

static void copy_later(void *to, const void *from, int size, const void *site)
{
    if (((uintptr_t)to | (uintptr_t)from) % (unsigned)size) shim::die("a piece that is not aligned");
    auto *b = shim::batches();
    if (b->empty()) b->emplace_back();
    SHIM_SAY(access(from, size, RACES_READ, RACES_COPIES, site));
    SHIM_SAY(access(to, size, RACES_WRITE, RACES_COPIES, site));
    shim::quietly q;
    shim::copy c = {to, {}, size};
    memcpy(c.bytes, from, (size_t)size);
    b->back().push_back(c);
}

SHIM_CALLED static void fb_copy_16(void *to, const void *from) { copy_later(to, from, 16, __builtin_return_address(0)); }

template <int BYTES> SHIM_CALLED static void fb_copy_few(void *to, const void *from)
{
    copy_later(to, from, BYTES, __builtin_return_address(0));
}

SHIM_CALLED static void fb_zero_16(void *to)
{
    if ((uintptr_t)to % 16) shim::die("a piece that is not aligned");
    SHIM_SAY(access(to, 16, RACES_WRITE, RACES_ITSELF, __builtin_return_address(0)));
    shim::quietly q;
    memset(to, 0, 16);
}

static void fb_copies_mark()
{
    auto *b = shim::batches();
    if (b->empty()) b->emplace_back();
    b->emplace_back();
    SHIM_SAY(mark(RACES_COPIES));
}

template <int LEFT> static void fb_copies_wait()
{
    SHIM_SAY(wait(RACES_COPIES, LEFT));
    shim::quietly q;
    shim::copies_come(LEFT);
}

template <bool TURNED> SHIM_CALLED static void fb_load_fragment(unsigned (&r)[4], const void *at)
{
    SHIM_SAY(access(at, 16, RACES_READ, RACES_ITSELF, __builtin_return_address(0)));
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

// ---- what long.cuh says in PTX ----

SHIM_CALLED static void fb_long_copy(void *to, const void *from) { fb_copy_16(to, from); }
SHIM_CALLED static void fb_long_ahead(const void *) {}
SHIM_CALLED static void fb_band_copy(void *to, const void *from) { fb_copy_16(to, from); }
static void fb_band_mark() { fb_copies_mark(); }
template <int LEFT> static void fb_band_await() { fb_copies_wait<LEFT>(); }

static void fb_long_wait()
{
    fb_copies_mark();
    fb_copies_wait<0>();
}

static float fb_long_max(float a, float b) { return b > a || b != b ? b : a; }

// Shared variables of another block: where they are while its threads do not run.
template <class T> SHIM_CALLED static void fb_long_send(T *at, T value, unsigned rank)
{
    const unsigned own = shim::current / blockDim.x;
    rank += own / shim::a_cluster * shim::a_cluster;
    SHIM_SAY(reach(rank));
    SHIM_SAY(access(at, sizeof *at, RACES_WRITE, RACES_ITSELF, __builtin_return_address(0)));
    SHIM_SAY(reach(~0u));
    shim::quietly q;
    const size_t offset = (size_t)((char *)at - (char *)shim_statics());
    if (rank == own)
        memcpy(at, &value, sizeof value);
    else
        memcpy(shim::blocks[rank].statics.data() + offset, &value, sizeof value);
}

static void fb_long_begin() {}
static void fb_long_begun() { shim::barrier_of_cluster(); }
static void fb_long_meet() { shim::barrier_of_cluster(); }

SHIM_CALLED static void fb_long_set(unsigned long long *word, unsigned long long value)
{
    SHIM_SAY(atomic(word, sizeof *word, __builtin_return_address(0)));
    shim::quietly q;
    shim::moves++;
    *word = value;
}

SHIM_CALLED static unsigned fb_long_await(const unsigned long long *word)
{
    for (;;) {
        {
            shim::quietly q;
            if (*(const volatile unsigned long long *)word >> 32) break;
        }
        shim::yield();
    }
    SHIM_SAY(atomic(word, sizeof *word, __builtin_return_address(0)));
    shim::quietly q;
    return (unsigned)*(const volatile unsigned long long *)word;
}

// ---- what wgmma.cuh says in PTX ----

// Addresses are what descriptors say, strides and swizzle of the real ones; sums are poison until they are waited for.
struct fb_wide_tile {
    const unsigned char *at;
    int strip, group;
    int next = 0; // no swizzle: pieces of 8 elements of k lie so far apart
};

static fb_wide_tile fb_describe(const void *at, int strip, int group) { return {(const unsigned char *)at, strip, group}; }
static void fb_written_for_wide() {}
static void fb_wide_begin() {}

namespace shim {
// Where an element of a tile of 16-bit elements is; `outer`: row of the left operand, column of the right one.
static const unsigned short *place_of(fb_wide_tile t, bool turned, int outer, int k)
{
    if (t.next) return (const unsigned short *)(t.at + outer / 8 * t.group + outer % 8 * 16 + k / 8 * t.next + k % 8 * 2);
    const unsigned char *at = turned ? t.at + outer / 64 * t.strip + k / 8 * t.group + k % 8 * 128 + outer % 64 * 2
                                     : t.at + outer / 8 * t.group + outer % 8 * 128 + k * 2;
    uintptr_t place = (uintptr_t)at;
    place ^= (place >> 7 & 7) << 4;
    return (const unsigned short *)place;
}

static unsigned short element_of(fb_wide_tile t, bool turned, int outer, int k) { return *place_of(t, turned, outer, k); }

// A warp's first lane says what all of them have read: `n` lines of a tile from the first on, and 16 of k.
static void say_read(fb_wide_tile t, bool turned, int first, int n, const void *site)
{
    if (current % blockDim.x % 32) return;
    for (int o = first; o < first + n; o += turned ? 8 : 1)
        for (int k = 0; k < 16; k += turned ? 1 : 8)
            SHIM_SAY(access(place_of(t, turned, o, k), 16, RACES_READ, RACES_WIDE, site));
}

struct sent {
    float *c;
    std::vector<float> sums;
};
SHIM_STATE std::vector<std::vector<std::vector<sent>>> sums_of(MAX_THREADS);
static std::vector<std::vector<sent>> *wide_batches() // the last is open
{
    if (sums_of[current].empty()) sums_of[current].emplace_back();
    return &sums_of[current];
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
SHIM_STATE gathering gatherings[MAX_THREADS / 32];

template <class F> static void wide_together(wide_operands mine, F together)
{
    const unsigned thread = current % blockDim.x;
    gathering &g = gatherings[current / blockDim.x * ((blockDim.x + 127) / 128) + thread / 128];
    const unsigned round = g.round;
    moves++;
    g.lane[thread % 128] = mine;
    if (++g.arrived == 128) {
        quietly q;
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
static void wide(float *c, const unsigned *a, fb_wide_tile b, bool add, L left, const void *site)
{
    say_read(b, B_TURNED, 0, N, site);
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

template <int N, bool A_TURNED, bool B_TURNED, class ELEM> static void wide_shared(float *c, fb_wide_tile a, fb_wide_tile b, bool add, const void *site)
{
    say_read(a, A_TURNED, current % blockDim.x % 128 / 32 * 16, 16, site);
    wide<N, B_TURNED, ELEM>(
        c, nullptr, b, add,
        [=](wide_operands *, int row, int k) { return value_of<ELEM>(element_of(a, A_TURNED, row, k)); }, site);
}
} // namespace shim

static void fb_wide_mark()
{
    shim::wide_batches()->emplace_back();
    SHIM_SAY(mark(RACES_WIDE));
}

template <int LEFT> static void fb_wide_wait()
{
    SHIM_SAY(wait(RACES_WIDE, LEFT));
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
    SHIM_CALLED static void fb_wide_##N(float *c, fb_wide_tile a, fb_wide_tile b, bool add, ELEM)                          \
    {                                                                                                                      \
        shim::wide_shared<N, A_TURNED, B_TURNED, ELEM>(c, a, b, add, __builtin_return_address(0));                         \
    }
SHIM_WIDE(64)
SHIM_WIDE(128)
SHIM_WIDE(256)

namespace shim {
template <int N, bool B_TURNED, class ELEM>
static void wide_registers(float *c, const unsigned *a, fb_wide_tile b, bool add, const void *site)
{
    const auto left = [](wide_operands *lane, int row, int k) {
        const wide_operands &o = lane[row / 16 * 32 + row % 8 * 4 + k % 8 / 2];
        return value_of<ELEM>((unsigned short)(o.a[k / 8 * 2 + row % 16 / 8] >> 16 * (k % 2)));
    };
    wide<N, B_TURNED, ELEM>(c, a, b, add, left, site);
}
} // namespace shim

#define SHIM_WIDE_REGISTERS(N)                                                                                             \
    template <bool B_TURNED, class ELEM>                                                                                   \
    SHIM_CALLED static void fb_wide_##N(float *c, const unsigned *a, fb_wide_tile b, bool add, ELEM)                       \
    {                                                                                                                      \
        shim::wide_registers<N, B_TURNED, ELEM>(c, a, b, add, __builtin_return_address(0));                                \
    }
SHIM_WIDE_REGISTERS(64)

// A count: arrivals that a phase takes, those still missing, phases that have ended.
struct shim_count {
    unsigned short arrivals, missing;
    unsigned ended;
};

SHIM_CALLED static void fb_count_start(unsigned long long *count, int arrivals)
{
    SHIM_SAY(access(count, sizeof *count, RACES_WRITE, RACES_ITSELF, __builtin_return_address(0)));
    shim::quietly q;
    *(shim_count *)count = {(unsigned short)arrivals, (unsigned short)arrivals, 0};
}

namespace shim {
static void count_down(unsigned long long *count, int by, const void *site)
{
    shim_count *c = (shim_count *)count;
    bool last;
    SHIM_SAY(access(count, sizeof *count, RACES_ATOMIC, RACES_ITSELF, site));
    {
        quietly q;
        moves++;
        last = --c->missing == 0;
        if (last) c->missing = c->arrivals, c->ended++;
    }
    SHIM_SAY(arrive(count, by, last));
}
} // namespace shim

SHIM_CALLED static void fb_count_arrive(unsigned long long *count)
{
    shim::count_down(count, RACES_ITSELF, __builtin_return_address(0));
}

// The copies come here, but it is not this thread that has waited for them.
SHIM_CALLED static void fb_count_copies(unsigned long long *count)
{
    {
        shim::quietly q;
        shim::batches()->emplace_back();
        shim::copies_come(0);
    }
    shim::count_down(count, RACES_COPIES, __builtin_return_address(0));
}

SHIM_CALLED static void fb_count_wait(unsigned long long *count, int parity)
{
    SHIM_SAY(access(count, sizeof *count, RACES_ATOMIC, RACES_ITSELF, __builtin_return_address(0)));
    const volatile shim_count *c = (shim_count *)count;
    for (;;) {
        {
            shim::quietly q;
            if ((c->ended & 1) != (unsigned)parity) break;
        }
        shim::yield();
    }
    SHIM_SAY(await(count));
}

// ---- what tile.cuh says in PTX of clusters ----

static void fb_cluster_meet() { shim::barrier_of_cluster(); }

// ---- what cluster.cuh says in PTX ----

// A count of bytes: those still to come in this phase (below zero: they came before they were expected), arrivals still
// missing, and of a phase, phases that have ended.
struct shim_inbox {
    int to_come;
    signed char missing, arrivals;
    unsigned short ended;
};

template <int THREADS> static void fb_warps_meet(int barrier) { shim::barrier_of(barrier, THREADS); }

static void start_inbox(unsigned long long *inbox, int arrivals, const void *site)
{
    SHIM_SAY(access(inbox, sizeof *inbox, RACES_WRITE, RACES_ITSELF, site));
    shim::quietly q;
    *(shim_inbox *)inbox = {0, (signed char)arrivals, (signed char)arrivals, 0};
}

SHIM_CALLED static void fb_inbox_start(unsigned long long *inbox) { start_inbox(inbox, 1, __builtin_return_address(0)); }

namespace shim {
static unsigned first_of_cluster() { return current / blockDim.x / a_cluster * a_cluster; }

// `at` of another block of those that are there at once, where its shared memory is while it does not run.
static unsigned char *place_in(unsigned block, void *at)
{
    if (block >= blocks.size()) die("sends to a block that the cluster has not");
    const size_t offset = (size_t)((unsigned char *)at - shared);
    if (offset >= dynamic_size) die("sends to what is no dynamic shared memory");
    return block == current / blockDim.x ? shared + offset : blocks[block].dynamic.data() + offset;
}

static void inbox_moves(unsigned block, unsigned long long *inbox, int bytes, bool arrives, const void *site)
{
    bool last;
    SHIM_SAY(access(inbox, sizeof *inbox, RACES_ATOMIC, RACES_ITSELF, site));
    {
        quietly q;
        shim_inbox *c = (shim_inbox *)place_in(block, inbox);
        moves++;
        c->to_come += bytes;
        c->missing -= arrives;
        last = c->missing <= 0 && !c->to_come;
        if (last) c->missing = c->arrivals, c->ended++;
    }
    SHIM_SAY(arrive(inbox, RACES_ITSELF, last));
}
} // namespace shim

template <class T> SHIM_CALLED static void fb_take_16(T &to, const void *at, unsigned rank)
{
    static_assert(sizeof to == 16, "16 bytes");
    rank += shim::first_of_cluster();
    if ((uintptr_t)at % 16) shim::die("takes from a place that is no multiple of 16 bytes");
    SHIM_SAY(reach(rank));
    SHIM_SAY(access(at, 16, RACES_READ, RACES_ITSELF, __builtin_return_address(0)));
    SHIM_SAY(reach(~0u));
    shim::quietly q;
    memcpy(&to, shim::place_in(rank, const_cast<void *>(at)), 16);
}

SHIM_CALLED static void fb_inbox_expect(unsigned long long *inbox, int bytes)
{
    shim::inbox_moves(shim::current / blockDim.x, inbox, bytes, true, __builtin_return_address(0));
}

SHIM_CALLED static void fb_inbox_wait(unsigned long long *inbox, int parity)
{
    SHIM_SAY(access(inbox, sizeof *inbox, RACES_ATOMIC, RACES_ITSELF, __builtin_return_address(0)));
    const volatile shim_inbox *c = (shim_inbox *)inbox;
    for (;;) {
        {
            shim::quietly q;
            if ((c->ended & 1) != parity) break;
        }
        shim::yield();
    }
    SHIM_SAY(await(inbox));
}

SHIM_CALLED static void fb_send_16(void *to, unsigned long long *inbox, unsigned rank, const unsigned (&piece)[4])
{
    if ((uintptr_t)to % 16) shim::die("sends to a place that is no multiple of 16 bytes");
    SHIM_SAY(reach(rank));
    SHIM_SAY(access(to, 16, RACES_WRITE, RACES_ITSELF, __builtin_return_address(0)));
    {
        shim::quietly q;
        memcpy(shim::place_in(rank, to), piece, 16);
    }
    shim::inbox_moves(rank, inbox, -16, false, __builtin_return_address(0));
    SHIM_SAY(reach(~0u));
}

// ---- what cluster_wide.cuh says in PTX ----

static unsigned fb_cluster_rank() { return shim::current / blockDim.x % shim::a_cluster; }

// Comes at once: what it takes along must have been said to be written, and the sender's block must still be there.
SHIM_CALLED static void fb_send_bytes(void *at, unsigned long long *inbox, unsigned rank, int bytes)
{
    const void *site = __builtin_return_address(0);
    if ((uintptr_t)at % 16 || bytes % 16) shim::die("sends a piece that is no multiple of 16 bytes");
    SHIM_SAY(access(at, bytes, RACES_READ, RACES_ITSELF, site));
    SHIM_SAY(reach(rank));
    SHIM_SAY(access(at, bytes, RACES_WRITE, RACES_ITSELF, site));
    {
        shim::quietly q;
        memcpy(shim::place_in(rank, at), at, bytes);
    }
    shim::inbox_moves(rank, inbox, -bytes, false, site);
    SHIM_SAY(reach(~0u));
}

static fb_wide_tile fb_describe_plain(const void *at, int next) { return {(const unsigned char *)at, 0, 128, next}; }
static fb_wide_tile fb_wide_after(fb_wide_tile tile, int bytes) { return {tile.at + bytes, tile.strip, tile.group, tile.next}; }

template <int N> struct fb_wide_round {
    template <class ELEM> SHIM_CALLED static void add(float *c, const unsigned *a, fb_wide_tile b, bool more, ELEM)
    {
        shim::wide_registers<N, false, ELEM>(c, a, b, more, __builtin_return_address(0));
    }
    template <class ELEM> SHIM_CALLED static void add(float *c, fb_wide_tile a, fb_wide_tile b, bool more, ELEM)
    {
        shim::wide_shared<N, false, false, ELEM>(c, a, b, more, __builtin_return_address(0));
    }
};

// ---- what cluster_f32.cuh says in PTX ----

SHIM_CALLED static void fb_inbox_start_of(unsigned long long *count, int arrivals)
{
    start_inbox(count, arrivals, __builtin_return_address(0));
}

SHIM_CALLED static void fb_inbox_arrive(unsigned long long *count)
{
    shim::inbox_moves(shim::current / blockDim.x, count, 0, true, __builtin_return_address(0));
}

// ---- what gemm_tma.cuh says in PTX ----

namespace shim {
struct tensor { // what a map is made of here
    const unsigned char *at;
    int inner, lines, batches, box;
    long long line, batch;
};
} // namespace shim

template <class MAP, class SHAPE>
static void fb_tensor_describe(MAP *made, MAP *to, const void *at, const SHAPE &x)
{
    static_assert(sizeof(shim::tensor) <= sizeof *to, "fits");
    if ((uintptr_t)at % 16 || x.line % 16 || x.batch % 16) shim::die("a tensor whose lines begin at no multiple of 16 bytes");
    if (x.box > 256 || x.inner < 1 || x.lines < 1 || x.batches < 1 || x.line < 1 || x.batch < 1) shim::die("no tensor to copy of");
    made->words[threadIdx.x % 32] = 0;
    __syncwarp();
    if (threadIdx.x % 32) return;
    shim::quietly q;
    *(shim::tensor *)to = {(const unsigned char *)at, x.inner, x.lines, x.batches, x.box, x.line, x.batch};
}

namespace shim {
// Comes at once, into block `rank` of the cluster.
static void bring(void *to, const tensor &t, int inner, int line, int batch, unsigned long long *count, unsigned rank, const void *site)
{
    if ((uintptr_t)to % 1024) die("copies a swizzled box to no multiple of 1024 bytes");
    for (int l = 0; l < t.box; l++)
        for (int piece = 0; piece < 8; piece++) {
            unsigned short x[8] = {};
            for (int e = 0; e < 8; e++) {
                const int at = inner + piece * 8 + e;
                if (at < 0 || at >= t.inner || line + l < 0 || line + l >= t.lines || batch < 0 || batch >= t.batches) continue;
                const unsigned char *from = t.at + at * 2 + (line + l) * t.line + batch * t.batch;
                SHIM_SAY(access(from, 2, RACES_READ, RACES_ITSELF, site));
                quietly q;
                memcpy(&x[e], from, 2);
            }
            unsigned char *const place = (unsigned char *)to + l * 128 + (piece ^ l % 8) * 16;
            SHIM_SAY(reach(rank));
            SHIM_SAY(access(place, 16, RACES_WRITE, RACES_ITSELF, site));
            SHIM_SAY(reach(~0u));
            quietly q;
            memcpy(place_in(rank, place), x, 16);
        }
    SHIM_SAY(reach(rank));
    inbox_moves(rank, count, -t.box * 128, false, site);
    SHIM_SAY(reach(~0u));
}
} // namespace shim

template <class MAP>
SHIM_CALLED static void fb_tensor_bring(void *to, const MAP *map, int inner, int line, int batch, unsigned long long *count)
{
    shim::bring(to, *(const shim::tensor *)map, inner, line, batch, count, shim::current / blockDim.x, __builtin_return_address(0));
}

template <int BLOCKS, class MAP>
SHIM_CALLED static void fb_tensor_bring_all(void *to, const MAP *map, int inner, int line, int batch, unsigned long long *count)
{
    for (unsigned b = 0; b < BLOCKS; b++)
        shim::bring(to, *(const shim::tensor *)map, inner, line, batch, count, shim::first_of_cluster() + b,
                    __builtin_return_address(0));
}

static void fb_touch(const void *) {}
template <class MAP> static void fb_tensor_see(const MAP *) {}
static void fb_bringing_meet() { shim::barrier_of(1, 128); }

SHIM_CALLED static void fb_stage_start(unsigned long long *count, int arrivals)
{
    start_inbox(count, arrivals, __builtin_return_address(0));
}

SHIM_CALLED static void fb_stage_expect(unsigned long long *count, int bytes)
{
    shim::inbox_moves(shim::current / blockDim.x, count, bytes, true, __builtin_return_address(0));
}

SHIM_CALLED static void fb_stage_free(unsigned long long *count, unsigned rank)
{
    rank += shim::first_of_cluster();
    SHIM_SAY(reach(rank));
    shim::inbox_moves(rank, count, 0, true, __builtin_return_address(0));
    SHIM_SAY(reach(~0u));
}

SHIM_CALLED static void fb_stage_wait(unsigned long long *count, int parity) { fb_inbox_wait(count, parity); }
template <int N> static void fb_stage_fewer_registers() {}
template <int N> static void fb_stage_more_registers() {}

static float fb_relu_wide(float x) { return x < 0 ? 0 : x; }
static float fb_sigmoid_wide(float x) { return 1 / (1 + expf(-x)); }

// ---- what attention.cuh says in PTX ----

template <int N> struct fb_wide_columns {
    template <bool B_TURNED, class ELEM> SHIM_CALLED static void add(float *c, const unsigned *a, fb_wide_tile b, bool more, ELEM)
    {
        static_assert(N % 8 == 0 && N <= 128, "there is such an instruction");
        shim::wide_registers<N, B_TURNED, ELEM>(c, a, b, more, __builtin_return_address(0));
    }
};
static int fb_of_warp(int x) { return x; }
template <int N> static void fb_registers_fewer() {}
template <int N> static void fb_registers_more() {}
static void fb_first(float) {}
static int fb_warpgroup() { return threadIdx.x / 128; }
static float fb_exp2_wide(float x) { return exp2f(x); }
static float fb_larger_wide(float a, float b) { return b > a || b != b ? b : a; }
static unsigned fb_both_wide(float low, float high, fb_f16) { return fb_to_f16(low).bits | (unsigned)fb_to_f16(high).bits << 16; }
static unsigned fb_both_wide(float low, float high, fb_bf16) { return fb_to_bf16(low).bits | (unsigned)fb_to_bf16(high).bits << 16; }

/* ---- several neighbours in one access: a GPU takes them at multiples of their size only ---- */

template <class T, int N> struct alignas(sizeof(T) * N) fb_pack {
    T at[N];
};

static void fb_check_place(const void *p, size_t size)
{
    if ((uintptr_t)p % size) shim::die("a vector at a place that is no multiple of its size");
}

template <int N, class T> SHIM_INSIDE fb_pack<T, N> fb_load(const T *from)
{
    fb_check_place(from, sizeof(fb_pack<T, N>));
    return *(const fb_pack<T, N> *)from;
}

template <int N, class T> SHIM_INSIDE void fb_store(T *to, const fb_pack<T, N> &values)
{
    fb_check_place(to, sizeof(fb_pack<T, N>));
    *(fb_pack<T, N> *)to = values;
}
#endif
