/* Matmul and gathers.
 *
 * A matmul of exact operands is one product: its lanes are that and what they draw for the additions. Where an
 * operand's lanes differ, each lane is multiplied; those of the left operand are rows of one tall matrix if the right
 * one has one plane. */
#include "interp/trial_parts.h"

#include "base/blas.h"
#include "base/mem.h"
#include "graph/intmath.h"
#include "interp/parts.h"

#include <float.h>
#include <limits.h>

/* ---- matmul ---- */

typedef struct {
    fb_trial_eval *e;
    fb_id id;
    const fb_node *node;
    int64_t m, n, k, batch;
    int rank;                                         /* of the batch */
    int64_t dim[FB_MAX_RANK];                         /* its extents */
    int64_t a_step[FB_MAX_RANK], b_step[FB_MAX_RANK]; /* in matrices */
    int64_t a_n, b_n;                                 /* cells of the operands as they are taken */
    int a_lanes, b_lanes;
    const double *left[FB_LANES], *right[FB_LANES]; /* planes, as needed */
    fb_cells *held[2];
    fb_cells *apart[2];    /* lanes from FB_TRIAL_READ_FIRST on of operands that others may have otherwise */
    bool tf32, cuts;       /* operands rounded to tf32; accumulators may cut off */
    double *a_norm;        /* of rows, a batch matrix after the other */
    double *a_roots;       /* the same: √Σm² of values that occur m times */
    double *a_parts;       /* … and sums of FB_SUM_PARTS parts of each */
    unsigned char *a_even; /* … and a bit for each part whose elements are nearly equal */
    fb_columns *b, *own;   /* of the right operand; own: not kept with its cells */
    int lowest;            /* no product has a bit below 2^lowest; INT_MIN: not known to be exact */
    atomic_bool spreads;
} product;

static int64_t batch_at(const product *p, const int64_t *steps, int64_t at)
{
    int64_t which = 0;
    for (int d = p->rank - 1; d >= 0; d--) {
        which += at % p->dim[d] * steps[d];
        at /= p->dim[d];
    }
    return which;
}

/* The planes of an operand, where they lie if its box is what is needed. */
static bool take_operand(product *p, int which, const fb_box *box)
{
    const fb_trial_value *x = fb_trial_at(p->e, p->node->args[which]);
    const fb_shape *shape = &fb_trial_node(p->e, p->node->args[which])->shape;
    const double **planes = which ? p->right : p->left;
    int64_t cells = fb_box_cells(box, shape->rank);
    *(which ? &p->b_n : &p->a_n) = cells;
    *(which ? &p->b_lanes : &p->a_lanes) = x->lanes > 1 ? x->lanes : 1;
    if (!cells) return true;
    bool same = cells == x->n;
    if (!same && !(p->held[which] = fb_trial_cells(p->e, p->id, cells * x->lanes))) return false;
    for (int l = 0; l < x->lanes; l++) {
        planes[l] = fb_trial_f(x, l);
        if (same) continue;
        fb_trial_take(p->held[which]->at.raw + l * cells, fb_trial_raw(x, l), &x->box, box, shape->rank);
        planes[l] = p->held[which]->at.f + l * cells;
    }
    return true;
}

static void open_steps(const product *p, const fb_box *box, int rank, int64_t *steps)
{
    fb_shape batch = fb_box_extents(box, rank - 2);
    fb_shape_expanded_strides(&batch, p->rank, steps);
}

static bool product_open(product *p)
{
    const fb_graph *g = p->e->s->g;
    const fb_box *box = &fb_trial_at(p->e, p->id)->box;
    fb_box a, b;
    fb_trial_needs(g, p->node, 0, box, &a);
    fb_trial_needs(g, p->node, 1, box, &b);
    int rank = p->node->shape.rank, a_rank = g->nodes[p->node->args[0]].shape.rank,
        b_rank = g->nodes[p->node->args[1]].shape.rank;
    p->m = box->hi[rank - 2] - box->lo[rank - 2];
    p->n = box->hi[rank - 1] - box->lo[rank - 1];
    p->k = a.hi[a_rank - 1];
    p->rank = rank - 2;
    p->batch = 1;
    for (int d = 0; d < p->rank; d++) p->batch *= p->dim[d] = box->hi[d] - box->lo[d];
    open_steps(p, &a, a_rank, p->a_step);
    open_steps(p, &b, b_rank, p->b_step);
    if (!take_operand(p, 0, &a) || !take_operand(p, 1, &b)) return false;
    /* One matrix on the right for all on the left: their rows are the rows of one tall matrix. */
    bool shared = true;
    for (int d = 0; d < p->rank; d++) shared &= p->b_step[d] == 0;
    if (shared && p->a_n == p->batch * p->m * p->k) p->m *= p->batch, p->batch = 1, p->rank = 0;
    p->tf32 = p->node->attrs->precision == FB_PRECISION_TF32 && p->node->dtype == FB_F32;
    p->cuts = p->tf32 || fb_dtype_is_half(p->node->dtype);
    return true;
}

/* An operand that several read: which it is, and its planes of so many cells. */
typedef struct {
    product *p;
    int which, lanes;
    const double **planes;
    int64_t n;
} apart_job;

static void read_part_apart(void *ctx, int64_t first, int64_t last)
{
    const apart_job *j = ctx;
    const fb_trial_shared *s = j->p->e->s;
    fb_id from = j->p->node->args[j->which];
    double *to = j->p->apart[j->which]->at.f;
    fb_dtype dtype = s->g->nodes[from].dtype;
    for (int l = FB_TRIAL_READ_FIRST; l < j->lanes; l++, to += j->n) {
        uint64_t key = fb_trial_key(s, l, from, FB_DRAW_READ) + (uint64_t)j->p->id;
        for (int64_t k = first; k < last; k++) {
            double x = j->planes[0][k], spread = 0;
            for (int other = 1; other < j->lanes; other++) spread = fmax(spread, fabs(j->planes[other][k] - x));
            to[k] = fb_trial_read_again(x, j->planes[l][k], spread, dtype, key);
        }
    }
}

static bool reads_again(const fb_trial_shared *s, fb_id operand)
{
    return s->apart[s->slot[operand]] && !fb_dtype_is_half(s->g->nodes[operand].dtype);
}

/* Of s · v - s · w a kernel may sum s up for each of the products: as in trial_pointwise.c two lanes read operands as
 * they may have been rounded, whatever the lanes have for others. */
