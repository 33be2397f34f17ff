/* Splits the difference of two reports into parts by the rule in why.h. Pure: needs the two columns with their plans
 * and machines, and asks no device. */
#include "measure/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this share of the device's threads, loads in flight no longer cover the latency of memory on current GPUs. */
static const double low_occupancy = 0.25;

/* What a part's sentence says after "A's µs → B's µs". */
static const struct {
    const char *name, *what;
} parts[FB_WHY_PARTS] = {
    [FB_WHY_DISPATCH] = {"dispatch", "in the framework, beyond what its launches cost"},
    [FB_WHY_LAUNCHES] = {"launches", "launching and waiting"},
    [FB_WHY_COPIES] = {"copies", "of feeds and receives that no kernel ran beside"},
    [FB_WHY_BYTES] = {"bytes", "at the full copy rate"},
    [FB_WHY_COMPUTE] = {"compute", "of arithmetic beyond what moving the bytes takes"},
    [FB_WHY_OCCUPANCY] = {"occupancy", "because kernels are too small, or hold too few threads, to fill the device"},
    [FB_WHY_SPILLS] = {"spills", "in kernels that spill registers, beyond bytes and arithmetic"},
    [FB_WHY_REST] = {"rest", "not explained"},
};

const char *fb_why_name(fb_why_id id)
{
    return parts[id].name;
}

bool fb_why_matters(const fb_why *why, fb_why_id id)
{
    const fb_why_part *p = &why->part[id];
    return p->amounts || (isfinite(p->of[0]) && p->of[0] != 0) || (isfinite(p->of[1]) && p->of[1] != 0);
}

/* ---- one kernel ---------------------------------------------------------------------------------------------------
 */

/* A kernel's time by part; of the parts, those from BYTES on are used. */
typedef struct {
    const char *name;
    double us[FB_WHY_PARTS];
} kernel_split;

typedef struct {
    const fb_report *r;
    double us[FB_WHY_PARTS];
    bool known[FB_WHY_PARTS], measured[FB_WHY_PARTS];
    double moved, apart; /* bytes */
    bool counted;        /* … some of them by the device's counters */
    FB_VEC(kernel_split) kernels;
    bool above_wall;  /* its kernels' time: what lies between them cannot be told */
    bool doubted;     /* the calibration: no time is modelled, what is counted stays */
    bool tells_bytes; /* of all kernels */
} column_split;

static double take(double *left, double wanted)
{
    double got = fmin(*left, fmax(0, wanted));
    *left -= got;
    return got;
}

/* The bytes the time is set against: distinct ones, or more where counters saw more. NAN when neither is known. */
static double bytes_of(const fb_kernel_report *k, bool *counted)
{
    double modelled = k->bytes_read + k->bytes_written, measured = k->measured_read + k->measured_written;
    *counted = isfinite(measured) && !(modelled > measured);
    return *counted ? measured : modelled;
}

