/* Reads a file of keys and plays it when it is time: after a pause, or when nothing is being measured. */
#include "tui/view/keys.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/vec.h"
#include "tui/view/command.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20, IDLE = -1 };

typedef struct {
    int key;  /* FB_KEY_NONE: a wait */
    int wait; /* milliseconds, IDLE */
} step;

struct fb_keys {
    FB_VEC(step) steps;
    int at;
    int64_t until; /* of the wait that runs; 0: none */
};

static const char *read_quoted(fb_keys *k, const char *p)
{
    for (; *p && *p != '"' && *p != '\n'; p++) {
        if (*p == '\\' && p[1] && p[1] != '\n') p++;
        FB_VEC_PUSH(&k->steps, (step){(unsigned char)*p, 0});
    }
    return *p == '"' ? p + 1 : NULL;
}

static bool read_word(fb_keys *k, const char *word, size_t n)
{
    if (n > 1 && *word == '@') {
        bool idle = n == 5 && !strncmp(word, "@idle", 5);
        if (!idle && !isdigit((unsigned char)word[1])) return false;
        FB_VEC_PUSH(&k->steps, (step){FB_KEY_NONE, idle ? IDLE : atoi(word + 1)});
        return true;
    }
    int key = fb_key_parse(word, n);
    if (key == FB_KEY_NONE) return false;
    FB_VEC_PUSH(&k->steps, (step){key, 0});
    return true;
}

fb_keys *fb_keys_parse(const char *text, const char *path, fb_error *err)
{
    fb_keys *k = fb_calloc(1, sizeof *k);
    int line = 1;
    bool good = true;
    for (const char *p = text; good && *p;) {
        if (*p == '\n') line++;
        if (isspace((unsigned char)*p)) {
            p++;
        } else if (*p == '#') {
            p += strcspn(p, "\n");
        } else if (*p == '"') {
            p = read_quoted(k, p + 1);
            good = p || fb_fail(err, FB_ERR_INPUT, "%s:%d: the quotes are not closed", path, line);
        } else {
            size_t n = strcspn(p, " \t\r\n");
            good = read_word(k, p, n) || fb_fail(err, FB_ERR_INPUT, "%s:%d: no key \"%.*s\"", path, line, (int)n, p);
            p += n;
        }
    }
    if (good) return k;
    fb_keys_free(k);
    return NULL;
}

fb_keys *fb_keys_read(const char *path, fb_error *err)
{
    size_t size;
    char *text = fb_read_file(path, MOST_BYTES, &size, err);
    fb_keys *k = text ? fb_keys_parse(text, path, err) : NULL;
    fb_free(text);
    return k;
}

void fb_keys_free(fb_keys *k)
{
    if (!k) return;
    FB_VEC_FREE(&k->steps);
    fb_free(k);
}

int fb_keys_next(fb_keys *k, bool idle, int *wait_ms, bool *ended)
{
    *wait_ms = 0;
    *ended = k->at == k->steps.n;
    if (*ended) return FB_KEY_NONE;
    const step *s = &k->steps.at[k->at];
    if (s->key == FB_KEY_NONE) {
        int64_t now = fb_now_ns() / 1000000;
        if (!k->until && s->wait >= 0) k->until = now + s->wait;
        bool over = s->wait == IDLE ? idle : now >= k->until;
        if (!over) {
            *wait_ms = s->wait == IDLE ? -1 : (int)(k->until - now);
            return FB_KEY_NONE;
        }
        k->until = 0;
    }
    k->at++;
    return s->key;
}