static bool read_apart(product *p)
{
    for (int which = 0; which < 2; which++) {
        int lanes = which ? p->b_lanes : p->a_lanes;
        apart_job j = {p, which, lanes, which ? p->right : p->left, which ? p->b_n : p->a_n};
        if (!j.n || lanes <= FB_TRIAL_READ_FIRST || !reads_again(p->e->s, p->node->args[which])) continue;
        p->apart[which] = fb_trial_cells(p->e, p->id, j.n * (lanes - FB_TRIAL_READ_FIRST));
        if (!p->apart[which]) return false;
        fb_trial_for(p->e, j.n, 4096, read_part_apart, &j);
        for (int l = FB_TRIAL_READ_FIRST; l < lanes; l++)
            j.planes[l] = p->apart[which]->at.f + (l - FB_TRIAL_READ_FIRST) * j.n;
    }
    return true;
}

/* ---- products ---- */

/* A product is cut into tiles by its shape alone, so that threads and blocks do not show in it; threads take tiles. */
typedef struct {
    const fb_blas *blas; /* NULL: a plain loop */
    int64_t m, n, k, rows, columns;
    const product *of;
    const double *a, *b;
    double *c;
} tiled;

static void multiply_tile(const tiled *t, int64_t matrix, int64_t row, int64_t column)
{
    const product *p = t->of;
    int64_t m = t->m - row < t->rows ? t->m - row : t->rows,
            n = t->n - column < t->columns ? t->n - column : t->columns;
    const double *a = t->a + batch_at(p, p->a_step, matrix) * t->m * t->k + row * t->k;
    const double *b = t->b + batch_at(p, p->b_step, matrix) * t->k * t->n + column;
    double *c = t->c + (matrix * t->m + row) * t->n + column;
    if (t->blas)
        t->blas->dgemm(FB_BLAS_ROW_MAJOR, FB_BLAS_NO_TRANS, FB_BLAS_NO_TRANS, (int)m, (int)n, (int)t->k, 1, a,
                       (int)t->k, b, (int)t->n, 0, c, (int)t->n);
    else
        fb_matmul_plain(m, n, t->k, a, b, c);
}

static void multiply_tiles(void *ctx, int64_t first, int64_t last)
{
    const tiled *t = ctx;
    int64_t across = (t->n + t->columns - 1) / t->columns, of_matrix = (t->m + t->rows - 1) / t->rows * across;
    for (int64_t k = first; k < last; k++) {
        int64_t tile = k % of_matrix;
        multiply_tile(t, k / of_matrix, tile / across * t->rows, tile % across * t->columns);
    }
}

/* All matrices of a batch; `times` as many rows where lanes lie behind each other in one matrix. */
static void multiply(const product *p, int64_t times, const double *a, const double *b, double *c)
{
    enum { ROWS = 256, COLUMNS = 512, WORTH = 1 << 20 }; /* multiplications that a thread is started for */
    tiled t = {
        .m = p->m * times, .n = p->n, .k = p->k, .rows = ROWS, .columns = COLUMNS, .of = p, .a = a, .b = b, .c = c};
    if (t.m == 0 || t.n == 0) return;
    if (t.n <= INT_MAX && t.k <= INT_MAX && t.k > 0) t.blas = fb_blas_get(NULL);
    if (!t.blas) t.columns = t.n;
    int64_t tiles = p->batch * ((t.m + t.rows - 1) / t.rows) * ((t.n + t.columns - 1) / t.columns);
    int64_t m = t.m < t.rows ? t.m : t.rows, n = t.n < t.columns ? t.n : t.columns;
    fb_trial_for(p->e, tiles, 1 + WORTH / (m * n * (t.k + 1)), multiply_tiles, &t);
}

/* What of the operands is needed for the sizes of errors: norms, and how low their bits go. */
FB_TRIAL_WIDE static int lowest_of_part(const double *x, int64_t n)
{
    const uint64_t one = (uint64_t)1 << 52;
    int64_t lowest = INT_MAX;
    for (int64_t k = 0; k < n; k++) {
        uint64_t bits, place;
        memcpy(&bits, &x[k], sizeof bits);
        int64_t exponent = (int64_t)(bits >> 52 & 0x7ff), whole = (int64_t)((bits & (one - 1)) | one);
        double last = (double)(whole & -whole); /* its exponent is the place of the last bit */
        memcpy(&place, &last, sizeof place);
        int64_t bit = exponent - 1075 + (int64_t)(place >> 52) - 1023;
        bit = (bits << 1) == 0 ? INT_MAX : bit;
        lowest = bit < lowest ? bit : lowest;
    }
    return (int)lowest;
}

static int lowest_of(const double *x, int64_t n)
{
    enum { PART = 1024 };
    int lowest = INT_MAX;
    for (int64_t at = 0; at < n && lowest > -64; at += PART) {
        int bit = lowest_of_part(x + at, n - at < PART ? n - at : PART);
        if (bit < lowest) lowest = bit;
    }
    return lowest;
}

/* √Σm², about, over the values that occur m times each among k: from pairs of a few that are equal. What a term loses
 * when it is added depends on that term, so that equal ones lose the same again and again. */
static double root_of_repeats(const double *x, int64_t k, int64_t step)
{
    enum { LOOKS = 16, PAIRS = LOOKS * (LOOKS - 1) / 2, FEW = 16 }; /* of few, √k is not far from k */
    double look[LOOKS];
    int equal = 0;
    if (k <= FEW) return sqrt((double)k);
    for (int i = 0; i < LOOKS; i++) look[i] = x[(k - 1) * i / (LOOKS - 1) * step];
    for (int i = 0; i < LOOKS; i++)
        for (int j = 0; j < i; j++) equal += look[i] == look[j] && look[i] != 0;
    return sqrt((double)(float)((double)k + (double)k * (double)k * equal / PAIRS));
}

static int64_t part_begin(int64_t k, int part)
{
    return k * part / FB_SUM_PARTS;
}

/* What of a norm is the means of the parts: 1 where all values are equal; sums of k like it grow by k and not by √k. */
static double alike(const double *parts, int64_t step, int64_t k, double norm)
{
    double squares = 0;
    for (int i = 0; i < FB_SUM_PARTS; i++) {
        double sum = parts[i * step], n = (double)(part_begin(k, i + 1) - part_begin(k, i));
        if (n > 0) squares += sum * sum / n;
    }
    return norm > 0 ? sqrt(squares) / norm : 0;
}

/* Are so many values nearly equal, by their sum and their squares? So nearly that they differ by less than a step of a
 * sum some thousand times as large: else each is rounded in its own way. Of few √n says enough. */
