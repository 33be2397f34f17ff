/* Tables from what `fusebox run --format json` and `fusebox devices --format json` print:
 *
 *     bench_report columns RUN.json            wall times side by side, ratios to the variant's first column, ties
 *     bench_report copy RUN.json DEVICES.json  what share of the measured copy bandwidth each column reaches
 */
#include "bench/bench.h"

#include "base/json.h"
#include "measure/compare.h"
#include "target/machine.h"

#include <string.h>

enum { COLUMNS = 64 };

static json_t *read_json(const char *path)
{
    json_error_t why;
    fb_error err = {0};
    json_t *value = json_load_file(path, 0, &why);
    if (!value) fb_fail(&err, FB_ERR_INPUT, "%s: %s", path, why.text);
    bench_need(value != NULL, &err);
    return value;
}

static int read_columns(const json_t *run, fb_report *columns[COLUMNS])
{
    const json_t *list = json_object_get(run, "columns"), *one;
    fb_error err = {0};
    size_t i;
    int n = 0;
    json_array_foreach(list, i, one)
    {
        if (n == COLUMNS) break;
        columns[n] = fb_report_from_json(one, &err);
        bench_need(columns[n] != NULL, &err);
        n++;
    }
    return n;
}

static void name_of(const fb_report *r, char to[96])
{
    snprintf(to, 96, "%s%s%s@%s", r->variant ? r->variant : "", r->variant && *r->variant ? ":" : "", r->plan,
             r->device);
}

static const fb_report *first_of_variant(fb_report *const *columns, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(columns[k]->variant, columns[i]->variant) == 0) return columns[k];
    return columns[i];
}

static void wall_row(fb_report *const *columns, int i)
{
    const fb_report *r = columns[i], *first = first_of_variant(columns, i);
    char name[96], cold[32];
    fb_str note = {0};
    name_of(r, name);
    if (r->failed) {
        bench_row(name, &(fb_stat){0}, r->failed);
        return;
    }
    fb_str_addf(&note, "%lld launches, cold %s", (long long)r->launches,
                fb_format_us(cold, r->cold_us.n ? r->cold_us.median : NAN));
    if (first != r && first->wall_us.n)
        fb_str_addf(&note, ", %.2f × %s", first->wall_us.median / r->wall_us.median, first->plan);
    fb_str_addf(&note, ", answer %s", r->error.ok ? "right" : "not verified");
    bench_row(name, &r->wall_us, note.text);
    fb_str_free(&note);
}

/* Columns of one plan in several variants: is their difference smaller than the spread? */
static void tie_rows(fb_report *const *columns, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            const fb_report *a = columns[i], *b = columns[k];
            if (strcmp(a->plan, b->plan) != 0 || !a->wall_us.n || !b->wall_us.n) continue;
            char left[96], right[96];
            char text[64];
            fb_comparison c = fb_compare_reports(a, b, FB_TIME_WALL);
            name_of(a, left);
            name_of(b, right);
            printf("  %s and %s: %s (%.2f ×)\n", left, right, fb_comparison_say(&c, text),
                   a->wall_us.median / b->wall_us.median);
        }
}

static void print_columns(const char *path)
{
    fb_report *columns[COLUMNS];
    json_t *run = read_json(path);
    int n = read_columns(run, columns);
    bench_head("wall, hot");
    for (int i = 0; i < n; i++) wall_row(columns, i);
    tie_rows(columns, n);
    for (int i = 0; i < n; i++) fb_report_free(columns[i]);
    json_decref(run);
}

/* Bytes a ns are GB/s. */
static void share_row(const fb_report *r, const char *state, const fb_stat *us, const fb_rate_curve *copy)
{
    double bytes = r->bytes_read + r->bytes_written, rate = bytes / us->median * 1e-3, most = fb_rate_at(copy, bytes);
    char what[128], name[96], note[128], size[32];
    name_of(r, name);
    snprintf(what, sizeof what, "%s, %s", name, state);
    snprintf(note, sizeof note, "%s: %.1f GB/s of %.1f GB/s, %.0f %%", fb_format_bytes(size, bytes), rate, most,
             100 * rate / most);
    bench_row(what, us, us->n ? note : r->failed ? r->failed : "");
}

static void print_shares(const char *run_path, const char *devices_path)
{
    fb_report *columns[COLUMNS];
    json_t *run = read_json(run_path), *devices = read_json(devices_path);
    int n = read_columns(run, columns);
    char title[64] = "";
    for (int i = 0; i < n; i++) {
        const fb_report *r = columns[i];
        fb_machine m;
        fb_error err = {0};
        bench_need(fb_machine_from_json(&m, json_object_get(json_object_get(devices, "devices"), r->device), &err),
                   &err);
        if (!*title) {
            snprintf(title, sizeof title, "share of copy bandwidth, %d core%s", m.units, m.units == 1 ? "" : "s");
            bench_head(title);
        }
        share_row(r, "hot", &r->wall_us,
                  (double)m.cache_bytes > r->bytes_read + r->bytes_written ? &m.copy_hot : &m.copy_cold);
        share_row(r, "cold", &r->cold_us, &m.copy_cold);
    }
    for (int i = 0; i < n; i++) fb_report_free(columns[i]);
    json_decref(run);
    json_decref(devices);
}

int main(int argc, char **argv)
{
    fb_json_init();
    if (argc == 3 && strcmp(argv[1], "columns") == 0)
        print_columns(argv[2]);
    else if (argc == 4 && strcmp(argv[1], "copy") == 0)
        print_shares(argv[2], argv[3]);
    else
        return 2;
    return 0;
}
