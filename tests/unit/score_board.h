/* The score's board, shared by the processes that fill it, and its table. */
#ifndef TESTS_UNIT_SCORE_BOARD_H
#define TESTS_UNIT_SCORE_BOARD_H

#include "base/mem.h"
#include "base/vec.h"
#include "unit/score_mutate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    DTYPES = 3,
    TARGETS = 2,
    FAMILIES = FB_FAMILIES + 1, /* the last: programs */
};

static const char *const dtype_names[] = {"f32", "bf16", "f16"};
static const char *const target_names[] = {"c", "cuda"};

/* ---- the board, shared by all processes ---- */

typedef struct {
    int64_t count, caught, crashed, below;
} cell;

typedef struct {
    cell cells[MUTATION_KINDS][FAMILIES][DTYPES][TARGETS];
    int64_t kernels, plans, accused;
} score_board;

static score_board *board;
static FILE *findings; /* one a line, appended to by each process */

static inline void *shared_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

__attribute__((format(printf, 1, 2))) static void find(const char *format, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line - 1, format, ap);
    va_end(ap);
    if (n > (int)sizeof line - 2) n = sizeof line - 2;
    line[n++] = '\n';
    fwrite(line, 1, (size_t)n, findings);
    fflush(findings);
}

static inline void print_cell(const char *kind, const char *family, const char *dtype, const char *target,
                              const cell *c)
{
    char share[16] = "     –";
    if (c->count) snprintf(share, sizeof share, "%6.2f", 100.0 * (double)c->caught / (double)c->count);
    print_message("# %-24s %-10s %-5s %-5s %7lld %7lld %s %% %8lld %8lld\n", kind, family, dtype, target,
                  (long long)c->count, (long long)c->caught, share, (long long)c->crashed, (long long)c->below);
}

static inline void add_cell(cell *to, const cell *c)
{
    to->count += c->count;
    to->caught += c->caught;
    to->crashed += c->crashed;
    to->below += c->below;
}

/* The chance of so many misses or more among those that count, where one in fifty is missed. */
static inline double chance_of(const cell *c)
{
    int64_t missed = c->count - c->caught;
    double rest = 1, one = pow(0.98, (double)c->count);
    for (int64_t k = 0; k < missed; k++) {
        rest -= one;
        one *= (double)(c->count - k) / (double)(k + 1) * (0.02 / 0.98);
    }
    return rest;
}

/* Is it shown that less than 98 % of a cell's mutants are caught? Of all there are, the share itself says so. Of a
 * sample it is shown where so many misses are unlikely even at 98 %: one of 20 is no more than chance, though 95 %; 7
 * of 66 are not. With some 200 cells at 98 %, each no better, one seed in six would fail for nothing; at the 99.9 %
 * that they have none does. */
static inline bool is_too_low(const cell *c, bool full)
{
    enum { LEAST = 50 };
    if (full) return c->count >= LEAST && 100 * c->caught < 98 * c->count;
    return c->caught < c->count && chance_of(c) < 1e-3;
}

/* Prints the table; the number of cells, and of mutations over all cells, that are under what they must be. */
static inline int print_board(cell *all, bool full)
{
    int bad = 0;
    print_message("# %-24s %-10s %-5s %-5s %7s %7s %8s %8s %8s\n", "mutation", "family", "dtype", "text", "count",
                  "caught", "share", "crashed", "below");
    for (int k = 0; k < MUTATION_KINDS; k++) {
        cell sum = {0};
        for (int f = 0; f < FAMILIES; f++)
            for (int d = 0; d < DTYPES; d++)
                for (int t = 0; t < TARGETS; t++) {
                    const cell *c = &board->cells[k][f][d][t];
                    if (!c->count && !c->crashed && !c->below) continue;
                    print_cell(mutation_names[k], f < FB_FAMILIES ? fb_family_name((fb_family)f) : "program",
                               dtype_names[d], target_names[t], c);
                    bad += is_too_low(c, full);
                    add_cell(&sum, c);
                }
        if (sum.count + sum.below) print_cell(mutation_names[k], "all", "", "", &sum);
        bad += is_too_low(&sum, full);
        add_cell(all, &sum);
    }
    print_cell("all", "", "", "", all);
    return bad;
}

static inline int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void print_findings(void)
{
    FB_VEC(char *) lines = {0};
    char line[1200];
    rewind(findings);
    while (fgets(line, sizeof line, findings)) FB_VEC_PUSH(&lines, fb_strdup(line));
    if (lines.n) qsort(lines.at, (size_t)lines.n, sizeof *lines.at, by_text);
    for (int i = 0; i < lines.n; i++) {
        print_message("# %s", lines.at[i]);
        fb_free(lines.at[i]);
    }
    FB_VEC_FREE(&lines);
}

#endif