static bool is_even(double sum, double squares, int64_t n)
{
    enum { FEWEST = 8 };
    return n >= FEWEST && squares > 0 && sum * sum > (1 - 0x1p-20) * squares * (double)n;
}

/* Nothing may be left of an operand in exact numbers, and in a kernel what roundings leave of it: of a constant row less
 * its mean. Two lanes are looked at beside the exact one. */
enum { LARGER = 2 }; /* that much, in squares */

static void lanes_beside(const product *p, int beside[2])
{
    beside[0] = p->e->s->lanes / 2;
    beside[1] = p->e->s->lanes - 1;
}

FB_TRIAL_WIDE static double squares_of(const double *row, int64_t n)
{
    double part[4] = {0};
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) {
        for (int i = 0; i < 4; i++) part[i] += row[k + i] * row[k + i];
    }
    for (; k < n; k++) part[0] += row[k] * row[k];
    return part[0] + part[1] + part[2] + part[3];
}

/* √Σx² of which the squares were summed up, also where those are out of range, as of 1e-283 (fuzz seed 530009172). */
static double root_of_squares(double squares, const double *x, int64_t n, int64_t step)
{
    if (isnan(squares) || (squares > 0x1p-900 && squares < 0x1p900)) return sqrt(squares);
    double most = 0, sum = 0;
    for (int64_t k = 0; k < n; k++) most = fmax(most, fabs(x[k * step]));
    if (!(most > 0) || isinf(most)) return most;
    for (int64_t k = 0; k < n; k++) sum += x[k * step] / most * (x[k * step] / most);
    return most * sqrt(sum);
}

/* Row `r` of the left operand in the lane that says how large it is. */
static const double *telling_row(const product *p, int64_t r, double *squares)
{
    const double *row = p->left[0] + r * p->k;
    int beside[2];
    *squares = squares_of(row, p->k);
    lanes_beside(p, beside);
    for (int i = 0; i < 2 && p->a_lanes > 1; i++) {
        const double *other = p->left[beside[i]] + r * p->k;
        double of = squares_of(other, p->k);
        if (of > LARGER * *squares) row = other, *squares = of;
    }
    return row;
}

FB_TRIAL_WIDE static void row_norms(void *ctx, int64_t first, int64_t last)
{
    const product *p = ctx;
    for (int64_t r = first; r < last; r++) {
        double all;
        const double *row = telling_row(p, r, &all);
        p->a_norm[r] = root_of_squares(all, row, p->k, 1);
        p->a_roots[r] = root_of_repeats(row, p->k, 1);
        for (int i = 0; i < FB_SUM_PARTS; i++) {
            int64_t begin = part_begin(p->k, i), end = part_begin(p->k, i + 1);
            double sums[4] = {0}, of[4] = {0};
            int64_t k = begin;
            for (; k + 4 <= end; k += 4)
                for (int l = 0; l < 4; l++) sums[l] += row[k + l], of[l] += row[k + l] * row[k + l];
            for (; k < end; k++) sums[0] += row[k], of[0] += row[k] * row[k];
            double sum = sums[0] + sums[1] + sums[2] + sums[3], squares = of[0] + of[1] + of[2] + of[3];
            p->a_parts[r * FB_SUM_PARTS + i] = sum;
            if (is_even(sum, squares, end - begin)) p->a_even[r] |= (unsigned char)(1 << i);
        }
    }
}

/* Columns' squares in a lane beside the exact one, where they are larger. */
FB_TRIAL_WIDE static void columns_beside(const product *p, const double *matrix, double *restrict squares,
                                         double *restrict of)
{
    memset(of, 0, (size_t)p->n * sizeof *of);
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t j = 0; j < p->n; j++) of[j] += matrix[k * p->n + j] * matrix[k * p->n + j];
    for (int64_t j = 0; j < p->n; j++) squares[j] = of[j] > LARGER * squares[j] ? of[j] : squares[j];
}

FB_TRIAL_WIDE static void column_norms(void *ctx, int64_t first, int64_t last)
{
    const product *p = ctx;
    for (int64_t matrix = first; matrix < last; matrix++) {
        double *norms = p->b->norm + matrix * p->n, *parts = p->b->parts + matrix * p->n * FB_SUM_PARTS;
        unsigned char *even = p->b->even + matrix * p->n;
        double *before = fb_alloc((size_t)p->n * sizeof *before + 1);
        for (int part = 0; part < FB_SUM_PARTS; part++) {
            double *sums = parts + part * p->n;
            int64_t begin = part_begin(p->k, part), end = part_begin(p->k, part + 1);
            memcpy(before, norms, (size_t)p->n * sizeof *before);
            for (int64_t k = begin; k < end; k++) {
                const double *row = p->right[0] + (matrix * p->k + k) * p->n;
                for (int64_t j = 0; j < p->n; j++) norms[j] += row[j] * row[j], sums[j] += row[j];
            }
            for (int64_t j = 0; j < p->n; j++)
                if (is_even(sums[j], norms[j] - before[j], end - begin)) even[j] |= (unsigned char)(1 << part);
        }
        int beside[2];
        lanes_beside(p, beside);
        for (int i = 0; i < 2 && p->b_lanes > 1; i++)
            columns_beside(p, p->right[beside[i]] + matrix * p->k * p->n, norms, before);
        fb_free(before);
        for (int64_t j = 0; j < p->n; j++) {
            norms[j] = root_of_squares(norms[j], p->right[0] + matrix * p->k * p->n + j, p->k, p->n);
            p->b->root[matrix * p->n + j] =
                p->k ? root_of_repeats(p->right[0] + matrix * p->k * p->n + j, p->k, p->n) : 0;
            p->b->alike[matrix] = fmax(p->b->alike[matrix], alike(parts + j, p->n, p->k, norms[j]));
        }
    }
}

void fb_trial_free_columns(fb_columns *c)
{
    if (!c) return;
    fb_free(c->norm);
    fb_free(c->root);
    fb_free(c->parts);
    fb_free(c->even);
    fb_free(c->alike);
    fb_free(c);
}

