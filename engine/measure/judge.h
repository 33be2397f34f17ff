/* The judge: is a value what honest arithmetic may give? One judge for both scopes: the values that one kernel stored,
 * against trials from what that kernel was given, and the outputs of a whole graph against trials from its inputs.
 *
 * Trials (interp/trial.h) say for each element how far honest roundings went: its *spread*, the largest deviation of a
 * lane from the exact value. A tensor is right when
 *   - each element lies within FB_JUDGE_ELEMENT spreads of the exact value, where an element whose own spread is small
 * by chance is given what is usual around it (the ninth decile of its block's spreads, or of its spreads relative to
 * its values, whichever is less; but a step of its dtype at least, and FB_JUDGE_OWN_MOST of its own spreads at most:
 * chance makes a spread small, and not a hundredth, and rows may be most unlike; what a relu cuts off has any);
 * Of very many elements some are further off: where a sum goes through 16-bit values, five lanes or so draw what a
 * device may do, and that all of them are small by chance becomes rarer only with a low power. So a share of
 * FB_JUDGE_BEYOND may lie beyond, by FB_JUDGE_BEYOND_AT times at most; and in each tensor of FB_JUDGE_ONE_LEAST or more
 * one may, by FB_JUDGE_ONE_AT, for there are thousands of such tensors in a recording. They count as undecided;
 *   - half of the elements lie within FB_JUDGE_MEDIAN spreads, and all but FB_JUDGE_TAIL of them within
 *     FB_JUDGE_TAIL_AT, unless these have fewer than FB_JUDGE_TAIL_DISTINCT values: equal elements are one sample of
 *     roundings, however many they are;
 *   - in each region (all, first and last row and column, last tile, sixteen parts) the error has no component along
 *     the values, <e,r>/<r,r>, and no mean, beyond FB_JUDGE_REGION times the largest of any lane. A factor that is lost
 * in the rounding of each element is not lost in this. Where few elements of a region are rounded, ties above all, the
 *     errors of all lanes may cancel by chance: their spreads added as independent ones count too, by a quarter. Nor is
 *     a region held to less than its elements are: what roundings of each may be, added as independent ones. Of squares one
 *     may be most of the region, and its lanes all round it to one number by chance.
 *   - in each region the errors over the elements' own spreads (half a step of their dtype at least, and
 *     FB_JUDGE_ELEMENT of them at most) are FB_JUDGE_OWN or less on average. That is what finds a small tensor wrong of
 * which each element may be so: a right kernel's average is about 0.4, and was nowhere found above 1.
 * Of a value whose spread is 0 everywhere each bit must be right. Elements that honest roundings make NaN, infinite or
 * another integer are undecided: counted, and not judged. So are, in a tensor that may be off by half of its norm, the
 * elements that may be off by half of themselves.
 *
 * Of a very large tensor only samples have trials; all other elements are set against what is usual in these
 * (fb_judgement_add_usual). One that lies beyond is a suspect: c (2 c + 1) is rounded unlike the rest near c = -1/2, where
 * no sample may have been. Nothing is said of it before it has had trials of its own (judging.c).
 *
 * Where a right kernel and these figures meet by chance: of four million results of two products in bf16, with a
 * sigmoid behind them, eight lie beyond 8 spreads of their own and one beyond what is usual around it as well, by a
 * third; a region is beyond 10 times the largest of 8 lanes once in some ten million.
 */
#ifndef FB_MEASURE_JUDGE_H
#define FB_MEASURE_JUDGE_H

#include "base/vec.h"
#include "interp/trial.h"
#include "measure/report.h"

#define FB_JUDGE_ELEMENT 8.0
#define FB_JUDGE_USUAL   3.0
#define FB_JUDGE_MEDIAN  2.0
#define FB_JUDGE_TAIL    0.01
#define FB_JUDGE_TAIL_AT 4.0
enum { FB_JUDGE_TAIL_DISTINCT = 4 };
#define FB_JUDGE_REGION    10.0
#define FB_JUDGE_OWN       2.0
#define FB_JUDGE_OWN_LANE  4.0
#define FB_JUDGE_OWN_MOST  ((double)FB_TRIAL_CHANCE)
#define FB_JUDGE_BEYOND    1e-5
#define FB_JUDGE_BEYOND_AT 4.0
#define FB_JUDGE_ONE_AT    2.0
#define FB_JUDGE_ONE_LEAST 1024
#define FB_JUDGE_FEW       1e-3
#define FB_JUDGE_FEW_LEAST 3
#define FB_JUDGE_SMALL     8

enum { FB_JUDGE_REGIONS = 22, FB_JUDGE_BINS = 24, FB_JUDGE_SIZES = 256 };

/* Rows and columns of a tensor as the judge sees it: columns is the last dimension. */
typedef struct {
    int64_t elements, rows, columns;
    fb_dtype dtype;
} fb_judge_shape;
fb_judge_shape fb_judgement_shape_of(const fb_node *n);

