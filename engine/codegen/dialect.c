#include "codegen/dialect.h"

#include "base/embedded.h"
#include "codegen/emit_parts.h"

#include <string.h>

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

const char *fb_dialect_prelude(const fb_dialect *d)
{
    return fb_embedded(d->prelude);
}
