/* The presets of presets.def by name, and what is written behind a name in brackets. A preset decides on a decider, which
 * keeps the record and knows what the user refused.
 */
#include "decide/preset.h"

#include "decide/decide.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static void score_buffers(double score, fb_str *out)
{
    fb_str_addf(out, "%.0f buffer%s", score, score == 1 ? "" : "s");
}

static void score_us(double score, fb_str *out)
{
    char text[32];
    if (score < 0) fb_str_add(out, "-");
    fb_str_add(out, fb_format_us(text, fabs(score)));
}

static void score_bytes(double score, fb_str *out)
{
    char text[32];
    fb_str_add(out, fb_format_bytes(text, score));
}

static fb_plan *decided(fb_plan *(*run)(fb_decider *d), fb_planner *p, const fb_preset_use *use, fb_steps *log)
{
    fb_decider d = {.planner = p, .log = log, .use = use};
    fb_plan *plan = run(&d);
    FB_VEC_FREE(&d.taken);
    FB_VEC_FREE(&d.declined);
    return plan;
}

#define PRESET(name, summary, score, write)                                                                            \
    static fb_plan *make_##name(fb_planner *p, fb_error *err)                                                          \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return decided(fb_##name##_plan, p, NULL, NULL);                                                               \
    }
#define BESIDE PRESET
#include "decide/presets.def"
#undef PRESET

#define PRESET(name, summary, score, write) {#name, summary, make_##name},
static const fb_preset table[] = {
#include "decide/presets.def"
};
#undef PRESET

#define PRESET(name, summary, score, write) {fb_##name##_plan, score, write},
static const struct {
    fb_plan *(*run)(fb_decider *d);
    const char *score_name;
    void (*score)(double score, fb_str *out);
} inside[] = {
#include "decide/presets.def"
};
#undef PRESET
#undef BESIDE

#define PRESET(...) +1
#define BESIDE(...)
enum {
    ALL = sizeof table / sizeof *table,
    LISTED = 0
#include "decide/presets.def"
};
#undef PRESET
#undef BESIDE

const char *const fb_presets_usual[FB_PRESETS_USUAL] = {"eager", "auto"};
const char *const fb_preset_recommended = "auto";

int fb_presets(void)
{
    return LISTED;
}

int fb_presets_all(void)
{
    return ALL;
}

const fb_preset *fb_preset_at(int i)
{
    return i >= 0 && i < ALL ? &table[i] : NULL;
}

const fb_preset *fb_preset_find(const char *name)
{
    for (int i = 0; i < ALL; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

/* ---- some decisions alone ---- */

static bool number(const char **at, int *out)
{
    if (!isdigit((unsigned char)**at)) return false;
    long long n = 0;
    for (; isdigit((unsigned char)**at) && n < INT_MAX; ++*at) n = 10 * n + (**at - '0');
    *out = n < INT_MAX ? (int)n : INT_MAX;
    return true;
}

/* "[no5,no9:12]" */
static bool parse_part(const char *at, fb_preset_use *out)
{
    at++;
    while (strncmp(at, "no", 2) == 0) {
        int k;
        at += 2;
        if (!number(&at, &k) || out->n_no == FB_PRESET_REFUSALS) return false;
        if (k < 1 || (out->n_no && k <= out->no[out->n_no - 1])) return false;
        out->no[out->n_no++] = k;
        if (*at == ',' && strncmp(at + 1, "no", 2) == 0) at++;
    }
    if (*at == ':') {
        at++;
        if (!number(&at, &out->limit)) return false;
    }
    return strcmp(at, "]") == 0 && (out->n_no || out->limit >= 0);
}

bool fb_preset_parse(const char *text, fb_preset_use *out, fb_error *err)
{
    const char *part = strchr(text, '[');
    size_t n = part ? (size_t)(part - text) : strlen(text);
    *out = (fb_preset_use){.limit = -1};
    for (int i = 0; i < ALL; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, text, n) == 0) out->preset = &table[i];
    if (!out->preset) return false;
    if (!part || parse_part(part, out)) return true;
    return fb_fail(
        err, FB_ERR_USAGE,
        "\"%.80s\": the decisions of a preset are chosen as %s[:12] (the first 12), %s[no5] (refuse the 5th) "
        "or %s[no5,no9:12], with at most %d refusals in ascending order",
        text, out->preset->name, out->preset->name, out->preset->name, FB_PRESET_REFUSALS);
}

void fb_preset_write(const fb_preset_use *use, fb_str *out)
{
    fb_str_add(out, use->preset->name);
    if (!use->n_no && use->limit < 0) return;
    fb_str_add(out, "[");
    for (int i = 0; i < use->n_no; i++) fb_str_addf(out, "%sno%d", i ? "," : "", use->no[i]);
    if (use->limit >= 0) fb_str_addf(out, ":%d", use->limit);
    fb_str_add(out, "]");
}

fb_plan *fb_preset_make(const fb_preset_use *use, fb_planner *p, fb_steps **steps, fb_error *err)
{
    (void)err;
    int i = (int)(use->preset - table);
    bool withdrawn =
        inside[i].score == score_us && fb_planner_machine(p)->doubted; /* times that nothing stands behind */
    fb_steps *log = !steps      ? NULL
                    : withdrawn ? fb_steps_new(use->preset->name, "", NULL)
                                : fb_steps_new(use->preset->name, inside[i].score_name, inside[i].score);
    if (steps) *steps = log;
    return decided(inside[i].run, p, use, log);
}