/* Those of the right operand, kept with its cells where they are what is multiplied. */
static void measure_columns(product *p)
{
    int64_t matrices = p->k && p->n ? p->b_n / p->k / p->n : 0;
    fb_cells *cells = p->held[1] ? NULL : fb_trial_at(p->e, p->node->args[1])->cells;
    if (cells && cells->columns && cells->columns->matrices == matrices && cells->columns->k == p->k &&
        cells->columns->n == p->n) {
        p->b = cells->columns;
        return;
    }
    p->b = fb_alloc(sizeof *p->b);
    *p->b = (fb_columns){.matrices = matrices,
                         .k = p->k,
                         .n = p->n,
                         .norm = fb_calloc((size_t)(matrices * p->n) + 1, sizeof *p->b->norm),
                         .root = fb_calloc((size_t)(matrices * p->n) + 1, sizeof *p->b->root),
                         .parts = fb_calloc((size_t)(matrices * p->n) * FB_SUM_PARTS + 1, sizeof *p->b->parts),
                         .even = fb_calloc((size_t)(matrices * p->n) + 1, sizeof *p->b->even),
                         .alike = fb_calloc((size_t)matrices + 1, sizeof *p->b->alike),
                         .lowest = INT_MIN};
    fb_trial_for(p->e, matrices, 1, column_norms, p);
    if (p->b_lanes == 1) p->b->lowest = lowest_of(p->right[0], p->b_n);
    if (cells) {
        fb_trial_free_columns(cells->columns);
        cells->columns = p->b;
    } else {
        p->own = p->b;
    }
}

static void measure_operands(product *p)
{
    int64_t rows = p->k ? p->a_n / p->k : 0;
    p->a_norm = fb_calloc((size_t)rows + 1, sizeof *p->a_norm);
    p->a_roots = fb_calloc((size_t)rows + 1, sizeof *p->a_roots);
    p->a_parts = fb_calloc((size_t)rows * FB_SUM_PARTS + 1, sizeof *p->a_parts);
    p->a_even = fb_calloc((size_t)rows + 1, sizeof *p->a_even);
    if (p->k) fb_trial_for(p->e, rows, 1 + 16384 / p->k, row_norms, p);
    measure_columns(p);
    /* Rounded operands are not what they were. */
    p->lowest = INT_MIN;
    if (p->a_lanes > 1 || p->b_lanes > 1 || p->b->lowest <= -64) return;
    int a = lowest_of(p->left[0], p->a_n), b = p->b->lowest;
    if (a > -64) p->lowest = a == INT_MAX || b == INT_MAX ? 0 : a + b;
}

/* ---- lanes of a product ---- */

/* Sums of terms that are nearly equal: in a kernel that adds two products up in one accumulator, each of these terms
 * loses the same where the other sum is large (trial_pointwise.c). */
static void find_alike(product *p)
{
    static const double nearly = 0.95;
    fb_trial_value *v = fb_trial_at(p->e, p->id);
    for (int64_t r = 0; r < p->batch * p->m; r++) {
        int64_t i = r / p->m, a_row = batch_at(p, p->a_step, i) * p->m + r % p->m, matrix = batch_at(p, p->b_step, i);
        double of_row = alike(p->a_parts + a_row * FB_SUM_PARTS, 1, p->k, p->a_norm[a_row]);
        if (!(of_row * p->b->alike[matrix] > nearly)) continue;
        for (int64_t j = 0; j < p->n; j++) {
            double norms = p->a_norm[a_row] * p->b->norm[matrix * p->n + j],
                   size = fabs(fb_trial_f(v, 0)[r * p->n + j]);
            if (size > nearly * norms && size > 0) fb_trial_alike(v)[r * p->n + j] = (float)p->k;
        }
    }
}

/* One lane of one row: what its sums are put off by. */
typedef struct {
    const double *c; /* exact sums of the lane's operands */
    double a_norm, a_root;
    const double *norm, *root;
    const double *peak;     /* sums on the way are about so large */
    const double *even;     /* so many terms in parts are nearly equal */
    double k, unit, single; /* single: of the one term, where there is no more */
    double exact;           /* up to so large norms no order rounds */
    double cut;             /* what cutting off loses, a share */
    double operand;         /* tf32: a random rounding of the operands, a share; 0: none */
    bool always;            /* cuts off what is exact as well */
    double by_value;        /* how much of the draw the sum's value decides */
    const double *by_place; /* … and what its place, or the lane, adds to that */
    uint64_t sum_key, operand_key;
} row_lane;

/* Can sums on the way be larger than what terms of either sign add up to? [x, h] by one weight may go up with x and
 * come down again with h: the sum does not tell. */
static bool has_peaks(const product *p, int64_t a_row, int64_t matrix)
{
    const double *own = p->a_parts + a_row * FB_SUM_PARTS;
    return !(alike(own, 1, p->k, p->a_norm[a_row]) * p->b->alike[matrix] * sqrt((double)p->k) <= 1);
}

/* Sums at the ends of parts, as far as the parts' means make them. */
static void find_peaks(const product *p, int64_t a_row, int64_t matrix, int64_t at, int n, double *restrict peak)
{
    const double *own = p->a_parts + a_row * FB_SUM_PARTS;
    double sum[FB_TRIAL_CHUNK] = {0};
    memset(peak, 0, (size_t)n * sizeof *peak);
    for (int i = 0; i < FB_SUM_PARTS; i++) {
        const double *other = p->b->parts + (matrix * FB_SUM_PARTS + i) * p->n + at;
        double each = (double)(part_begin(p->k, i + 1) - part_begin(p->k, i)), of = each > 0 ? own[i] / each : 0;
        for (int k = 0; k < n; k++) {
            sum[k] += of * other[k];
            peak[k] = fabs(sum[k]) > peak[k] ? fabs(sum[k]) : peak[k];
        }
    }
}

/* Of [x, h] by one weight the terms of h may be nearly equal, and those of x anything: on top of what x left, each of
 * them loses the same. */
static void find_even(const product *p, int64_t a_row, const unsigned char *columns, int n, double *restrict even)
{
    for (int j = 0; j < n; j++) {
        even[j] = 0;
        for (int i = 0; i < FB_SUM_PARTS; i++)
            if (p->a_even[a_row] & columns[j] & 1 << i)
                even[j] += (double)(part_begin(p->k, i + 1) - part_begin(p->k, i));
    }
}

/* A device need not round equal sums alike: equal columns may lie in the middle of a library's tile and at its edge,
 * where terms are added in another order. So lanes 2, 6, 7 and 8 draw a share by the place in the whole tensor; the
 * others, among them those that are a device, round equal sums alike. Two lanes share a draw with opposite signs: what
 * is the largest of equal sums in one is the smallest in the other, and a maximum is hardly ever certain by chance.
 * With five eighths of both draws, the largest of eight lanes is on average as large as that of eight draws by value.
 * The value of the exact lane is hashed as well, so that the steps of a loop are not all put off to the same side.
 *
 * What a sum loses of a term hangs on the term alone, as long as the sum stays as large as it is: where a row of the right
 * operand is constant, all sums of a row lose the same of its terms. So all sums of lanes 3 and 4 go half of the way to
 * one side, in one lane to the other side than in the other; unlike sums do not make up for each other there. */