/* In the order that the header gives; what is not known is no time, and said in c->known. */
static void split_kernel(const fb_kernel_report *k, const fb_machine *m, column_split *c)
{
    kernel_split s = {.name = k->name ? k->name : "?"};
    bool timed = k->device_us.n > 0, counted;
    double left = timed ? k->device_us.median : INFINITY, n = k->count > 0 ? (double)k->count : 1;
    double bytes = bytes_of(k, &counted), modelled = k->bytes_read + k->bytes_written;
    double apart = k->apart_us > 0 ? k->apart_us : 0;
    if (!isfinite(bytes) || m->doubted) {
        c->known[FB_WHY_BYTES] = c->known[FB_WHY_OCCUPANCY] = c->known[FB_WHY_COMPUTE] = false;
    } else {
        double full = n * fb_memory_us(m, bytes / n), filled = n * fb_memory_filled_us(m, bytes / n);
        s.us[FB_WHY_BYTES] = take(&left, filled);
        s.us[FB_WHY_BYTES] += take(&left, apart);
        s.us[FB_WHY_OCCUPANCY] = take(&left, full - filled);
    }
    c->tells_bytes &= isfinite(bytes);
    if (isfinite(bytes)) { /* bytes are no matter of calibration */
        c->moved += bytes;
        c->apart += apart > 0 ? k->apart_bytes : 0;
        c->measured[FB_WHY_BYTES] &= counted;
        c->counted |= counted;
    }
    double few = k->few_us > 0 ? k->few_us : 0;
    double work = m->doubted ? NAN : k->predicted_us - apart - few - n * fb_memory_us(m, modelled / n);
    if (isfinite(work))
        s.us[FB_WHY_COMPUTE] = take(&left, work);
    else
        c->known[FB_WHY_COMPUTE] = false;
    c->known[FB_WHY_SPILLS] |= k->spill_bytes >= 0;
    if (timed && c->known[FB_WHY_BYTES] && c->known[FB_WHY_COMPUTE]) {
        if (k->spill_bytes > 0)
            s.us[FB_WHY_SPILLS] = take(&left, left);
        else if (k->occupancy < low_occupancy) /* never where it is NAN */
            s.us[FB_WHY_OCCUPANCY] += take(&left, left);
    }
    s.us[FB_WHY_REST] = timed ? left : 0;
    FB_VEC_PUSH(&c->kernels, s);
}

/* ---- one column ---------------------------------------------------------------------------------------------------
 */

static double launch_cost(const fb_report *r, const fb_machine *m)
{
    fb_launch_mode mode = FB_LAUNCH_STREAM;
    for (int i = FB_LAUNCH_STREAM; i <= FB_LAUNCH_MEGA; i++)
        if (r->launch_mode && strcmp(r->launch_mode, fb_launch_mode_name((fb_launch_mode)i)) == 0)
            mode = (fb_launch_mode)i;
    if (r->launches < 0 || m->doubted) return NAN;
    double calls = 0, called_us = 0;
    for (int i = 0; i < r->n_kernels; i++) {
        const fb_kernel_report *k = &r->kernels[i];
        if (!fb_kernel_calls_library(k)) continue;
        calls += (double)k->count;
        called_us += k->device_us.n ? k->device_us.median : k->predicted_us;
    }
    if (!isfinite(called_us)) called_us = 0;
    return fb_launching_us(m, mode, (double)r->launches, calls, called_us) + (isfinite(m->sync_us) ? m->sync_us : 0);
}

static bool is_foreign(const fb_report *r)
{
    for (int i = 0; i < r->n_kernels; i++)
        if (r->kernels[i].group >= 0) return false;
    return !r->plan_hash; /* every plan of ours has one */
}

/* Dispatch and launches share the gap. */
static void split_gap(const fb_machine *m, column_split *c)
{
    double cost = launch_cost(c->r, m), gap = c->r->gap_us;
    bool foreign = is_foreign(c->r), timed = isfinite(gap);
    c->above_wall = fb_report_busy_above_wall(c->r);
    c->known[FB_WHY_DISPATCH] = !foreign;
    if (c->above_wall) return;
    c->known[FB_WHY_LAUNCHES] = timed || isfinite(cost);
    c->known[FB_WHY_DISPATCH] = !foreign || (timed && isfinite(cost));
    c->us[FB_WHY_LAUNCHES] = !timed ? cost : foreign && isfinite(cost) ? fmin(gap, cost) : gap;
    c->us[FB_WHY_DISPATCH] = foreign && c->known[FB_WHY_DISPATCH] ? gap - c->us[FB_WHY_LAUNCHES] : 0;
    c->measured[FB_WHY_LAUNCHES] = timed && !(foreign && isfinite(cost));
    c->measured[FB_WHY_DISPATCH] = timed;
}

