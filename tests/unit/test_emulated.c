/* The fuzzer's graphs and plans in CUDA, on a device that emulates a GPU (emulate_cuda.h): where its
 * blocks, warps, barriers and vectors are wrong, no GPU is needed to see it. FB_SEED, FB_COUNT and FB_PLANS give other
 * cases than those of every day; with FB_SEED alone, what it finds is printed one a line, as the fuzzer does. Half of
 * them are planned for GPUs of other sizes. */
#include "base/embedded.h"
#include "measure/fuzz.h"
#include "unit/emulated_device.h"
#include "unit/gpus.h"
#include "unit/turn.h"

/* An environment variable. */
static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

enum { AT_ONCE = 4 };

/* What the plans of a seed are made for: ours, and every other round of seeds for one of others'. */
static fb_machine machine_of(uint64_t seed)
{
    uint64_t turn = seed / AT_ONCE;
    if (turn % 2) return gpu_machine((unsigned)(turn / 2 % GPUS));
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.convolution = m.gemm[FB_F32]; /* as one with cuDNN */
    return m;
}

static void random_graphs_on_an_emulated_gpu(void **state)
{
    (void)state;
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    emulated d = {.device = {.ops = &emulated_operations, .name = "emulated"}};
    uint64_t first = number("FB_SEED", 21), left = number("FB_COUNT", 8);
    int plans = (int)number("FB_PLANS", 3), only = (int)number("FB_PLAN", 1000);
    fb_fuzz_board *board = fb_calloc(1, sizeof *board);
    while (left > 0 && !board->n_findings) {
        uint64_t n = AT_ONCE - first % AT_ONCE;
        if (n > left) n = left;
        d.machine = machine_of(first);
        fb_fuzz_round(&d.device, first, (int)n, plans, only == 1000 ? FB_NONE : only, board);
        first += n, left -= n;
    }
    for (int i = 0; i < board->n_findings; i++)
        print_message("# seed %llu, plan %d: %s\n", (unsigned long long)board->finding[i].seed, board->finding[i].plan,
                      board->finding[i].text);
    assert_int_equal(board->n_findings, 0);
    assert_true(board->elements > 0);
    print_message("# %lld graphs, %lld plans (%lld refused), %lld elements, %lld undecided\n", (long long)board->graphs,
                  (long long)board->plans, (long long)board->refused, (long long)board->elements,
                  (long long)board->undecided);
    fb_free(board);
}

/* What was found once. A merged kernel's second loop reads what the first one left where it had exchanged its buffers; a
 * running product of factors next to 1 loses a little of each, in parts; a chain's operand is a constant. */
static void what_was_found_stays_mended(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        int plan;
    } found[] = {{150000752, 2}, {150000696, 0}, {40047, 2}};
    if (!emulation_exists()) skip();
    emulated d = {.device = {.ops = &emulated_operations, .name = "emulated"}};
    fb_fuzz_board *board = fb_calloc(1, sizeof *board);
    bool any = false;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        if (!is_our_turn((unsigned)i)) continue;
        d.machine = machine_of(found[i].seed);
        fb_fuzz_round(&d.device, found[i].seed, 1, found[i].plan + 1, found[i].plan, board);
        any = true;
    }
    for (int i = 0; i < board->n_findings; i++) fail_msg("%s", board->finding[i].text);
    assert_true(board->elements > 0 || !any);
    fb_free(board);
}

/* The same bytes have the same digest wherever they lie, one bit more or less another; read in place, at any address.
 */