static const double of_both = 0.625, of_all = 0.5;

enum { ALL_ALIKE = 3 }; /* the pair whose sums go to one side */

static int lane_pair(int lane)
{
    return lane == 2 || lane == 6 ? 2 : lane == 7 || lane == 8 ? 7 : lane == 3 || lane == 4 ? ALL_ALIKE : 0;
}

/* Where row r of the result's box begins in the whole tensor. */
static int64_t row_place(const product *p, int64_t r)
{
    const fb_box *box = &fb_trial_at(p->e, p->id)->box;
    int rank = p->node->shape.rank;
    int64_t steps[FB_MAX_RANK], place = box->lo[rank - 1];
    fb_shape_strides(&p->node->shape, steps);
    for (int d = rank - 2; d >= 0; d--) {
        int64_t extent = box->hi[d] - box->lo[d];
        place += (box->lo[d] + r % extent) * steps[d];
        r /= extent;
    }
    return place;
}

FB_TRIAL_WIDE static void find_places(int lane, uint64_t key, int64_t place, const double *restrict exact, int n,
                                      double *restrict by_place)
{
    const double share = lane == lane_pair(lane) ? of_both : -of_both;
    for (int i = 0; i < n; i++)
        by_place[i] = share * fb_trial_swing(fb_trial_bits(exact[i]) ^ (uint64_t)(place + i), key);
}

static void go_to_one_side(int lane, uint64_t key, double by_place[FB_TRIAL_CHUNK])
{
    bool up = (lane == ALL_ALIKE) == (key & 1);
    for (int i = 0; i < FB_TRIAL_CHUNK; i++) by_place[i] = up ? of_all : -of_all;
}

/* γ·max(|sum|, ‖terms‖₂), with ‖a‖·‖b‖/√k for the norm of the terms; m equal terms are one m times as large on the way.
 * Where the sum is nearly as large as Cauchy and Schwarz allow, all terms are nearly equal, and what each loses adds
 * up. False: no element is off. One choice at a time, or the loop is not vectorised. */
FB_TRIAL_WIDE static bool put_off_sums(const row_lane *j, int n, double *restrict room)
{
    const double k = j->k, unit = j->unit, cut = j->cut, exact = j->exact, a_norm = j->a_norm;
    const double *restrict c = j->c, *restrict norm = j->norm, *restrict roots = j->root, *restrict peaks = j->peak;
    const double *restrict evens = j->even;
    const double *restrict places = j->by_place;
    const double of_row = j->a_root, by_value = j->by_value;
    const uint64_t key = j->sum_key;
    const double moves = j->always ? DBL_MAX : -1; /* up to this size, exact or not */
    uint64_t off = 0;
    for (int i = 0; i < n; i++) {
        double sum = c[i], size = fabs(sum), norms = a_norm * norm[i], root = roots[i], peak = peaks[i];
        root = root < of_row ? root : of_row;
        root = size > 0.99 * norms ? k : root;
        double terms = norms / k * root, most = root < k ? root : k;
        most = evens[i] > most ? evens[i] : most;
        peak = peak <= norms ? peak : 0;
        terms = peak > terms ? peak : terms;
        terms = terms <= DBL_MAX ? terms : size; /* norms are the exact lane's, which may be no number where this is */
        double error = most * unit * (size > terms ? size : terms);
        error = norms <= exact ? 0 : error;
        error = size <= DBL_MAX ? error : 0;
        double swing = by_value * fb_trial_swing(fb_trial_bits(sum), key) + places[i];
        double moved = sum + swing * error - cut * sum;
        uint64_t bits;
        memcpy(&bits, &error, sizeof bits);
        sum = size <= moves ? moved : sum;
        room[i] = bits != 0 ? moved : sum;
        off |= bits;
    }
    return off;
}

/* The same of products of one term. */
FB_TRIAL_WIDE static bool put_off_terms(const row_lane *j, int n, double *restrict room)
{
    bool off = false;
    for (int i = 0; i < n; i++) {
        double sum = j->c[i], size = fabs(sum), error = size <= DBL_MAX ? j->single * size : 0;
        double swing = fb_trial_swing(fb_trial_bits(sum), j->sum_key);
        double moved = sum + swing * error - j->cut * sum;
        room[i] = error != 0 || (j->always && size <= DBL_MAX) ? moved : sum;
        off |= error != 0;
    }
    return off;
}

/* A random rounding of the operands, beside the coherent one that the product has. */
FB_TRIAL_WIDE static void put_off_operands(const row_lane *j, int n, double *restrict room)
{
    const double *restrict c = j->c, *restrict norm = j->norm;
    const double a_norm = j->a_norm, operand = j->operand;
    const uint64_t key = j->operand_key;
    for (int i = 0; i < n; i++) {
        double norms = a_norm * norm[i], swing = fb_trial_swing(fb_trial_bits(c[i]), key);
        double off = swing * 0x1p-10 * norms / operand;
        room[i] += fabs(c[i]) <= DBL_MAX && fabs(off) <= DBL_MAX ? off : 0;
    }
}

/* Terms that are all 0: a sum that starts at 0 is never -0, and a kernel that starts with its first term has the sign of
 * that. */
FB_TRIAL_WIDE static bool turn_zeros(const row_lane *j, bool turned, int n, double *restrict room)
{
    const double zero = turned ? -0.0 : 0.0, *restrict norm = j->norm;
    int64_t zeros = 0;
    for (int i = 0; i < n; i++) {
        bool is = room[i] == 0 && j->a_norm * norm[i] == 0;
        zeros |= is;
        room[i] = is ? zero : room[i];
    }
    return zeros;
}

typedef struct {
    product *p;
    int lane;
    const double *c; /* exact sums of the lane's operands */
    bool rounded;    /* by tf32 already */
} lane_job;

/* Do the terms of one row and column go beyond what the accumulator holds on both sides of 0? */
static bool overflows_both_ways(const product *p, int64_t a_row, int64_t matrix, int64_t column)
{
    const double *a = p->left[0] + a_row * p->k, *b = p->right[0] + matrix * p->k * p->n + column;
    double above = 0, below = 0;
    for (int64_t i = 0; i < p->k; i++) {
        double term = a[i] * b[i * p->n];
        above += term > 0 ? term : 0;
        below -= term < 0 ? term : 0;
    }
    return above > FLT_MAX && below > FLT_MAX;
}

/* Terms, or sums on the way, may be beyond what the accumulator holds though their sum is not, or where that is infinite
 * on the other side, and infinity less infinity is no number: two lanes have that. */
