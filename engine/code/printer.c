/* Which printer writes a target's language, and the texts that its kernels stand on. Needs a target that generates;
 * leaves embedded texts. */
#include "code/printer.h"

#include "base/embedded.h"
#include "code/emit_parts.h"
#include "code/program.h"

#include <stdlib.h>
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

const char *fb_program_kernel_piece(const fb_target *t, const fb_kernel *k, int i)
{
    const fb_printer *p = fb_printer_of(t);
    int pieces = 0;
    while (fb_printer_piece(t, k->family, pieces)) pieces++;
    if (i < pieces) return fb_printer_piece(t, k->family, i);
    for (int x = 0; x < FB_TEXTS; x++)
        if (k->needs.texts >> x & 1 && i-- == pieces) return fb_embedded(p->texts[x].key);
    return NULL;
}

static int64_t own_block_bytes(const char *own)
{
    static const char ask[] = "fb_block_new(";
    int64_t all = 0;
    for (const char *at = own; (at = strstr(at, ask));) {
        char *end;
        at += sizeof ask - 1;
        int64_t n = strtoll(at, &end, 10);
        size_t size = strstr(end, "double") == end + strlen(" * sizeof(") ? sizeof(double) : sizeof(float);
        all += fb_needs_block(n, *end == ')' ? 1 : size);
    }
    return all;
}

void fb_printer_own_needs(const fb_target *t, const char *own, fb_needs *needs)
{
    const fb_printer *p = fb_printer_of(t);
    needs->texts = 0;
    for (int x = 0; x < FB_TEXTS; x++)
        if (p->texts[x].word && strstr(own, p->texts[x].word)) fb_needs_text(needs, x);
    needs->warpgroups = needs->texts >> FB_TEXT_WGMMA & 1 || strstr(own, "wgmma.mma_async");
    needs->block_bytes = own_block_bytes(own);
}

const char *fb_printer_prelude(const fb_target *t)
{
    return fb_embedded(t->prelude);
}
