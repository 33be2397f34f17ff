/* Time of blocks that multiply tiles. A warp fetches operands from shared memory, then multiplies: alone it waits for
 * the fetches, many hide them behind each other's arithmetic. So a small product takes as long as its depth makes one
 * warp take, whatever the peak is, and a large one as long as its multiprocessor is busy; blocks come in waves, and a
 * product with fewer blocks than multiprocessors leaves the rest idle.
 *
 * All figures are cycles. Latencies are those that Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
 * Architecture via Microbenchmarking" (2024), give for shared memory, L2 and mma.sync; what a step and a tile cost was
 * taken from kernels of different depth recorded on an H200 (scripts attention, lora_mlp, lstm_step, mlp_two_layer),
 * and the busy rates from large products measured there: f32 8192³ and bf16 4096³ in family gemm (33 and 231 TFLOP/s),
 * and mlp_two_layer of 16,384 rows in bf16 (family chain, 227 TFLOP/s). */
#include "schedule/tile_cost.h"

#include <math.h>

enum {
    SCHEDULERS = 4,      /* of a multiprocessor: a warp belongs to one */
    FETCH = 30,          /* shared memory's latency */
    TENSOR_LATENCY = 66, /* the same, and that of one mma.sync, whose sums the next one adds to */
    TILE = 300,          /* a tile begins: waiting for copies, two barriers, sending for the next one */
    WAIT = 375,    /* a load from L2 and what is made of it, where nothing is done meanwhile; a long division too */
    COPY = 700,    /* the same, of a whole tile that is copied: latency of DRAM and L2 */
    L2_BYTES = 64, /* a cycle, to one multiprocessor */
    REGISTERS = 65536,
    OTHER = 40, /* registers of a thread beside its sums */
    MOST_THREADS = 2048,
    BLOCK_RESERVE = 1024, /* bytes of shared memory that each block takes beside its own */
};
static const double fill_us = 0.7; /* the first tiles come, the last sums go */

/* One step of k of one warp: how long it takes alone, and how long it keeps its scheduler busy. */
typedef struct {
    double alone, busy, k;
} step;

static step step_of(int warp, const fb_tile_work *w, const fb_tile_product *p)
{
    const double fma = 1.5, fma_busy = 1.9, fetch_busy = SCHEDULERS, mma = 8, mma_busy = 14;
    if (!w->tensor) {
        double sums = p->warp_m * p->warp_n / (double)warp * (w->dtype == FB_F64 ? 2 : 1);
        double fetches = (p->warp_m / 4.0 + p->warp_n / 8.0) * (w->dtype == FB_F64 ? 2 : 1);
        return (step){FETCH + fma * sums, fmax(fma_busy * sums, fetch_busy * fetches), 1};
    }
    bool halves = fb_dtype_size(w->dtype) == 2;
    double n = p->warp_m / 16.0 * (p->warp_n / 8.0);
    return (step){TENSOR_LATENCY + mma * n, mma_busy * n, halves ? 16 : 8};
}

/* Blocks that a multiprocessor holds at once. */
static double resident(const fb_machine *m, const fb_tile_work *w)
{
    double sums = 0;
    for (int i = 0; i < w->n_products; i++)
        sums = fmax(sums, w->product[i].warp_m * w->product[i].warp_n / (double)m->target->warp *
                              (w->dtype == FB_F64 ? 2 : 1));
    double by_shared = floor((double)m->shared_bytes / (double)(w->shared_bytes + BLOCK_RESERVE));
    double by_registers = w->sharing ? w->sharing : floor(REGISTERS / (w->threads * fmin(sums + OTHER, 255)));
    return fmax(1, fmin(fmin(by_shared, by_registers), floor((double)MOST_THREADS / w->threads)));
}

/* A tile comes while those before it are multiplied, of which there are one fewer than stages. The figures above are of
 * kernels with as many stages as they have by themselves, so that this is what fewer or more make of it: of a tile that
 * takes `each` cycles. */
static double late(int stages, int usual, double each)
{
    if (stages < 2 || usual < 2) return 0;
    return fmax(COPY / (stages - 1.0) - each, 0) - fmax(COPY / (usual - 1.0) - each, 0);
}

/* Cycles as seen with the device's clock at the steps of mlp_two_layer (16,384 rows, bf16) on an H200: the first tile
 * comes after 2,000, the others at what cp.async brings; both warpgroups' multiplications are at the tensor cores' peak
 * (2,048 products a cycle); what is made of sums takes a warp 12 cycles a register between the products and 52 after
 * them, while the other warpgroup multiplies, or 36 where there is none. */
