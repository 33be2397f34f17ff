/* ---- the same for every export ---- */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* test/data.bin, for each tensor in order: its bytes, if it is given; and if it is checked, of each element what is
 * expected (double) and how far off it may be (float, infinite where rounding decides). */
static FILE *data;

static void need(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "not ok: %s\n", what);
    exit(1);
}

static void *read_all(size_t bytes)
{
    void *to = malloc(bytes + 1);
    need(to && fread(to, 1, bytes, data) == bytes, "test/data.bin is too short");
    return to;
}

static float from_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, rest = h & 1023, u;
    float f;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * ldexpf((float)rest, -24);
    u = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | rest << 13;
    memcpy(&f, &u, sizeof f);
    return f;
}

static double value_at(const tensor *t, const void *bytes, int64_t i)
{
    uint32_t u;
    float f;
    switch (t->type) {
    case 'f': return ((const float *)bytes)[i];
    case 'd': return ((const double *)bytes)[i];
    case 'h': return from_half(((const uint16_t *)bytes)[i]);
    case 'b':
        u = (uint32_t)((const uint16_t *)bytes)[i] << 16;
        memcpy(&f, &u, sizeof f);
        return f;
    case 'i': return ((const int32_t *)bytes)[i];
    case 'l': return (double)((const int64_t *)bytes)[i];
    default: return ((const uint8_t *)bytes)[i];
    }
}

/* Each element within what it is allowed; and where there are many, half of them within a third of that and all but a
 * hundredth within two thirds: an error that each element's rounding hides is not hidden in all. */
static bool compare(const tensor *t, const void *got, double *worst)
{
    int64_t beyond_third = 0, beyond_most = 0, judged = 0, wrong = 0;
    for (int64_t i = 0; i < t->elements; i++) {
        double x = value_at(t, got, i), r = t->expected[i], most = t->allowed[i];
        if (isinf(most) || x == r || (isnan(x) && isnan(r))) {
            judged += most > 0 && !isinf(most);
            continue;
        }
        double off = fabs(x - r), ratio = isfinite(off) && most > 0 ? off / most : INFINITY;
        judged += most > 0;
        beyond_third += ratio > 0.34;
        beyond_most += ratio > 0.67;
        if (ratio > *worst) *worst = ratio;
        if (ratio <= 1) continue;
        if (!wrong++)
            fprintf(stderr, "not ok: %s[%lld] is %.9g, expected %.9g within %.3g\n", t->name, (long long)i, x, r, most);
    }
    if (wrong) return false;
    if (judged >= 64 && (2 * beyond_third > judged || 100 * beyond_most > judged)) {
        fprintf(stderr, "not ok: %s is off by more than roundings are, in too many of its elements\n", t->name);
        return false;
    }
    return true;
}
