/* Between the bytes of a buffer and doubles, a dtype at a time. 16-bit floats are rounded to nearest, ties to even. */
#include "graph/element.h"

#include "graph/intmath.h"

#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A float that rounds to the same 16-bit value as the double does: truncated, with the last bit set when anything was
 * cut off (rounding to odd). Rounding a double to float and then to half to nearest twice would not be the same. */
static float to_odd(double x)
{
    float f = (float)x;
    if (!isfinite(f) || (double)f == x) return f;
    uint32_t bits = bits_of(f);
    if (fabs((double)f) > fabs(x)) bits--;
    return float_of(bits | 1);
}

static uint16_t bf16_of(double x)
{
    uint32_t bits = bits_of(to_odd(x));
    if (isnan(x)) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double bf16_value(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

static uint16_t f16_of(double x)
{
    uint32_t bits = bits_of(to_odd(x)), sign = bits >> 16 & 0x8000;
    float magnitude = fabsf(float_of(bits));
    if (isnan(x)) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 65520) return (uint16_t)(sign | 0x7c00);
    /* Below the smallest normal, adding 2^-1 puts the half's last bit at the float's last bit, and the FPU rounds. */
    if (magnitude < 0x1p-14f) return (uint16_t)(sign | (bits_of(magnitude + 0x1p-1f) - bits_of(0x1p-1f)));
    uint32_t m = bits_of(magnitude);
    m += 0xfff + (m >> 13 & 1);
    return (uint16_t)(sign | ((m >> 13) - ((127 - 15) << 10)));
}

static double f16_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) return float_of(sign | bits_of((float)fraction * 0x1p-24f));
    return float_of(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

void fb_elements_round(fb_dtype dtype, int64_t n, const double *from, double *to)
{
    switch (dtype) {
    case FB_F32:
        for (int64_t k = 0; k < n; k++) to[k] = (double)(float)from[k];
        break;
    case FB_F16:
        for (int64_t k = 0; k < n; k++) to[k] = f16_value(f16_of(from[k]));
        break;
    case FB_BF16:
        for (int64_t k = 0; k < n; k++) to[k] = bf16_value(bf16_of(from[k]));
        break;
    default:
        if (to != from) memcpy(to, from, (size_t)n * sizeof *to);
    }
}

void fb_elements_store(fb_dtype dtype, int64_t n, const double *from, void *to)
{
    switch (dtype) {
    case FB_F32:
        for (int64_t k = 0; k < n; k++) ((float *)to)[k] = (float)from[k];
        break;
    case FB_F16:
        for (int64_t k = 0; k < n; k++) ((uint16_t *)to)[k] = f16_of(from[k]);
        break;
    case FB_BF16:
        for (int64_t k = 0; k < n; k++) ((uint16_t *)to)[k] = bf16_of(from[k]);
        break;
    default: memcpy(to, from, (size_t)n * sizeof *from);
    }
}

/* A window of memory may begin at any byte. */
typedef struct __attribute__((packed)) {
    float value;
} any_f32;
typedef struct __attribute__((packed)) {
    uint16_t bits;
} any_u16;

void fb_elements_load(fb_dtype dtype, int64_t n, const void *from, double *to)
{
    switch (dtype) {
    case FB_F32:
        for (int64_t k = 0; k < n; k++) to[k] = ((const any_f32 *)from)[k].value;
        break;
    case FB_F16:
        for (int64_t k = 0; k < n; k++) to[k] = f16_value(((const any_u16 *)from)[k].bits);
        break;
    case FB_BF16:
        for (int64_t k = 0; k < n; k++) to[k] = bf16_value(((const any_u16 *)from)[k].bits);
        break;
    default: memcpy(to, from, (size_t)n * sizeof *to);
    }
}

void fb_elements_store_int(fb_dtype dtype, int64_t n, const int64_t *from, void *to)
{
    switch (dtype) {
    case FB_I32:
        for (int64_t k = 0; k < n; k++) ((int32_t *)to)[k] = (int32_t)fb_int_wrap(FB_I32, from[k]);
        break;
    case FB_BOOL:
        for (int64_t k = 0; k < n; k++) ((uint8_t *)to)[k] = from[k] != 0;
        break;
    default: memcpy(to, from, (size_t)n * sizeof *from);
    }
}

void fb_elements_load_int(fb_dtype dtype, int64_t n, const void *from, int64_t *to)
{
    switch (dtype) {
    case FB_I32:
        for (int64_t k = 0; k < n; k++) to[k] = ((const int32_t *)from)[k];
        break;
    case FB_BOOL:
        for (int64_t k = 0; k < n; k++) to[k] = ((const uint8_t *)from)[k] != 0;
        break;
    default: memcpy(to, from, (size_t)n * sizeof *to);
    }
}