double fb_wide_us(const fb_machine *m, const fb_wide_work *w)
{
    const double begins = 2000, brought = 40, products = 2048, between = 12, after = w->rows > 64 ? 52 : 36, size = 2,
                 strip = 64, group = 64;
    double cycles_a_us = fb_cycles_a_us(m), units = fmax(m->units, 1), cache = fb_rate_peak(&m->copy_hot);
    if (cycles_a_us <= 0) return 0;
    double first = fmax((w->rows + w->width) * strip * size / brought, w->rows * strip * w->width / products);
    double chunk = fmax(w->width * strip * size / brought, group * strip * w->width / products + after * strip / 2);
    first += late(w->stages, w->usual, first);
    chunk += late(w->stages, w->usual, chunk);
    double cycles = begins + w->depth / strip * first + between * w->width / 2 + w->columns / strip * chunk;
    double bytes = ((double)w->depth * (w->rows + w->width) + (double)w->width * w->columns) * size;
    double again_us = fb_time_us((double)w->blocks * bytes, cache);
    return fmax(ceil((double)w->blocks / units) * cycles / cycles_a_us, again_us) + fill_us;
}

/* A step takes as long as its copies, which take twice as long where 8 of 16 bytes lie in two lines of the cache. (1024 × 4096 by
 * 1024 in f16: 17.6 µs, with 4104 columns 29.1, and 40.1 where the other operand's lines begin anywhere, too.) */
static double wide_step(const fb_wide_tile_work *w)
{
    const double products = 1233;
    double twice = (w->a_lines ? 0 : w->m) + (w->b_lines ? 0 : w->n);
    return (double)w->m * w->n * w->step / products * (1 + twice / (w->m + w->n));
}

/* A multiprocessor has one block at a time, which begins, multiplies, and stores with nothing beside it. Fitted to eleven
 * products of 256 to 8192 rows, columns and k in 16 bits on an H200: ten of them within 8 %. */
static double wide_cycles(const fb_wide_tile_work *w, double rounds, double later)
{
    const double begins = 1630, after = 0.194;
    return rounds * (begins + w->steps * (wide_step(w) + later) + after * w->m * w->n);
}

/* Where the copy engine brings operands, a step takes as long as its multiplications, or as a stage takes to come round; and
 * kernels that keep all tensor cores busy for long have a lower clock, by the power they take: the rounds of `full` steps of
 * 128 × 256. What else is loaded and stored comes while nothing is multiplied. Sums that one warpgroup has to itself
 * take it twice as long. Blocks that share a tile's steps wait for each other, and take each other's sums. Fitted to
 * fifteen products of 256 to 65,536 rows, columns and k, and to 25 of 128 to 16,384 by up to nine tiles each, on an
 * H200: of these half within 6 %, and the tile that is chosen takes at most 8 % more than the best. */
static double tma_cycles(int units, const fb_wide_tile_work *w, double rounds, double later)
{
    const double begins = 2500, after = w->lines ? 0.14 : 0.28, function = 0.0147, hidden = 14, products = 2048 / 1.05,
                 round = 360, size = 2, a_byte = 0.007, slower = 0.295, full = 160, group = 64, meeting = 6000,
                 taken = 0.12, byte = 0.05;
    double each = fmax((double)w->m * w->n * w->step / products, round + a_byte * (w->m + w->n) * w->step * size);
    double busy = rounds * w->steps * w->m * w->n / (128.0 * 256) * fmin((double)w->blocks / fmax(units, 1), 1);
    double ends = after + function * fmax(w->made - hidden, 0) + byte * w->beside;
    ends *= (double)w->m * w->n * (w->m > group ? 1 : 2);
    each *= 1 + slower * fmin(busy / full, 1);
    if (w->split > 1) ends = ends / w->split + meeting + taken * w->m * w->n * (w->split - 1) / w->split;
    if (w->steps <= 1 && rounds > 1) each = 0; /* a step comes while the sums of the tile before go out */
    return begins + rounds * (w->steps * (each + later) + ends);
}

static double tile_cycles(int units, const fb_wide_tile_work *w, double later)
{
    double rounds = ceil((double)w->blocks / fmax(units, 1));
    return w->tma ? tma_cycles(units, w, rounds, later) : wide_cycles(w, rounds, later);
}

double fb_wide_tile_cycles(int units, const fb_wide_tile_work *w)
{
    return tile_cycles(units, w, 0);
}

double fb_wide_tile_us(const fb_machine *m, const fb_wide_tile_work *w)
{
    double cycles_a_us = fb_cycles_a_us(m);
    if (cycles_a_us <= 0) return 0;
    return tile_cycles(m->units, w, late(w->stages, w->usual, wide_step(w))) / cycles_a_us + fill_us;
}