/* What the lanes of a tensor's trials did, region by region. Sums: parts of a tensor are added up. */
typedef struct {
    double squares, sizes;                      /* Σr², Σ|r| of elements that are judged */
    double along[FB_TRIALS], offset[FB_TRIALS]; /* Σ(l - r)·r, Σ(l - r) of each lane */
    double own[FB_TRIALS];                      /* Σ|l - r| over the elements' own spreads */
    double along_squares, offset_squares;       /* Σ(s·r)², Σs² of the elements' spreads s */
    int64_t n;
} fb_region_spread;
typedef struct {
    fb_region_spread region[FB_JUDGE_REGIONS];
    int32_t absolute[FB_JUDGE_SIZES], relative[FB_JUDGE_SIZES]; /* elements by spread, and by spread over value */
    int64_t overflows; /* elements that are finite, and that some lane's dtype could not hold */
} fb_spread;

/* Adds a block of trials; spread[k] becomes that of element first + k (INFINITY: undecided), rounded up. */
void fb_spread_add(fb_spread *s, const fb_judge_shape *shape, const fb_trial_block *b, float *spread);
void fb_spread_join(fb_spread *to, const fb_spread *part);
/* The wider of two, of the same elements: `of` holds other lanes. `to` may be all zeros: no lanes yet. */
void fb_spread_widen(fb_spread *to, const fb_spread *of);
/* What all but a hundredth of the spreads do not exceed: of the spreads themselves, or of those over the values,
 * whichever are more alike. `relative` is 0 where the former are; else `absolute` is what a tenth of the spreads does
 * not exceed, for values near 0. Both 0: nothing was rounded. */
typedef struct {
    double absolute, relative;
} fb_usual_spread;
fb_usual_spread fb_spread_usual(const fb_spread *s);

/* One tensor under judgement: parts may be judged by several threads and joined. */
typedef struct {
    struct {
        double along, offset;
        double along_squares, offset_squares; /* Σ(a·r)², Σa² of what roundings of the elements may be, a */
        double own;                           /* Σ of errors over own spreads … */
        int64_t rounded;                      /* … of so many elements, which lanes move */
    } region[FB_JUDGE_REGIONS];
    int64_t bin[FB_JUDGE_BINS];          /* elements by error over spread; bin k: up to 2^((k - 15) / 2) */
    double tail[FB_JUDGE_TAIL_DISTINCT]; /* unlike values of those beyond FB_JUDGE_TAIL_AT … */
    int n_tail;                          /* … of which so many are there at least */
    int64_t compared, undecided, beyond; /* beyond: what is allowed, but not by much */
    int64_t off;                         /* … or by anything */
    int64_t drowned;                     /* may be off by half of themselves and more */
    double max_abs, largest, ratio;      /* ratio: the worst error over what is allowed */
    int64_t worst;                       /* element; -1: none */
    double got, expected, most;          /* most: the error that is allowed there */
    int64_t got_int, expected_int;
} fb_judgement;

void fb_judgement_clear(fb_judgement *j);
/* Elements first … first + n - 1: `exact` in v or i (the other NULL), their spread (NULL: zero), and what is to be
 * judged in the node's dtype. */
void fb_judgement_add(fb_judgement *j, const fb_judge_shape *shape, int64_t first, int64_t n, const double *v,
                      const int64_t *i, const float *spread, const void *got);
/* Elements that are beyond what is usual: `most` of all that were found, any of them, and how many more there were. */
typedef struct {
    FB_VEC(int64_t) at;
    int64_t most, more;
} fb_suspects;

/* The same of elements that had no trials. They count in no region. Suspects are added to the list, and not judged. */
void fb_judgement_add_usual(fb_judgement *j, const fb_judge_shape *shape, int64_t first, int64_t n, const double *v,
                            const fb_usual_spread *usual, const void *got, fb_suspects *suspects);
/* Element `at`, a suspect, by what its own trials allow (fb_judgement_allowed). */
void fb_judgement_add_suspect(fb_judgement *j, const fb_judge_shape *shape, int64_t at, double v, float allowed,
                              const void *got);
/* How far off each element may be; INFINITY: it is undecided. What is judged beside that (the median, the tail,
 * regions) is not told. Integers may be off by nothing. */
void fb_judgement_allowed(const fb_judge_shape *shape, int64_t n, const double *v, const float *spread, float *to);
void fb_judgement_join(fb_judgement *to, const fb_judgement *part);
/* The end: fills max_abs, max_rel, bound, undecided, compared, ok, worst of `out`. True where all that is wrong is few
 * elements, or all are one sample of roundings, or they are no floats, or all elements are few (a sum behind a softmax is
 * one number for its whole row): eight lanes may all lie near the exact one by chance, and these alone tell that from a
 * wrong kernel. */
bool fb_judgement_end(const fb_judgement *j, const fb_spread *s, const fb_judge_shape *shape, const fb_node *n,
                      fb_error_report *out);

#endif
