/* Which printer writes a target's language, and the texts that its kernels stand on. Needs a target that generates;
 * leaves embedded texts. */
#include "code/printer.h"

#include "base/embedded.h"
#include "code/emit_parts.h"
#include "code/program.h"

#include <string.h>

static const fb_printer *const printers[FB_LANGUAGES] = {
    [FB_LANGUAGE_C] = &fb_printer_c,
    [FB_LANGUAGE_CUDA] = &fb_printer_cuda,
};

const fb_printer *fb_printer_of(const fb_target *t)
{
    FB_ASSERT(printers[t->language]);
    return printers[t->language];
}

const char *fb_printer_piece(const fb_target *t, fb_family family, int i)
{
    const char *const *pieces = fb_printer_of(t)->pieces[family];
    return i < FB_MAX_PIECES && pieces[i] ? fb_embedded(pieces[i]) : NULL;
}

const char *fb_kernel_piece(const fb_target *t, const fb_kernel *k, int i)
{
    const fb_printer *p = fb_printer_of(t);
    int pieces = 0;
    while (fb_printer_piece(t, k->family, pieces)) pieces++;
    if (i < pieces) return fb_printer_piece(t, k->family, i);
    for (int x = 0; x < FB_MAX_EXTRAS; x++)
        if (p->extra[x].word && k->source && strstr(k->source, p->extra[x].word) && i-- == pieces)
            return fb_embedded(p->extra[x].text);
    return NULL;
}

const char *fb_printer_prelude(const fb_target *t)
{
    return fb_embedded(fb_printer_of(t)->prelude);
}