static void split_copies(column_split *c, bool tells)
{
    const fb_report *r = c->r;
    c->known[FB_WHY_COPIES] = r->copies ? r->copy_us.n > 0 : tells;
    c->us[FB_WHY_COPIES] = r->copies && r->copy_us.n ? r->copy_us.median - r->copy_hidden_us : 0;
    c->measured[FB_WHY_COPIES] = fb_report_copies_source(r->source) != FB_SOURCE_PREDICTED;
}

/* What no kernel takes is no part of the device's own time. */
static void split_outside(const fb_machine *m, column_split *c, fb_time of, bool tells)
{
    static const fb_why_id outside[] = {FB_WHY_DISPATCH, FB_WHY_LAUNCHES, FB_WHY_COPIES};
    if (of == FB_TIME_DEVICE) {
        for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) c->known[outside[i]] = true;
        return;
    }
    split_gap(m, c);
    split_copies(c, tells);
}

static void split_column(const fb_report *r, const fb_machine *m, fb_time of, column_split *c)
{
    bool tells = r->n_kernels > 0 || r->launches == 0;
    *c = (column_split){.r = r, .doubted = m->doubted, .tells_bytes = tells};
    c->known[FB_WHY_BYTES] = c->known[FB_WHY_OCCUPANCY] = c->known[FB_WHY_COMPUTE] = tells;
    c->known[FB_WHY_SPILLS] = r->launches == 0;
    c->measured[FB_WHY_BYTES] = r->n_kernels > 0;
    split_outside(m, c, of, tells);
    for (int i = 0; i < r->n_kernels; i++) split_kernel(&r->kernels[i], m, c);
    for (int i = 0; i < c->kernels.n; i++)
        for (int p = FB_WHY_BYTES; p < FB_WHY_REST; p++) c->us[p] += c->kernels.at[i].us[p];
}

/* ---- the kernels that contribute most -----------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b)
{
    const kernel_split *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* A's kernels less B's, one entry a name, in `to`, which has room for all. */
static int merge(const column_split c[2], kernel_split *to)
{
    int all = 0, n = 0;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < c[s].kernels.n; i++, all++) {
            to[all] = c[s].kernels.at[i];
            for (int p = 0; s && p < FB_WHY_PARTS; p++) to[all].us[p] = -to[all].us[p];
        }
    qsort(to, (size_t)all, sizeof *to, by_name);
    for (int i = 0; i < all; i++) {
        if (!n || strcmp(to[n - 1].name, to[i].name) != 0) {
            to[n++] = to[i];
            continue;
        }
        for (int p = 0; p < FB_WHY_PARTS; p++) to[n - 1].us[p] += to[i].us[p];
    }
    return n;
}

/* The few that go furthest in the part's direction; what is below a twentieth of the part is not worth a word. */
static void choose_kernels(const kernel_split *k, int n, fb_why_id id, fb_why_part *p)
{
    double sign = p->us < 0 ? -1 : 1, least = fmax(fabs(p->us) / 20, 0.05);
    for (int i = 0; i < n; i++) {
        double us = k[i].us[id] * sign;
        int at = p->n_kernels < FB_WHY_KERNELS ? p->n_kernels : FB_WHY_KERNELS - 1;
        bool full = p->n_kernels == FB_WHY_KERNELS;
        if (!(us > least) || (full && !(us > p->kernel[at].us * sign))) continue;
        if (!full) p->n_kernels++;
        for (; at > 0 && us > p->kernel[at - 1].us * sign; at--) p->kernel[at] = p->kernel[at - 1];
        p->kernel[at].us = k[i].us[id];
        fb_kernel_short_name(p->kernel[at].name, sizeof p->kernel[at].name, k[i].name);
    }
}

static void choose_against(const kernel_split *k, int n, fb_why_id id, fb_why_part *p)
{
    double sign = p->us < 0 ? -1 : 1, most = fmax(fabs(p->us) / 2, 0.05);
    for (int i = 0; i < n && p->n_kernels; i++) {
        if (!(-k[i].us[id] * sign > most)) continue;
        most = -k[i].us[id] * sign;
        p->against.us = k[i].us[id];
        fb_kernel_short_name(p->against.name, sizeof p->against.name, k[i].name);
    }
}