/* Cycles that a multiprocessor softens a score in, beside the products. A load for each, of the bytes of a mask, takes twice
 * as long as all else; one for eight of a row takes little. (12 heads of 4 sequences of 512, width 64, on an H200: 16 µs
 * without, 34.6 with a mask, and 21.3 where it comes eight bytes at once. 32 heads of 2048, width 128, with tanh(s / 50) · 50:
 * 232 µs where 140 were foreseen.) */
static double softening(const fb_attention_work *w)
{
    const double soft = 0.139, load = 0.26, pack = 0.06, exponential = 0.13;
    return soft + load * w->loads + pack * w->packs + exponential * w->slow;
}

/* Blocks of one warpgroup, of which a multiprocessor holds several: each multiplies and softens in turn, and what one
 * waits for at its beginning three hide. Fitted to twelve attentions of widths 32 to 128 and 49 to 2000 positions, tiles
 * of 64 and of 128 scores, on an H200: half of them within 15 %. */
static double attention_alone(const fb_machine *m, const fb_attention_work *w)
{
    const double begins = 3000, products = 2048 * 0.555, beside = 3;
    double units = fmax(m->units, 1), scores = (double)w->rows * w->tile;
    double each = scores * (w->depth + w->columns) / products + scores * softening(w);
    double together = fmin(floor((double)m->shared_bytes / (double)(w->shared_bytes + BLOCK_RESERVE)),
                           ceil((double)w->blocks / units));
    double shared_out = ((double)w->blocks * begins / fmax(fmin(together, beside), 1) + (double)w->all * each) / units;
    return fmax(shared_out, begins + (double)w->most * each);
}

/* A tile takes as long as its products on the tensor cores, or as what becomes of its scores; a block begins and ends
 * beside that, and half a tile more has nothing beside it. Fitted to ten attentions of widths 64 to 256, 512 to 4096
 * positions, causal and not, on an H200, blocks of two warpgroups: within 6 %. Since blocks of threads stay, and bring
 * the next rows' tiles meanwhile, a block takes 1,000 cycles less (64 heads, 1024 positions, width 64: 36.7 -> 34.6
 * µs). Blocks that all take as long end together, so that the last of them may leave most multiprocessors idle (64
 * heads, 577 positions, width 96: 320 blocks on 132, 38.4 µs; as many as fill them would be 28.9). */
static double attention_in_turn(const fb_machine *m, const fb_attention_work *w)
{
    const double begins = 3400, products = 2048 * 0.555, alone = 0.53;
    double units = fmax(m->units, 1), scores = (double)w->rows * w->tile;
    double each = fmax(scores * (w->depth + w->columns) / products, scores * softening(w));
    double shared_out = ((double)w->blocks * (begins + alone * each) + (double)w->all * each) / units;
    bool alike = w->all == w->blocks * w->most;
    double rounds = alike ? ceil((double)w->blocks / units) : 1;
    return fmax(shared_out, rounds * (begins + ((double)w->most + alone) * each));
}

double fb_attention_us(const fb_machine *m, const fb_attention_work *w)
{
    enum { GROUP = 64 };
    double cycles_a_us = fb_cycles_a_us(m);
    if (cycles_a_us <= 0) return 0;
    return (w->rows > GROUP ? attention_in_turn(m, w) : attention_alone(m, w)) / cycles_a_us + fill_us;
}

double fb_tile_us(const fb_machine *m, const fb_tile_work *w)
{
    double units = fmax(m->units, 1), cache = fb_rate_peak(&m->copy_hot);
    double cycles_a_us = fb_cycles_a_us(m);
    if (cycles_a_us <= 0 || w->threads <= 0) return 0;
    double together = fmin(resident(m, w), ceil((double)w->blocks / units));
    double warps = ceil(together * w->threads / m->target->warp / SCHEDULERS),
           waves = ceil((double)w->blocks / (units * together));
    double cycles = TILE * w->tiles + WAIT * w->waits + w->after + warps * w->made;
    for (int i = 0; i < w->n_products; i++) {
        step s = step_of(m->target->warp, w, &w->product[i]);
        cycles += w->product[i].k / s.k * fmax(s.alone, warps * s.busy);
    }
    cycles += w->tiles * late(w->stages, w->usual, w->tiles > 0 ? cycles / w->tiles : 0);
    double copies = together * w->bytes / L2_BYTES;
    cycles = w->in_turn ? cycles + copies + COPY * w->tiles : fmax(cycles, copies);
    double again_us = fb_time_us((double)w->blocks * w->bytes, cache);
    return fmax(waves * cycles / cycles_a_us, again_us) + fill_us;
}