static bool lose_sums(const product *p, const row_lane *j, int lane, int64_t a_row, int64_t matrix, int64_t column,
                      const double *exact, int n, double *room)
{
    enum { ONE = 5, ANOTHER = 8 };
    bool lost = false;
    if (lane != ONE && lane != ANOTHER) return false;
    for (int k = 0; k < n; k++) {
        if (!(j->a_norm * j->norm[k] > FLT_MAX) || isnan(exact[k])) continue;
        if (isinf(exact[k]) && !overflows_both_ways(p, a_row, matrix, column + k)) continue;
        room[k] = NAN;
        lost = true;
    }
    return lost;
}

/* What cutting off loses is lost towards zero, at each of the accumulator's steps of (at least) 8 terms. */
static void settle_rows(void *ctx, int64_t first, int64_t last)
{
    const lane_job *j = ctx;
    product *p = j->p;
    bool wide = p->node->dtype == FB_F64, spreads = false, random = p->tf32 && j->lane % 2 == 0;
    static const double level[FB_TRIAL_CHUNK];
    double room[FB_TRIAL_CHUNK], peak[FB_TRIAL_CHUNK], even[FB_TRIAL_CHUNK], by_place[FB_TRIAL_CHUNK];
    const double *exact = fb_trial_f(fb_trial_at(p->e, p->id), 0), u = fb_trial_unit(p->node->dtype);
    int pair = p->k < 2 ? 0 : lane_pair(j->lane);
    bool places = pair && pair != ALL_ALIKE;
    uint64_t place_key = fb_trial_key(p->e->s, pair, p->id, FB_DRAW_PLACE);
    bool turned = fb_trial_takes(j->lane, (uint32_t)fb_trial_key(p->e->s, 0, p->id, FB_DRAW_SIGN));
    row_lane one = {.k = (double)p->k, .unit = u, .single = wide ? 0x1p-53 : 0, .exact = -1};
    if (p->lowest != INT_MIN) one.exact = ldexp(1, p->lowest + (wide ? 53 : 24));
    if (p->k < 2) one.exact = -1;
    if (p->cuts)
        one.cut = (fb_trial_share(p->e->s, j->lane, p->id, FB_DRAW_CUT) + 1) / 2 * u * (double)((p->k + 7) / 8);
    one.always = p->tf32;
    one.by_value = places ? of_both : pair ? 1 - of_all : 1;
    one.by_place = pair ? by_place : level;
    if (pair == ALL_ALIKE) go_to_one_side(j->lane, place_key, by_place);
    one.operand = sqrt((double)p->k);
    one.sum_key = fb_trial_key(p->e->s, j->lane, p->id, FB_DRAW_SUM);
    one.operand_key = fb_trial_key(p->e->s, j->lane, p->id, FB_DRAW_OPERAND);
    for (int64_t r = first; r < last; r++) {
        int64_t i = r / p->m, a_row = batch_at(p, p->a_step, i) * p->m + r % p->m;
        int64_t columns = batch_at(p, p->b_step, i) * p->n;
        one.a_norm = p->a_norm[a_row];
        one.a_root = p->a_roots[a_row];
        int64_t matrix = p->n ? columns / p->n : 0;
        bool peaks = has_peaks(p, a_row, matrix);
        int64_t place = places ? row_place(p, r) : 0;
        for (int64_t at = 0; at < p->n; at += FB_TRIAL_CHUNK) {
            int n = p->n - at < FB_TRIAL_CHUNK ? (int)(p->n - at) : FB_TRIAL_CHUNK;
            one.c = j->c + r * p->n + at;
            one.norm = p->b->norm + columns + at;
            one.root = p->b->root + columns + at;
            if (peaks) find_peaks(p, a_row, matrix, at, n, peak);
            one.peak = peaks ? peak : level;
            if (p->a_even[a_row]) find_even(p, a_row, p->b->even + columns + at, n, even);
            one.even = p->a_even[a_row] ? even : level;
            if (places) find_places(j->lane, place_key, place + at, exact + r * p->n + at, n, by_place);
            spreads |= p->k < 2 ? put_off_terms(&one, n, room) : put_off_sums(&one, n, room);
            if (random) put_off_operands(&one, n, room);
            spreads |= turn_zeros(&one, turned, n, room);
            if (!wide && p->k > 1)
                spreads |= lose_sums(p, &one, j->lane, a_row, matrix, at, exact + r * p->n + at, n, room);
            fb_trial_settle(p->e, p->id, j->lane, r * p->n + at, n, room);
        }
    }
    if ((spreads && !j->rounded) || p->tf32) atomic_store_explicit(&p->spreads, true, memory_order_relaxed);
}

/* tf32 keeps 10 bits after the point. Odd lanes cut off the rest, even ones round to nearest. */
FB_TRIAL_WIDE static void round_tf32(int64_t n, const double *from, bool cut, double *to)
{
    const uint64_t mask = (1ull << 42) - 1;
    for (int64_t k = 0; k < n; k++) {
        uint64_t bits;
        memcpy(&bits, &from[k], sizeof bits);
        bool special = (bits >> 52 & 0x7ff) == 0x7ff;
        if (!special) bits = (bits + (cut ? 0 : (mask >> 1) + (bits >> 42 & 1))) & ~mask;
        memcpy(&to[k], &bits, sizeof bits);
    }
}

static void settle_lane(product *p, int lane, const double *c)
{
    lane_job j = {.p = p, .lane = lane, .c = c, .rounded = p->a_lanes > 1 || p->b_lanes > 1};
    fb_trial_for(p->e, p->batch * p->m, 1 + 16384 / (p->n + 1), settle_rows, &j);
}

/* Lanes first, first + step … of exact operands rounded to tf32 in one way. */
static bool tf32_lanes(product *p, bool cut, fb_cells *c)
{
    fb_cells *room = fb_trial_cells(p->e, p->id, p->a_n + p->b_n);
    if (!room) return false;
    int lanes = p->e->s->lanes;
    bool differ = p->a_lanes > 1 || p->b_lanes > 1;
    for (int l = cut ? 1 : 2; l < lanes; l += 2) {
        if (differ || l <= 2) {
            round_tf32(p->a_n, p->left[p->a_lanes > 1 ? l : 0], cut, room->at.f);
            round_tf32(p->b_n, p->right[p->b_lanes > 1 ? l : 0], cut, room->at.f + p->a_n);
            multiply(p, 1, room->at.f, room->at.f + p->a_n, c->at.f);
        }
        settle_lane(p, l, c->at.f);
    }
    fb_trial_cells_drop(p->e, room);
    return true;
}