/* ---- sentences ----------------------------------------------------------------------------------------------------
 */

static const char *signed_us(char to[40], double us)
{
    char text[32], none[32];
    bool nothing = strcmp(fb_format_us(text, fabs(us)), fb_format_us(none, 0)) == 0; /* no "-0.0 µs" */
    snprintf(to, 40, "%s%s", us < 0 && !nothing ? "-" : "", text);
    return to;
}

static void say_amounts(const fb_why_part *p, const column_split c[2], fb_why_id id, fb_str *out)
{
    char from[40], to[40];
    if (id == FB_WHY_LAUNCHES && c[0].r->launches >= 0 && c[1].r->launches >= 0)
        fb_str_addf(out, "%lld → %lld launches: ", (long long)c[0].r->launches, (long long)c[1].r->launches);
    if (id == FB_WHY_BYTES)
        fb_str_addf(out, "%s → %s moved: ", fb_format_bytes(from, c[0].moved), fb_format_bytes(to, c[1].moved));
    if (id == FB_WHY_BYTES && c[0].apart + c[1].apart > 0)
        fb_str_addf(out, "and %s → %s moved with them that nobody asked for: ", fb_format_bytes(from, c[0].apart),
                    fb_format_bytes(to, c[1].apart));
    fb_str_addf(out, "%s → %s %s", signed_us(from, p->of[0]), signed_us(to, p->of[1]), parts[id].what);
    if (id == FB_WHY_REST) return;
    fb_str_addf(out, " (%s", p->basis[0]);
    if (strcmp(p->basis[0], p->basis[1]) != 0) fb_str_addf(out, " → %s", p->basis[1]);
    fb_str_add(out, ")");
}

static void say_kernel(const fb_why_kernel *k, const char *before, fb_str *out)
{
    char us[40];
    fb_str_addf(out, "%s%s %s%s", before, k->name, k->us > 0 ? "-" : "+", fb_format_us(us, fabs(k->us)));
}

static void say_kernels(const fb_why_part *p, fb_str *out)
{
    bool most = p->against.us == 0;
    for (int i = 0; i < p->n_kernels; i++)
        say_kernel(&p->kernel[i], i ? ", " : most ? "; most of it in " : "; in ", out);
    if (!most) say_kernel(&p->against, " and the other way in ", out);
}

/* Of a doubted calibration: the amounts that are known all the same. */
static bool say_amounts_alone(const fb_why_part *p, const column_split c[2], fb_why_id id, fb_str *out)
{
    char from[40], to[40];
    bool launches = id == FB_WHY_LAUNCHES && c[0].r->launches >= 0 && c[1].r->launches >= 0;
    bool bytes = id == FB_WHY_BYTES && c[0].tells_bytes && c[1].tells_bytes;
    if ((!c[0].doubted && !c[1].doubted) || (!launches && !bytes)) return false;
    if (launches)
        fb_str_addf(out, "%lld → %lld launches", (long long)c[0].r->launches, (long long)c[1].r->launches);
    else
        fb_str_addf(out, "%s → %s moved (%s → %s)", fb_format_bytes(from, c[0].moved), fb_format_bytes(to, c[1].moved),
                    p->basis[0], p->basis[1]);
    fb_str_add(out, ": what that costs is in the rest, for the calibration is doubted");
    return true;
}