/* ---- multiply-adds ---- */

/* Registers of a thread: its sums, its rows and columns at as many steps of k as come at once, and addresses. */
static double lane_registers(const fb_lanes_work *w)
{
    enum { STEPS = 4, ADDRESSES = 44, UNIT = 8, MOST = 255 };
    double rows = w->warp_m / 4.0, columns = w->warp_n / 8.0;
    double own = rows * columns + rows * (w->rows_by_k ? STEPS : 1) + columns * (w->columns_by_k ? STEPS : 1);
    return fmin(ceil((own + ADDRESSES) / UNIT) * UNIT, MOST);
}

static double lanes_resident(int64_t shared_bytes, const fb_lanes_work *w)
{
    double by_shared = floor((double)shared_bytes / (double)(w->shared_bytes + BLOCK_RESERVE));
    double by_registers = floor(REGISTERS / (w->threads * lane_registers(w)));
    return fmax(1, fmin(fmin(by_shared, by_registers), floor((double)MOST_THREADS / w->threads)));
}

/* Blocks that begin together have the same things to do at the same time. Those that come after them do not: one
 * multiplies while another's sums go out, and they wait in two queues, at the arithmetic and at the way out. The cycles
 * from when a block joins until it leaves again, `waiting` aside: mean values of a closed network of two queues and a
 * delay (Reiser and Lavenberg, 1980), `work` and `out` being what all of them need together. */
static double apart(int together, double work, double out, double waiting)
{
    double at_work = 0, at_out = 0, cycles = work + out;
    for (int n = 1; n <= together; n++) {
        double works = work / together * (1 + at_work), goes_out = out / together * (1 + at_out);
        cycles = works + goes_out;
        at_work = n * works / (cycles + waiting);
        at_out = n * goes_out / (cycles + waiting);
    }
    return cycles;
}

/* Fitted to 503 kernels of eleven products (2 to 770 million multiply-adds, k of 64 to 2048, all transposes, pieces and
 * words, one to eight parts) on an H100: half of them within 5 %, nine of ten within 15 %. A warp's instructions
 * are its multiply-adds and fetches from shared memory; each takes longer than a cycle, since registers have too few
 * ports for all of them, and longer still where a scheduler has no other warp. */
double fb_lanes_cycles(int units, int64_t shared_bytes, const fb_lanes_work *w)
{
    const double issue = 1.45, alone = 0.27, tile = 200, copy = 26, ends = 2480, spread = 0.22, near = 2940,
                 memory = 4060, parts = 0.144, cache = 24; /* bytes a cycle */
    double all = (double)w->blocks * w->split, together = fmin(lanes_resident(shared_bytes, w), ceil(all / units));
    double warps = ceil(w->threads / 32.0 * together / SCHEDULERS), sums = (double)w->m * w->n;
    double rows = w->warp_m / 4.0, columns = w->warp_n / 8.0;
    double issued = (double)w->k / w->slices * (rows * columns + (rows + columns) / 4);
    double busy = issue * warps * issued + copy * warps * w->copied / w->threads;
    double each = busy + (warps > 1 ? 0 : alone * issued) + tile;
    each = fmax(each, together * w->k * (w->m + w->n) * 4 / cache);
    double out = spread * together * sums * w->slices, once = WAIT * w->waits + warps * w->made;
    double cycles = w->tiles * (each + late(w->stages, w->usual, each)) + ends + out + once;
    if (w->split > 1) cycles += w->near ? near : memory + parts * sums * w->split;
    double waves = ceil(all / (units * together)), work = w->tiles * busy + warps * w->made;
    return cycles + (waves - 1) * (cycles - work - out + apart((int)together, work, out, cycles - work - out));
}

/* What a kernel takes beside its cycles: 22 kernels recorded on an H200, of 1.6 to 21 µs, took 0.6 µs less than with
 * all of fill_us, a part of which is in the cycles that a block ends with. */
double fb_lanes_us(const fb_machine *m, const fb_lanes_work *w)
{
    const double beside_us = 0.1;
    double clock = fb_cycles_a_us(m), cache = fb_rate_peak(&m->copy_hot);
    if (clock <= 0 || w->threads <= 0) return 0;
    double bytes = (double)w->blocks * w->split * w->tiles * w->k * (w->m + w->n) * 4;
    return fmax(fb_lanes_cycles((int)fmax(m->units, 1), m->shared_bytes, w) / clock, fb_time_us(bytes, cache)) +
           beside_us;
}