/* All lanes at once, or those that no reader has apart, where only the left operand's differ and one matrix is on the
 * right. */
static bool tall_product(const product *p)
{
    return p->a_lanes > 1 && p->b_lanes == 1 && p->batch == 1 && !p->tf32 && p->a_n > 0 &&
           p->left[1] == p->left[0] + p->a_n;
}

static bool run_lanes(product *p)
{
    int lanes = p->e->s->lanes;
    int64_t cells = p->batch * p->m * p->n;
    fb_trial_value *v = fb_trial_at(p->e, p->id);
    bool tall = tall_product(p), differ = p->a_lanes > 1 || p->b_lanes > 1;
    int together = !tall ? 0 : p->apart[0] ? FB_TRIAL_READ_FIRST : lanes;
    if (!differ && !p->tf32) { /* lanes of the same sums */
        multiply(p, 1, p->left[0], p->right[0], v->cells->at.f);
        for (int l = 1; l < v->lanes; l++) settle_lane(p, l, v->cells->at.f);
        return true;
    }
    fb_cells *c = fb_trial_cells(p->e, p->id, tall ? cells * lanes : cells);
    if (!c) return false;
    bool ok = true;
    if (tall) {
        multiply(p, together, p->left[0], p->right[0], c->at.f);
        memcpy(v->cells->at.f, c->at.f, (size_t)cells * sizeof(double));
    } else {
        multiply(p, 1, p->left[0], p->right[0], v->cells->at.f);
    }
    for (int l = 1; l < lanes && !p->tf32; l++) {
        double *to = c->at.f + (tall ? l * cells : 0);
        if (l >= together) multiply(p, 1, p->left[p->a_lanes > 1 ? l : 0], p->right[p->b_lanes > 1 ? l : 0], to);
        settle_lane(p, l, to);
    }
    if (p->tf32) ok = tf32_lanes(p, true, c) && tf32_lanes(p, false, c);
    fb_trial_cells_drop(p->e, c);
    return ok;
}

bool fb_trial_matmul(fb_trial_eval *e, fb_id id)
{
    product p = {.e = e, .id = id, .node = fb_trial_node(e, id)};
    fb_trial_value *v = fb_trial_at(e, id);
    bool ok = product_open(&p) && fb_trial_open(e, id, p.k ? e->s->lanes : 1);
    if (ok && p.k == 0) {
        memset(v->cells->at.f, 0, (size_t)v->n * sizeof(double));
    } else if (ok) {
        if (e->s->lanes > 1) measure_operands(&p); /* the exact lane has no errors */
        ok = read_apart(&p) && run_lanes(&p);
        if (ok && e->s->lanes > 1) find_alike(&p);
    }
    if (ok && p.k && p.a_lanes == 1 && p.b_lanes == 1 && !atomic_load(&p.spreads) &&
        fb_all_representable(p.node->dtype, v->n, v->cells->at.f))
        v->lanes = 1;
    for (int k = 0; k < 2; k++) fb_trial_cells_drop(e, p.held[k]), fb_trial_cells_drop(e, p.apart[k]);
    fb_free(p.a_norm);
    fb_free(p.a_roots);
    fb_free(p.a_parts);
    fb_free(p.a_even);
    fb_trial_free_columns(p.own);
    return ok;
}

/* ---- embedding ---- */

/* Rows of the table by index; out of range reads as 0. Rows of a leaf are read where they lie. */
static bool embedding(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    const fb_shape *shape = &fb_trial_node(e, node->args[0])->shape;
    const fb_trial_value *table = fb_trial_at(e, node->args[0]), *index = fb_trial_at(e, node->args[1]);
    fb_trial_value *v = fb_trial_at(e, id);
    fb_box index_box = {0}, row, rows;
    fb_trial_needs(e->s->g, node, 0, &v->box, &row);
    /* What others wanted of a leaf need not be what is read here. */
    rows = table->box;
    fb_box_join(&rows, &row, shape->rank);
    bool leaf =
        e->s->leaf[e->s->slot[node->args[0]]] && (!table->lanes || memcmp(&rows, &table->box, sizeof rows) != 0);
    int table_lanes = leaf ? 1 : table->lanes, index_rank = fb_trial_node(e, node->args[1])->shape.rank;
    if (!fb_trial_open(e, id, index->lanes > 1 || table_lanes > 1 ? e->s->lanes : 1)) return false;
    for (int d = 0; d < index_rank; d++) index_box.lo[d] = v->box.lo[d], index_box.hi[d] = v->box.hi[d];
    int64_t count = fb_box_cells(&index_box, index_rank), width = v->n / count;
    fb_cells *ids = fb_trial_cells(e, id, count);
    bool ok = ids != NULL;
    for (int l = 0; ok && l < v->lanes; l++) {
        fb_trial_take(ids->at.raw, fb_trial_raw(index, l), &index->box, &index_box, index_rank);
        for (int64_t k = 0; ok && k < count; k++) {
            uint64_t *to = v->cells->at.raw + l * v->n + k * width;
            row.lo[0] = ids->at.i[k];
            row.hi[0] = row.lo[0] + 1;
            if (row.lo[0] < 0 || row.lo[0] >= shape->dim[0])
                memset(to, 0, (size_t)width * sizeof *to);
            else if (leaf)
                ok = fb_trial_leaf(e, node->args[0], &row, to);
            else
                fb_trial_take(to, fb_trial_raw(table, l), &table->box, &row, shape->rank);
        }
    }
    fb_trial_cells_drop(e, ids);
    return ok;
}

/* ---- index_add ---- */

typedef struct {
    fb_trial_eval *e;
    fb_id id;
    const fb_node *node;
    const fb_trial_value *src, *index;
    int64_t rows, first, count, width;
    fb_cells *room; /* the source's part, one lane */
    fb_box box, index_box;
    bool spreads;
} scatter;

static const uint64_t *scatter_source(const scatter *s, int lane)
{
    const fb_shape *shape = &fb_trial_node(s->e, s->node->args[0])->shape;
    fb_trial_take(s->room->at.raw, fb_trial_raw(s->src, lane), &s->src->box, &s->box, shape->rank);
    return s->room->at.raw;
}

/* What is beside the sums of the exact lane: of each its terms' squares and magnitudes, and what the accumulator has in
 * their order, which is a kernel's too (see trial_reduce.c); of each row how many there are. */
typedef struct {
    double *squares, *magnitude, *serial, *terms;
    fb_trial_order *order;
} scatter_parts;

