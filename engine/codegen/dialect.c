#include "codegen/dialect.h"

#include "base/embedded.h"
#include "codegen/emit_parts.h"
#include "codegen/program.h"

#include <string.h>

const fb_type_spelling fb_c_types[FB_DTYPES] = {
    [FB_F32] = {"float", "float", "$0", "$0"},
    [FB_F16] = {"float", "fb_f16", "fb_from_f16($0)", "fb_to_f16($0)"},
    [FB_BF16] = {"float", "fb_bf16", "fb_from_bf16($0)", "fb_to_bf16($0)"},
    [FB_F64] = {"double", "double", "$0", "$0"},
    [FB_I32] = {"int32_t", "int32_t", "$0", "$0"},
    [FB_I64] = {"int64_t", "int64_t", "$0", "$0"},
    [FB_BOOL] = {"bool", "uint8_t", "$0", "$0"},
};

static const fb_dialect *const dialects[] = {&fb_dialect_c, &fb_dialect_cuda};

const char *fb_dialect_name(const fb_dialect *d)
{
    return d->name;
}

const fb_dialect *fb_dialect_find(const char *name)
{
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
        if (strcmp(dialects[i]->name, name) == 0) return dialects[i];
    return NULL;
}

const char *fb_dialect_piece(const fb_dialect *d, fb_family family, int i)
{
    return i < FB_MAX_PIECES && d->pieces[family][i] ? fb_embedded(d->pieces[family][i]) : NULL;
}

const char *fb_kernel_piece(const fb_dialect *d, const fb_kernel *k, int i)
{
    const char *piece = fb_dialect_piece(d, k->family, i);
    if (piece || !d->extra.word || !k->source || !strstr(k->source, d->extra.word)) return piece;
    return i == 0 || fb_dialect_piece(d, k->family, i - 1) ? fb_embedded(d->extra.text) : NULL;
}

const char *fb_dialect_prelude(const fb_dialect *d)
{
    return fb_embedded(d->prelude);
}
