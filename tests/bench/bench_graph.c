/* Building, canonicalising, writing and reading a large graph. */
#include "bench/bench.h"
#include "bench/bench_graphs.h"

#include "graph/graph_json.h"

#include <string.h>

enum { ROUNDS = 7 };

typedef enum { BUILD, CANON, WRITE, READ, LINES, FEED, STEPS } step;

static const char *const step_names[STEPS] = {
    [BUILD] = "build and finish", [CANON] = "canonicalise",   [WRITE] = "write as a document",
    [READ] = "read a document",   [LINES] = "write as lines", [FEED] = "read lines one by one",
};

static bool keep_line(void *ctx, const char *text, size_t n)
{
    fb_str_add_n(ctx, text, n);
    fb_str_add(ctx, "\n");
    return true;
}

static fb_graph *read_lines(const fb_str *lines)
{
    fb_error err = {0};
    fb_graph_reader *r = fb_graph_reader_new();
    bool done = false;
    for (const char *p = lines->text, *end; !done; p = end + 1) {
        end = strchr(p, '\n');
        bench_need(end && fb_graph_reader_feed(r, p, (size_t)(end - p), &done, &err), &err);
    }
    fb_graph *g = fb_graph_reader_take(r);
    fb_graph_reader_free(r);
    return g;
}

static void round_of(const bench_shape *shape, int n, double us[STEPS], int *nodes, size_t *bytes)
{
    fb_error err = {0};
    fb_str text = {0}, lines = {0};
    double at[STEPS + 1];
    at[BUILD] = fb_now_us();
    fb_graph *raw = shape->make(n);
    at[CANON] = fb_now_us();
    fb_graph *g = fb_graph_canonical(raw, &err);
    bench_need(g != NULL, &err);
    at[WRITE] = fb_now_us();
    fb_graph_write_json(g, &text);
    at[READ] = fb_now_us();
    fb_graph *read = fb_graph_read_json(text.text, text.n, &err);
    bench_need(read != NULL, &err);
    at[LINES] = fb_now_us();
    fb_graph_write_lines(g, keep_line, &lines);
    at[FEED] = fb_now_us();
    fb_graph *fed = read_lines(&lines);
    at[STEPS] = fb_now_us();
    for (int i = 0; i < STEPS; i++) us[i] = at[i + 1] - at[i];
    *nodes = g->n_nodes;
    *bytes = text.n;
    fb_graph_free(raw);
    fb_graph_free(g);
    fb_graph_free(read);
    fb_graph_free(fed);
    fb_str_free(&text);
    fb_str_free(&lines);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 50000, nodes = 0;
    double us[STEPS][ROUNDS];
    size_t bytes = 0;
    for (const bench_shape *s = bench_shapes; s->name; s++) {
        for (int r = 0; r < ROUNDS; r++) {
            double one[STEPS];
            round_of(s, n, one, &nodes, &bytes);
            for (int i = 0; i < STEPS; i++) us[i][r] = one[i];
        }
        char title[96], size[32];
        snprintf(title, sizeof title, "graph %s, %d nodes, %s of JSON", s->name, nodes,
                 fb_format_bytes(size, (double)bytes));
        bench_head(title);
        for (int i = 0; i < STEPS; i++) bench_samples(step_names[i], us[i], ROUNDS, NULL);
    }
    return 0;
}