/* Sums of one lane, and the parts where they are wanted. */
static void scatter_lane(const scatter *s, int lane, double *sum, const scatter_parts *p)
{
    bool wide = s->node->dtype == FB_F64;
    const double *x = (const double *)scatter_source(s, lane);
    const int64_t *index = (const int64_t *)fb_trial_raw(s->index, lane);
    size_t cells = (size_t)(s->rows * s->width);
    memset(sum, 0, cells * sizeof *sum);
    for (int64_t k = 0; k < s->count; k++) {
        int64_t row = index[k] - s->first;
        if (row < 0 || row >= s->rows) continue;
        if (p) p->terms[row]++;
        for (int64_t d = 0; d < s->width; d++) {
            double term = x[k * s->width + d];
            int64_t at = row * s->width + d;
            sum[at] += term;
            if (!p) continue;
            p->serial[at] = fb_trial_accumulated(p->serial[at], term, wide);
            p->squares[at] += term * term;
            p->magnitude[at] += fabs(term);
            fb_trial_order_add(&p->order[at], term);
        }
    }
}

/* As for a product: all terms are nearly equal where the sum is as large as it can be. */
static double scatter_error(const scatter *s, int lowest, double sum, const scatter_parts *p, int64_t at)
{
    fb_dtype dtype = s->node->dtype;
    double squares = p->squares[at], magnitude = p->magnitude[at], terms = p->terms[at / s->width];
    if (terms < 2 || magnitude == 0) return 0;
    if (lowest > -1074 && magnitude <= ldexp(1, lowest + (dtype == FB_F64 ? 53 : 24))) return 0;
    double norm = sqrt(squares);
    bool equal = fabs(sum) > 0.99 * sqrt(terms) * norm;
    double least = isfinite(p->serial[at]) ? 2 * fabs(p->serial[at] - sum) : 0;
    return fmax(least, fb_trial_gamma(dtype, (int64_t)terms, equal ? terms * terms : terms) * fmax(fabs(sum), norm));
}

static bool scatter_floats(scatter *s)
{
    fb_trial_value *v = fb_trial_at(s->e, s->id);
    const int64_t of_order = sizeof(fb_trial_order) / sizeof(uint64_t), cells = (4 + of_order) * v->n + s->rows;
    fb_cells *room = fb_trial_cells(s->e, s->id, cells);
    if (!room) return false;
    memset(room->at.f, 0, (size_t)cells * sizeof(double));
    double *sum = room->at.f, *errors = sum + v->n, *terms = errors + 3 * v->n;
    const scatter_parts parts = {errors, errors + v->n, errors + 2 * v->n, terms, (fb_trial_order *)(terms + s->rows)};
    scatter_lane(s, 0, sum, &parts);
    memcpy(v->cells->at.f, sum, (size_t)v->n * sizeof *sum);
    int lowest = INT_MAX;
    for (int64_t k = 0; k < s->count * s->width; k++) {
        if (s->room->at.f[k] == 0) continue;
        int bit = fb_lowest_bit(s->room->at.f[k]);
        if (bit < lowest) lowest = bit;
    }
    bool moves = s->src->lanes > 1 || s->index->lanes > 1;
    for (int64_t k = 0; k < v->n; k++) {
        errors[k] = scatter_error(s, lowest, sum[k], &parts, k);
        s->spreads |= errors[k] != 0;
    }
    for (int l = 1; l < v->lanes; l++) {
        if (moves) scatter_lane(s, l, sum, NULL);
        double off[FB_TRIAL_CHUNK];
        for (int64_t at = 0; at < v->n; at += FB_TRIAL_CHUNK) {
            int n = v->n - at < FB_TRIAL_CHUNK ? (int)(v->n - at) : FB_TRIAL_CHUNK;
            for (int k = 0; k < n; k++) {
                double y = sum[at + k], size = isfinite(y) ? errors[at + k] : 0;
                off[k] = y + fb_trial_ordered_error(s->e->s, l, s->id, y, size, &parts.order[at + k]);
            }
            fb_trial_settle(s->e, s->id, l, at, n, off);
        }
    }
    fb_trial_cells_drop(s->e, room);
    if (!moves && !s->spreads && fb_all_representable(s->node->dtype, v->n, v->cells->at.f)) v->lanes = 1;
    return true;
}

static void scatter_integers(const scatter *s)
{
    fb_trial_value *v = fb_trial_at(s->e, s->id);
    for (int l = 0; l < v->lanes; l++) {
        const int64_t *x = (const int64_t *)scatter_source(s, l), *index = (const int64_t *)fb_trial_raw(s->index, l);
        int64_t *to = fb_trial_i(v, l);
        memset(to, 0, (size_t)v->n * sizeof *to);
        for (int64_t k = 0; k < s->count; k++) {
            int64_t row = index[k] - s->first;
            for (int64_t d = 0; row >= 0 && row < s->rows && d < s->width; d++) {
                int64_t *at = &to[row * s->width + d];
                *at = fb_int_wrap(s->node->dtype, fb_wrap_add(*at, x[k * s->width + d]));
            }
        }
    }
}

static bool index_add(fb_trial_eval *e, fb_id id)
{
    const fb_node *node = fb_trial_node(e, id);
    fb_trial_value *v = fb_trial_at(e, id);
    scatter s = {.e = e, .id = id, .node = node, .width = 1};
    s.src = fb_trial_at(e, node->args[0]);
    s.index = fb_trial_at(e, node->args[1]);
    bool is_float = fb_dtype_is_float(node->dtype), exact = s.src->lanes <= 1 && s.index->lanes <= 1;
    if (!fb_trial_open(e, id, exact && !is_float ? 1 : e->s->lanes)) return false;
    s.first = v->box.lo[0];
    s.rows = v->box.hi[0] - v->box.lo[0];
    s.width = v->n / s.rows;
    s.count = fb_shape_elements(&fb_trial_node(e, node->args[1])->shape);
    fb_trial_needs(e->s->g, node, 0, &v->box, &s.box);
    if (s.count == 0) {
        memset(v->cells->at.raw, 0, (size_t)v->n * sizeof(uint64_t));
        v->lanes = 1;
        return true;
    }
    s.room = fb_trial_cells(e, id, s.count * s.width);
    bool ok = s.room != NULL;
    if (ok && is_float)
        ok = scatter_floats(&s);
    else if (ok)
        scatter_integers(&s);
    fb_trial_cells_drop(e, s.room);
    return ok;
}

bool fb_trial_gather(fb_trial_eval *e, fb_id id)
{
    return fb_trial_node(e, id)->op == FB_OP_EMBEDDING ? embedding(e, id) : index_add(e, id);
}