/* The columns that do not tell what the part is about. */
static void say_unknown(const column_split c[2], fb_why_id id, fb_str *out)
{
    bool a = c[0].known[id], b = c[1].known[id];
    char us[40];
    if (a || b)
        fb_str_addf(out, "%s %s in the %s column, ", signed_us(us, c[b].us[id]), parts[id].what,
                    a ? "first" : "second");
    const char *of = !a && !b ? "either" : a ? "the second" : "the first";
    bool outside = id == FB_WHY_LAUNCHES || id == FB_WHY_DISPATCH;
    if (outside && (c[0].above_wall || c[1].above_wall))
        fb_str_addf(out, "cannot be told of %s, whose kernels, timed one by one, took longer than whole runs: ", of);
    else
        fb_str_addf(out, "not known of %s: ", of);
    fb_str_add(out, "it is in the rest");
}

static void say_missing(const fb_why *why, fb_str *out)
{
    bool first = true;
    for (int p = 0; p < FB_WHY_REST; p++) {
        if (why->part[p].known) continue;
        const char *begin = why->rest_in_kernels ? "; it is time inside kernels, of which these are not known: "
                                                 : "; it holds what is not known: ";
        fb_str_addf(out, "%s%s", first ? begin : ", ", parts[p].name);
        first = false;
    }
}

/* Whether a framework's kernels, of which only the time is known, make up the rest. */
static bool is_in_kernels(const fb_why *why, const column_split c[2])
{
    const fb_why_part *rest = &why->part[FB_WHY_REST];
    double inside = 0;
    if (why->part[FB_WHY_BYTES].known) return false;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < c[s].kernels.n; i++) {
            const double *us = c[s].kernels.at[i].us;
            for (int p = FB_WHY_BYTES; p < FB_WHY_PARTS; p++) /* what is not known of both is in the rest */
                if (p == FB_WHY_REST || !why->part[p].known) inside += s ? -us[p] : us[p];
        }
    return fabs(rest->us - inside) <= 0.1 * fabs(rest->us);
}