static void digests_go_by_the_bytes_alone(void **state)
{
    (void)state;
    enum { BYTES = 9001, ROOM = BYTES + 8 };
    if (!emulation_exists()) skip();
    fb_kernel kernel = {
        .entry = "fb_digest", .source = fb_embedded("kernels/digest.cuh"), .grid = {3, 1, 1}, .block = {256, 1, 1}};
    fb_program program = {.n_kernels = 1, .kernels = &kernel};
    unit u = {0};
    unit_add_cuda(&u, &program);
    unit_emulate(&u);
    void (*digest)(void *const **args);
    *(kernel_entry *)&digest = unit_entry(&u, 0, 0);
    unsigned char *memory = fb_alloc(ROOM);
    uint64_t sums[4][3];
    static const long long sizes[3] = {BYTES, 512, 2};
    for (int skew = 0; skew < 4; skew++)
        for (int n = 0; n < 3; n++) {
            long long bytes = sizes[n];
            for (long long i = 0; i < ROOM; i++) memory[i] = (unsigned char)skew;
            for (long long i = 0; i < bytes; i++) memory[skew + i] = (unsigned char)(i * 37 >> 2);
            uint64_t *sum = &sums[skew][n], again = 0;
            *sum = 0;
            /* each is the argument itself, as wide as a pointer */
            void *const args[] = {memory + skew, (void *)(intptr_t)bytes, sum};
            void *const others[] = {memory + skew, (void *)(intptr_t)bytes, &again}, *const *arg = args;
            digest(&arg);
            assert_int_equal(*sum, sums[0][n]);
            memory[skew + bytes - 1] ^= 4;
            arg = others;
            digest(&arg);
            assert_int_not_equal(again, *sum);
        }
    fb_free(memory);
    unit_free(&u);
}

/* Matrices of whole squares and of odd sides, lines at odd places, zeros behind the columns that become lines. */
static void check_turned(const char *entry, int64_t size)
{
    static const struct {
        int64_t matrices, rows, columns, padded, apart, skew;
    } cases[] = {{2, 64, 128, 64, 0, 0},
                 {1, 100, 72, 104, 0, 0},
                 {3, 3, 49, 8, 0, 0},
                 {2, 65, 67, 65, 5, 1},
                 {1, 1, 1, 8, 0, 0}};
    fb_kernel kernel = {
        .entry = entry, .source = fb_embedded("kernels/turn.cuh"), .grid = {12, 1, 1}, .block = {256, 1, 1}};
    fb_program program = {.n_kernels = 1, .kernels = &kernel};
    unit u = {0};
    unit_add_cuda(&u, &program);
    unit_emulate(&u);
    void (*turn)(void *const **args);
    *(kernel_entry *)&turn = unit_entry(&u, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t rows = cases[i].rows, columns = cases[i].columns, padded = cases[i].padded,
                      step = rows * columns + cases[i].apart;
        const int64_t all = cases[i].matrices * step + cases[i].skew, made = cases[i].matrices * columns * padded;
        unsigned char *from = fb_alloc((size_t)(all * size)), *to = fb_alloc((size_t)(made * size)), none[8] = {0};
        for (int64_t k = 0; k < all * size; k++) from[k] = (unsigned char)(1 + (uint64_t)k * 2654435761u % 255);
        memset(to, 0xee, (size_t)(made * size));
        unsigned char *first = from + cases[i].skew * size;
        const int64_t line = 16 / size,
                      evenly = (columns % line == 0 && step % line == 0 && !cases[i].skew) | (padded % line == 0) << 1;
        void *const args[] =
            {first,         to, (void *)cases[i].matrices, (void *)rows, (void *)columns, (void *)padded, (void *)step,
             (void *)evenly},
                    *const *arg = args;
        turn(&arg);
        for (int64_t m = 0; m < cases[i].matrices; m++)
            for (int64_t c = 0; c < columns; c++)
                for (int64_t r = 0; r < padded; r++) {
                    const unsigned char *want = r < rows ? first + (m * step + r * columns + c) * size : none;
                    assert_memory_equal(to + ((m * columns + c) * padded + r) * size, want, (size_t)size);
                }
        fb_free(from);
        fb_free(to);
    }
    unit_free(&u);
}

static void matrices_are_turned(void **state)
{
    (void)state;
    if (!emulation_exists()) skip();
    check_turned("fb_turn_2", 2);
    check_turned("fb_turn_4", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_are_turned), cmocka_unit_test(random_graphs_on_an_emulated_gpu),
        cmocka_unit_test(what_was_found_stays_mended), cmocka_unit_test(digests_go_by_the_bytes_alone)};
    return cmocka_run_group_tests_name("emulated", tests, NULL, NULL);
}
