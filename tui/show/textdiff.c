/* The longest common subsequence of two texts' lines. Pure. */
#include "tui/show/textdiff.h"

#include "base/mem.h"

#include <stdint.h>
#include <string.h>

enum { MOST_CELLS = 16 << 20 };

typedef struct {
    fb_diff_line *at;
    int n;
} lines;

static void add(lines *l, char sign, const char *line)
{
    l->at[l->n++] = (fb_diff_line){sign, line};
}

/* length[i][j]: of the longest common subsequence of a[i…] and b[j…]. */
static void compare(lines *l, const char *const *a, int na, const char *const *b, int nb)
{
    size_t w = (size_t)nb + 1;
    if ((size_t)na * w > MOST_CELLS || na > UINT16_MAX || nb > UINT16_MAX) {
        for (int i = 0; i < na; i++) add(l, '-', a[i]);
        for (int j = 0; j < nb; j++) add(l, '+', b[j]);
        return;
    }
    uint16_t *length = fb_calloc(((size_t)na + 1) * w, sizeof *length);
    for (int i = na - 1; i >= 0; i--)
        for (int j = nb - 1; j >= 0; j--) {
            uint16_t down = length[(size_t)(i + 1) * w + (size_t)j], right = length[(size_t)i * w + (size_t)j + 1];
            length[(size_t)i * w + (size_t)j] = !strcmp(a[i], b[j])
                                                    ? (uint16_t)(length[(size_t)(i + 1) * w + (size_t)j + 1] + 1)
                                                : down > right ? down
                                                               : right;
        }
    int i = 0, j = 0;
    while (i < na || j < nb) {
        if (i < na && j < nb && !strcmp(a[i], b[j])) {
            add(l, ' ', a[i]);
            i++;
            j++;
        } else if (j == nb ||
                   (i < na && length[(size_t)(i + 1) * w + (size_t)j] >= length[(size_t)i * w + (size_t)j + 1])) {
            add(l, '-', a[i++]);
        } else {
            add(l, '+', b[j++]);
        }
    }
    fb_free(length);
}

int fb_show_text_diff(fb_arena *arena, const char *const *a, int na, const char *const *b, int nb, fb_diff_line **out)
{
    lines l = {FB_NEW_ARRAY(arena, fb_diff_line, na + nb + 1), 0};
    int head = 0, tail = 0;
    while (head < na && head < nb && !strcmp(a[head], b[head])) add(&l, ' ', a[head++]);
    while (tail < na - head && tail < nb - head && !strcmp(a[na - 1 - tail], b[nb - 1 - tail])) tail++;
    compare(&l, a + head, na - head - tail, b + head, nb - head - tail);
    for (int i = na - tail; i < na; i++) add(&l, ' ', a[i]);
    *out = l.at;
    return l.n;
}
