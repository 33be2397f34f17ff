/* Finds what differs between two variants or plans, and lays it out as two columns of text. */
#include "tui/view/puzzle_code.h"

#include "base/mem.h"
#include "base/vec.h"
#include "session/library.h"
#include "session/names.h"
#include "tui/show/letters.h"
#include "tui/term/draw.h"

#include <ctype.h>
#include <string.h>

/* ---- the script's own text ------------------------------------------------------------------------------------------
 */

static const char *skip_lines(const char *text, int n)
{
    for (; n > 0 && *text; n--) text += strcspn(text, "\n") + (strchr(text, '\n') != NULL);
    return text;
}

static size_t indent_of(const char *line)
{
    return strspn(line, " \t");
}

/* Those lines, as far to the left as they can go. */
static char *lines_of(const char *text, fb_script_lines lines)
{
    fb_str out = {0};
    if (!text || !lines.first) return NULL;
    const char *first = skip_lines(text, lines.first - 1), *end = skip_lines(first, lines.last - lines.first + 1);
    size_t least = indent_of(first);
    for (const char *at = first; at < end; at = skip_lines(at, 1))
        if (at[indent_of(at)] != '\n' && indent_of(at) < least) least = indent_of(at);
    for (const char *at = first; at < end; at = skip_lines(at, 1)) {
        size_t n = strcspn(at, "\n"), cut = indent_of(at) < least ? indent_of(at) : least;
        fb_str_add_n(&out, at + cut, n - cut);
        fb_str_add(&out, "\n");
    }
    return fb_str_take(&out);
}

static int index_of(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (name && !strcmp(names[i], name)) return i;
    return FB_NONE;
}

static char *variant_text(const fb_script_info *info, const char *text, const char *variant)
{
    int at = variant ? index_of(info->variants, info->n_variants, variant) : 0;
    return at == FB_NONE ? NULL : lines_of(text, info->variant_lines[at]);
}

static char *plan_text(const fb_script_info *info, const char *text, const char *plan)
{
    const fb_preset *preset = fb_preset_find(plan);
    int at = index_of(info->plans, info->n_plans, plan);
    fb_str out = {0};
    if (at != FB_NONE) return lines_of(text, info->plan_lines[at]);
    if (!preset) return NULL;
    fb_str_addf(&out, "preset %s: %s\n", plan, preset->summary);
    return fb_str_take(&out);
}

void fb_puzzle_code_read(fb_puzzle_code *c, const fb_session *s, char *const spec[2])
{
    const fb_script_info *info = fb_session_script(s);
    fb_column_spec of[2] = {0};
    fb_puzzle_code_free(c);
    if (!info || !spec[0] || !spec[1]) return;
    char *text = fb_session_script_text(fb_session_path(s));
    if (text && fb_column_spec_parse(spec[0], &of[0], NULL) && fb_column_spec_parse(spec[1], &of[1], NULL)) {
        const char *a = of[0].variant ? of[0].variant : "", *b = of[1].variant ? of[1].variant : "";
        bool same = !strcmp(a, b);
        if (same) c->both = variant_text(info, text, of[0].variant);
        for (int i = 0; i < 2; i++)
            c->side[i] = same ? plan_text(info, text, of[i].plan) : variant_text(info, text, of[i].variant);
    }
    for (int i = 0; i < 2; i++) fb_column_spec_free(&of[i]);
    fb_free(text);
}

void fb_puzzle_code_free(fb_puzzle_code *c)
{
    fb_free(c->both);
    for (int i = 0; i < 2; i++) fb_free(c->side[i]);
    *c = (fb_puzzle_code){0};
}

/* ---- kernels --------------------------------------------------------------------------------------------------------
 */

void fb_puzzle_kernels(const fb_column *c, fb_str *out)
{
    enum { LINES = 6, MOST = 256 };
    FB_VEC(char *) titles = {0};
    int count[LINES + 1] = {0}, n = c && c->plan ? fb_plan_groups(c->plan) : 0, others = 0;
    if (n) fb_str_addf(out, "%d kernel%s:\n", n, n == 1 ? "" : "s");
    for (int g = 0; g < n; g++) {
        fb_str title = {0};
        int i = 0;
        if (g < MOST) fb_show_group_title(c->plan, g, &title);
        while (i < titles.n && strcmp(titles.at[i], fb_str_get(&title)) != 0) i++;
        bool full = g >= MOST || i >= LINES;
        others += full;
        if (!full) count[i]++;
        if (full || i < titles.n)
            fb_str_free(&title);
        else
            FB_VEC_PUSH(&titles, fb_str_take(&title));
    }
    for (int i = 0; i < titles.n; i++) {
        if (count[i] > 1)
            fb_str_addf(out, "  %d × %s\n", count[i], titles.at[i]);
        else
            fb_str_addf(out, "  %s\n", titles.at[i]);
        fb_free(titles.at[i]);
    }
    if (others) fb_str_addf(out, "  and %d more\n", others);
    FB_VEC_FREE(&titles);
}

/* ---- lines ----------------------------------------------------------------------------------------------------------
 */

/* Bytes of the line's start that fit, to the end of a word where there is one. */
static size_t fitting(const char *text, size_t n, int width)
{
    size_t fits = 0, word = 0;
    char part[8];
    for (int cells = 0; fits < n;) {
        size_t bytes = 1;
        while (fits + bytes < n && bytes < 4 && ((unsigned char)text[fits + bytes] & 0xc0) == 0x80) bytes++;
        snprintf(part, sizeof part, "%.*s", (int)bytes, text + fits);
        cells += fb_draw_text_width(part);
        if (cells > width) return word > indent_of(text) ? word : fits ? fits : bytes;
        fits += bytes;
        if (strchr(" ,(", text[fits - 1])) word = fits;
    }
    return n;
}

const char *fb_puzzle_wrap_code(const char *text, int width, int *in, fb_str *to)
{
    enum { FURTHER = 4 };
    size_t n = strcspn(text, "\n"), fits = fitting(text, n, width - *in);
    int further = *in ? *in : (int)indent_of(text) + FURTHER;
    fb_str_clear(to);
    fb_str_addf(to, "%*s%.*s", *in, "", (int)fits, text);
    *in = fits < n ? further < width / 2 ? further : FURTHER : 0;
    const char *rest = text + fits + (fits == n && text[n] == '\n');
    return *rest ? rest : NULL;
}
