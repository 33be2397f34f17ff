/* What the benchmarks share: samples, and rows of one aligned table. Times are µs. */
#ifndef FB_TESTS_BENCH_H
#define FB_TESTS_BENCH_H

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "measure/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A benchmark that cannot go on says why and ends; make bench goes on with the next. */
static inline void bench_need(bool ok, const fb_error *err)
{
    if (ok) return;
    printf("  (not measured: %s)\n", err->text);
    exit(1);
}

/* `width` columns wide, to the right or, when negative, to the left; the text may be UTF-8. */
static inline void bench_cell(const char *text, int width)
{
    int shown = 0, room = width < 0 ? -width : width;
    for (const char *p = text; *p; p++) shown += (*p & 0xc0) != 0x80;
    int pad = room > shown ? room - shown : 0;
    printf("%*s%s%*s", width < 0 ? 0 : pad, "", text, width < 0 ? pad : 0, "");
}

enum { BENCH_NAME = -46, BENCH_FIGURE = 11, BENCH_COUNT = 6 };

static inline void bench_head(const char *title)
{
    printf("\n");
    bench_cell(title, BENCH_NAME);
    bench_cell("median", BENCH_FIGURE);
    bench_cell("p10", BENCH_FIGURE);
    bench_cell("p90", BENCH_FIGURE);
    bench_cell("n", BENCH_COUNT);
    printf("\n");
}

static inline void bench_row(const char *what, const fb_stat *s, const char *note)
{
    const double figure[] = {s->median, s->p10, s->p90};
    char text[32];
    printf("  ");
    bench_cell(what, BENCH_NAME + 2);
    for (int i = 0; i < 3; i++) {
        fb_format_us(text, s->n ? figure[i] : NAN);
        bench_cell(text, BENCH_FIGURE);
    }
    snprintf(text, sizeof text, "%d", s->n);
    bench_cell(text, BENCH_COUNT);
    printf("%s%s\n", note && note[0] ? "  " : "", note ? note : "");
    fflush(stdout);
}

static inline void bench_samples(const char *what, const double *us, int n, const char *note)
{
    fb_stat s = fb_stat_of(us, n);
    bench_row(what, &s, note);
}

#endif