static void say_part(fb_why *why, const column_split c[2], fb_why_id id)
{
    fb_why_part *p = &why->part[id];
    fb_str text = {0};
    if (p->known) {
        say_amounts(p, c, id, &text);
        if (id == FB_WHY_REST) say_missing(why, &text);
        say_kernels(p, &text);
    } else {
        p->amounts = say_amounts_alone(p, c, id, &text);
        if (!p->amounts) say_unknown(c, id, &text);
    }
    fb_text_clean(p->text, sizeof p->text, fb_str_get(&text), text.n);
    fb_str_free(&text);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------
 */

static bool has_wall(const fb_report *r, const char *which, fb_error *err)
{
    if (r->failed) return fb_fail(err, r->failed_kind, "the %s column failed: %s", which, r->failed);
    if (fb_report_is_wrong(r))
        return fb_fail(err, FB_ERR_INPUT, "the %s column's result is wrong: %s", which, r->error.worst);
    return r->wall_us.n > 0 || fb_fail(err, FB_ERR_UNAVAILABLE, "the %s column has no wall time", which);
}

static const fb_stat *time_of(const fb_report *r, fb_time of)
{
    return of == FB_TIME_WALL ? &r->wall_us : &r->device_us;
}

static const char *basis(const column_split *c, int id)
{
    if (c->measured[id]) return fb_report_source_name(c->r->source);
    return id == FB_WHY_BYTES && c->counted ? "modelled or counted" : "modelled";
}

static void set_parts(fb_why *why, const column_split c[2])
{
    fb_why_part *rest = &why->part[FB_WHY_REST];
    *rest = (fb_why_part){.known = true, .us = why->us, .of = {why->a_us, why->b_us}};
    for (int id = 0; id < FB_WHY_REST; id++) {
        fb_why_part *p = &why->part[id];
        p->known = c[0].known[id] && c[1].known[id];
        p->measured = c[0].measured[id] && c[1].measured[id];
        for (int s = 0; s < 2; s++) {
            p->of[s] = c[s].known[id] ? c[s].us[id] : NAN;
            p->basis[s] = basis(&c[s], id);
        }
        if (!p->known) continue;
        p->us = p->of[0] - p->of[1];
        rest->us -= p->us;
        for (int s = 0; s < 2; s++) rest->of[s] -= p->of[s];
    }
}

/* The wall's, unless only the device's is known to differ. */
static fb_time time_to_explain(const fb_comparison verdict[2])
{
    bool device = fb_differs(&verdict[FB_TIME_DEVICE]) && !fb_differs(&verdict[FB_TIME_WALL]);
    return device ? FB_TIME_DEVICE : FB_TIME_WALL;
}

static void compare(const fb_report *a, const fb_report *b, fb_comparison verdict[2])
{
    for (int of = FB_TIME_WALL; of <= FB_TIME_DEVICE; of++) verdict[of] = fb_compare_reports(a, b, (fb_time)of);
}

static void explain(const fb_report *a, const fb_report *b, const fb_machine *ma, const fb_machine *mb, fb_why *out)
{
    column_split c[2];
    split_column(a, ma, out->of, &c[0]);
    split_column(b, mb, out->of, &c[1]);
    out->a_us = time_of(a, out->of)->median;
    out->b_us = time_of(b, out->of)->median;
    out->us = out->a_us - out->b_us;
    out->tie = !fb_differs(&out->verdict[out->of]);
    out->source = a->source > b->source ? a->source : b->source;
    out->from[0] = a->source;
    out->from[1] = b->source;
    out->incomparable = fb_not_comparable(FB_COMPARED(a), FB_COMPARED(b));
    set_parts(out, c);
    out->rest_in_kernels = is_in_kernels(out, c);
    kernel_split *merged = fb_calloc((size_t)(c[0].kernels.n + c[1].kernels.n) + 1, sizeof *merged);
    int n = merge(c, merged);
    for (int id = 0; id < FB_WHY_PARTS; id++) {
        if (id >= FB_WHY_BYTES && out->part[id].known) {
            choose_kernels(merged, n, (fb_why_id)id, &out->part[id]);
            choose_against(merged, n, (fb_why_id)id, &out->part[id]);
        }
        say_part(out, c, (fb_why_id)id);
    }
    fb_free(merged);
    for (int s = 0; s < 2; s++) FB_VEC_FREE(&c[s].kernels);
}

bool fb_why_of(const fb_report *a, const fb_report *b, const fb_machine *ma, const fb_machine *mb, fb_why *out,
               fb_error *err)
{
    *out = (fb_why){0};
    if (!has_wall(a, "first", err) || !has_wall(b, "second", err)) return false;
    compare(a, b, out->verdict);
    out->of = time_to_explain(out->verdict);
    explain(a, b, ma, mb, out);
    return true;
}

bool fb_why_of_time(const fb_report *a, const fb_report *b, const fb_machine *ma, const fb_machine *mb, fb_time of,
                    fb_why *out, fb_error *err)
{
    *out = (fb_why){.of = of};
    if (!has_wall(a, "first", err) || !has_wall(b, "second", err)) return false;
    for (int s = 0; of == FB_TIME_DEVICE && s < 2; s++)
        if (!time_of(s ? b : a, of)->n)
            return fb_fail(err, FB_ERR_UNAVAILABLE, "the %s column's kernels were not timed", s ? "second" : "first");
    compare(a, b, out->verdict);
    explain(a, b, ma, mb, out);
    return true;
}

fb_why_id fb_why_largest(const fb_why *why)
{
    fb_why_id best = FB_WHY_NONE;
    double sign = why->us < 0 ? -1 : 1, most = 0;
    for (int id = 0; id < FB_WHY_REST && !why->tie; id++)
        if (why->part[id].us * sign > most) {
            most = why->part[id].us * sign;
            best = (fb_why_id)id;
        }
    return best;
}

bool fb_why_alike(const fb_why *why, fb_why_id id)
{
    double whole = why->tie ? fmax(why->a_us, why->b_us) : fabs(why->us);
    return why->part[id].known && fabs(why->part[id].us) < whole / 200;
}

double fb_why_percent(const fb_why *why, fb_why_id id)
{
    return why->us == 0 ? 0 : round(100 * why->part[id].us / why->us) + 0.0;
}

void fb_why_conclusion(const fb_why *why, char to[240])
{
    fb_why_id id = fb_why_largest(why);
    char us[32], inside[32];
    double share = id == FB_WHY_NONE ? 0 : 100 * why->part[id].us / why->us;
    bool rest = fabs(why->part[FB_WHY_REST].us) > (id == FB_WHY_NONE ? 0 : fabs(why->part[id].us));
    if (why->tie && why->verdict[why->of].what == FB_SAME)
        snprintf(to, 240, "the same: the parts make up for each other");
    else if (why->tie)
        snprintf(to, 240, "it cannot be told whether they differ: the parts may be chance");
    else if (id == FB_WHY_NONE)
        snprintf(to, 240, "nothing that is known explains the difference");
    else if (rest && why->rest_in_kernels)
        snprintf(to, 240, "the largest part is inside the kernels: %s, %.0f %% of the difference; then %s: %s, %.0f %%",
                 fb_format_us(inside, fabs(why->part[FB_WHY_REST].us)), fb_why_percent(why, FB_WHY_REST),
                 parts[id].name, fb_format_us(us, fabs(why->part[id].us)), share);
    else if (rest)
        snprintf(to, 240, "%s, %.0f %% of the difference, is not explained; the largest part that is: %s: %s, %.0f %%",
                 fb_format_us(inside, fabs(why->part[FB_WHY_REST].us)), fb_why_percent(why, FB_WHY_REST),
                 parts[id].name, fb_format_us(us, fabs(why->part[id].us)), share);
    else
        snprintf(to, 240, "the largest part is %s: %s, %.0f %% of the difference", parts[id].name,
                 fb_format_us(us, fabs(why->part[id].us)), share);
}

const char *fb_why_verdicts(const fb_why *why, char to[160])
{
    char wall[64], device[64];
    if (why->incomparable) {
        snprintf(to, 160, "no ratio: it is %s%s", why->incomparable,
                 strncmp(why->incomparable, "of", 2) ? " than the first one's" : "");
        return to;
    }
    const char *how = why->verdict[FB_TIME_WALL].pairs ? " (run against run)" : "";
    if (!isnan(why->verdict[FB_TIME_DEVICE].times))
        snprintf(to, 160, "wall: %s; device: %s%s", fb_comparison_say(&why->verdict[FB_TIME_WALL], wall),
                 fb_comparison_say(&why->verdict[FB_TIME_DEVICE], device), how);
    else
        snprintf(to, 160, "wall: %s%s", fb_comparison_say(&why->verdict[FB_TIME_WALL], wall), how);
    return to;
}

fb_figure_source fb_why_part_source(const fb_why *why, fb_why_id id)
{
    return why->part[id].measured || id == FB_WHY_REST ? why->source : FB_SOURCE_PREDICTED;
}

const char *fb_why_sources(const fb_why *why, char to[32])
{
    const char *a = fb_report_source_name(why->from[0]), *b = fb_report_source_name(why->from[1]);
    if (why->source == FB_SOURCE_MEASURED)
        *to = '\0';
    else
        snprintf(to, 32, why->from[0] == why->from[1] ? "%s" : "%s → %s", a, b);
    return to;
}

/* ---- the waterfall ------------------------------------------------------------------------------------------------
 */

/* The levels between which the bars fall: level[0] is A's wall time, level[i + 1] what is left after part i. */
static double levels(const fb_why *why, double level[FB_WHY_PARTS + 1], double *low)
{
    double high = level[0] = why->a_us;
    *low = 0;
    for (int id = 0; id < FB_WHY_PARTS; id++) {
        level[id + 1] = level[id] - why->part[id].us;
        high = fmax(high, level[id + 1]);
        *low = fmin(*low, level[id + 1]);
    }
    return high;
}

static fb_why_span between(double from, double to, double low, double high, int width)
{
    double scale = high > low ? width / (high - low) : 0;
    int first = (int)lround((fmin(from, to) - low) * scale), last = (int)lround((fmax(from, to) - low) * scale);
    if (from != to && last == first && first == width) first--;
    if (from != to && last == first) last++;
    return (fb_why_span){.from = first, .n = last - first};
}

fb_why_span fb_why_bar(const fb_why *why, fb_why_id id, int width)
{
    double level[FB_WHY_PARTS + 1], low, high = levels(why, level, &low);
    bool nothing = why->part[id].us == 0;
    return nothing ? (fb_why_span){0} : between(level[id], level[id + 1], low, high, width);
}

fb_why_span fb_why_wall_bar(const fb_why *why, int which, int width)
{
    double level[FB_WHY_PARTS + 1], low, high = levels(why, level, &low);
    return between(0, which ? why->b_us : why->a_us, low, high, width);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------
 */

static json_t *detail(const fb_why_part *p, fb_why_id id)
{
    json_t *kernels = json_array();
    for (int i = 0; i < p->n_kernels; i++)
        json_array_append_new(kernels, json_pack("{s:s, s:f}", "name", p->kernel[i].name, "us", p->kernel[i].us));
    json_t *o = json_pack("{s:s, s:o}", "text", p->text, "kernels", kernels);
    fb_json_set_number(o, "a_us", p->of[0]);
    fb_json_set_number(o, "b_us", p->of[1]);
    if (p->known && id != FB_WHY_REST)
        json_object_set_new(o, "basis",
                            strcmp(p->basis[0], p->basis[1]) ? json_sprintf("%s → %s", p->basis[0], p->basis[1])
                                                             : json_string(p->basis[0]));
    return o;
}

static json_t *verdict_to_json(const fb_comparison *c)
{
    char text[64];
    json_t *o = json_pack("{s:s, s:s, s:i}", "is", fb_difference_name(c->what), "text", fb_comparison_say(c, text),
                          "pairs", c->pairs);
    fb_json_set_number(o, "times", c->times);
    fb_json_set_number(o, "low", c->low);
    fb_json_set_number(o, "high", c->high);
    return o;
}

json_t *fb_why_to_json(const fb_why *why)
{
    json_t *sizes = json_object(), *details = json_object();
    char conclusion[240];
    fb_why_id largest = fb_why_largest(why);
    for (int id = 0; id < FB_WHY_PARTS; id++) {
        const fb_why_part *p = &why->part[id];
        if (p->known) fb_json_set_number(sizes, parts[id].name, p->us);
        json_object_set_new(details, parts[id].name, detail(p, (fb_why_id)id));
    }
    fb_why_conclusion(why, conclusion);
    json_t *o = json_pack("{s:o, s:o, s:b, s:s, s:s}", "parts", sizes, "details", details, "tie", why->tie, "source",
                          fb_report_source_name(why->source), "conclusion", conclusion);
    json_object_set_new(o, "of", json_string(fb_comparison_time_name(why->of)));
    json_t *verdicts = json_object();
    for (int of = FB_TIME_WALL; of <= FB_TIME_DEVICE; of++)
        if (!isnan(why->verdict[of].times) && !why->incomparable)
            json_object_set_new(verdicts, fb_comparison_time_name((fb_time)of), verdict_to_json(&why->verdict[of]));
    json_object_set_new(o, "verdicts", verdicts);
    if (why->incomparable) json_object_set_new(o, "incomparable", json_string(why->incomparable));
    fb_json_set_number(o, "us", why->us);
    fb_json_set_number(o, "a_us", why->a_us);
    fb_json_set_number(o, "b_us", why->b_us);
    if (largest != FB_WHY_NONE) json_object_set_new(o, "largest", json_string(parts[largest].name));
    return o;
}
