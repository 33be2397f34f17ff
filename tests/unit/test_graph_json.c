/* Graphs as JSON: there and back in both forms, every field corrupted, and bytes at random. */
#include "graph_help.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/canon.h"
#include "graph/graph_json.h"

#include <time.h>

#include <stdio.h>

static void expect_same(const fb_graph *a, const fb_graph *b)
{
    fb_str x = {0}, y = {0};
    assert_true(fb_hash_equal(a->hash, b->hash));
    fb_graph_write_json(a, &x);
    fb_graph_write_json(b, &y);
    assert_string_equal(x.text, y.text);
    fb_str_free(&x);
    fb_str_free(&y);
}

static fb_graph *reread(const fb_graph *g)
{
    fb_str text = {0};
    fb_error err = {0};
    fb_graph_write_json(g, &text);
    fb_graph *back = fb_graph_read_json(text.text, text.n, &err);
    if (!back) fail_msg("%s", err.text);
    fb_str_free(&text);
    return back;
}

static fb_graph *canonical_of(const fb_graph *g)
{
    fb_error err = {0};
    fb_graph *c = fb_graph_canonical(g, &err);
    assert_non_null(c);
    return c;
}

static void test_document(void **state)
{
    (void)state;
    fb_graph *g = varied_graph();
    finish(g);
    fb_graph *c = canonical_of(g), *g2 = reread(g), *c2 = reread(c);
    expect_same(g, g2);
    expect_same(c, c2);
    assert_string_equal(g2->title, "a \"varied\" graph");
    assert_false(g2->canonical);
    assert_true(c2->canonical);
    fb_graph_free(g);
    fb_graph_free(c);
    fb_graph_free(g2);
    fb_graph_free(c2);
}

static void test_numbers(void **state)
{
    (void)state;
    static const double values[] = {0.1, -0.0, 1e300, 5e-324, 1.0 / 3, 123456789012, NAN, INFINITY, -INFINITY, 2};
    fb_graph *g = fb_graph_new("");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) output(g, add_const(g, FB_F64, values[i]), NULL);
    finish(g);
    fb_graph *back = reread(g);
    expect_same(g, back);
    assert_true(signbit(fb_node_at(back, 1)->attrs->value));
    fb_graph_free(g);
    fb_graph_free(back);
}

/* ---- lines ---- */

typedef FB_VEC(char *) line_list;

static bool keep_line(void *ctx, const char *text, size_t n)
{
    line_list *lines = ctx;
    FB_VEC_PUSH(lines, fb_strdup(text));
    return strlen(text) == n && !strchr(text, '\n');
}

static void free_lines(line_list *lines)
{
    for (int i = 0; i < lines->n; i++) fb_free(lines->at[i]);
    FB_VEC_FREE(lines);
}

static void test_lines(void **state)
{
    (void)state;
    line_list lines = {0};
    fb_error err = {0};
    bool done = false;
    fb_graph *g = varied_graph();
    finish(g);
    assert_true(fb_graph_write_lines(g, keep_line, &lines));
    fb_graph_reader *r = fb_graph_reader_new();
    assert_null(fb_graph_reader_take(r));
    for (int i = 0; i < lines.n; i++) {
        assert_false(done);
        if (!fb_graph_reader_feed(r, lines.at[i], strlen(lines.at[i]), &done, &err)) fail_msg("%s", err.text);
    }
    assert_true(done);
    fb_graph *back = fb_graph_reader_take(r);
    expect_same(g, back);
    assert_null(fb_graph_reader_take(r));
    assert_false(fb_graph_reader_feed(r, "{}", 2, &done, &err));
    fb_graph_reader_free(r);
    /* One line lost or doubled is noticed, at the latest at the end. */
    for (int skipped = 0; skipped < lines.n - 1; skipped++)
        for (int times = 0; times < 3; times += 2) {
            bool ok = true;
            r = fb_graph_reader_new();
            for (int i = 0; i < lines.n && ok; i++)
                for (int k = 0; k < (i == skipped ? times : 1) && ok; k++)
                    ok = fb_graph_reader_feed(r, lines.at[i], strlen(lines.at[i]), &done, &err);
            assert_false(ok);
            assert_false(fb_graph_reader_feed(r, lines.at[0], strlen(lines.at[0]), &done, &err));
            assert_null(fb_graph_reader_take(r));
            fb_graph_reader_free(r);
        }
    free_lines(&lines);
    fb_graph_free(g);
    fb_graph_free(back);
}

/* ---- corruption ---- */

/* Each value in the document in turn becomes something else; `title`, `line` and `hash` itself apart, the reader must
 * refuse it: by type, by range, by inference, or by the hash. */
typedef struct {
    json_t *document;
    int tried;
    bool with_hash;
} corruption;

static void expect_refused(corruption *c, const char *key, const char *how)
{
    char *text = fb_json_line(c->document);
    fb_error err = {0};
    fb_graph *g = fb_graph_read_json(text, strlen(text), &err);
    if (g) fail_msg("field %s %s was accepted: %s", key, how, text);
    assert_true(err.kind != FB_OK && err.text[0]);
    fb_free(text);
    c->tried++;
}

static json_t *other_value(const json_t *v)
{
    if (json_is_integer(v)) return json_integer(json_integer_value(v) + 1);
    if (json_is_real(v)) return json_real(json_real_value(v) + 1);
    if (json_is_boolean(v)) return json_boolean(!json_is_true(v));
    if (json_is_string(v)) return json_sprintf("%sz", json_string_value(v));
    return json_null();
}

static void corrupt(corruption *c, json_t *v)
{
    const char *key;
    json_t *field;
    void *next;
    size_t i;
    json_object_foreach_safe(v, next, key, field)
    {
        if (strcmp(key, "title") == 0 || strcmp(key, "line") == 0) continue;
        json_t *kept = json_incref(field);
        char name[64];
        snprintf(name, sizeof name, "%s", key);
        corrupt(c, kept);
        json_object_set_new(v, name, other_value(kept));
        expect_refused(c, name, "changed");
        json_object_set_new(v, name, json_object());
        if (!json_is_object(kept) || json_object_size(kept)) expect_refused(c, name, "as an object");
        json_object_set_new(v, name, json_integer((json_int_t)1 << 50));
        expect_refused(c, name, "as a huge integer");
        json_object_set(v, name, kept);
        json_decref(kept);
    }
    json_array_foreach(v, i, field)
    {
        json_t *kept = json_incref(field);
        corrupt(c, kept);
        json_array_set_new(v, i, other_value(kept));
        expect_refused(c, "[]", "changed");
        json_array_set(v, i, kept);
        json_decref(kept);
    }
}

static void test_corrupted_fields(void **state)
{
    (void)state;
    fb_str text = {0};
    fb_error err = {0};
    fb_graph *g = varied_graph();
    finish(g);
    fb_graph_write_json(g, &text);
    corruption c = {.document = fb_json_parse(text.text, text.n, &err)};
    assert_non_null(c.document);
    corrupt(&c, c.document);
    assert_true(c.tried > 1000);
    json_object_set_new(c.document, "extra", json_true());
    expect_refused(&c, "extra", "added");
    json_object_del(c.document, "extra");
    json_t *first = json_array_get(json_object_get(c.document, "nodes"), 0);
    json_object_set_new(first, "axes", json_array());
    expect_refused(&c, "axes", "added to a node whose op does not read it");
    json_decref(c.document);
    fb_str_free(&text);
    fb_graph_free(g);
}

static void expect_error(const char *text, const char *want)
{
    fb_error err = {0};
    assert_null(fb_graph_read_json(text, strlen(text), &err));
    if (!strstr(err.text, want)) fail_msg("\"%s\" lacks \"%s\"", err.text, want);
}

#define X                                                                                                              \
    "{\"id\":0,\"op\":\"input\",\"args\":[],\"name\":\"x\",\"dtype\":\"f32\",\"shape\":[4],\"region\":0,"              \
    "\"dist\":\"normal\",\"value\":0,\"high\":1}"
#define TANH(ARG, SHAPE, MORE)                                                                                         \
    "{\"id\":1,\"op\":\"tanh\",\"args\":[" ARG "],\"name\":\"y\",\"dtype\":\"f32\",\"shape\":" SHAPE                   \
    ",\"region\":0" MORE "}"
#define GRAPH(NODES) "{\"fusebox_graph\":1,\"nodes\":[" NODES "],\"outputs\":[{\"name\":\"y\",\"node\":1}]}"

static void test_by_hand(void **state)
{
    (void)state;
    fb_error err = {0};
    const char *good = GRAPH(X "," TANH("0", "[4]", ""));
    fb_graph *g = fb_graph_read_json(good, strlen(good), &err);
    if (!g) fail_msg("%s", err.text);
    fb_graph_free(g);
    expect_error(GRAPH(X "," TANH("0", "[5]", "")), "node 1: tanh: is said to be f32[5] but is f32[4]");
    expect_error(GRAPH(X "," TANH("1", "[4]", "")), "node 1: tanh: operand 0 is no node of this graph");
    expect_error(GRAPH(X "," TANH("0", "[4]", ",\"keepdim\":true")), "node 1: unknown field \"keepdim\"");
    expect_error(GRAPH(X "," TANH("0", "[4]", ",\"scope\":0")), "node 1: tanh: there is no scope 0");
    expect_error("{\"fusebox_graph\":2}", "no graph that this version reads");
    expect_error("[]", "field \"fusebox_graph\" is missing");
    expect_error("", "not valid JSON");
    expect_error("{\"fusebox_graph\":1,\"nodes\":[],\"outputs\":[]}", "the graph has no output");
    /* twice the same: no canonical graph */
    expect_error(
        "{\"fusebox_graph\":1,\"canonical\":true,\"nodes\":[" X "," TANH(
            "0", "[4]",
            "") ","
                "{\"id\":2,\"op\":\"tanh\",\"args\":[0],\"name\":\"z\",\"dtype\":\"f32\",\"shape\":[4],\"region\":0}],"
                "\"outputs\":[{\"name\":\"y\",\"node\":1},{\"name\":\"z\",\"node\":2}]}",
        "says that it is canonical");
}

/* Random bytes changed, cut and doubled: an error or a graph, never a crash. Without the hash more gets through to
 * inference and the verifier. */
static void test_mutations(void **state)
{
    (void)state;
    fb_str text = {0};
    fb_graph *g = varied_graph();
    finish(g);
    fb_graph_write_json(g, &text);
    char *hash = strstr(text.text, ",\"hash\"");
    strcpy(hash, "}");
    size_t n = strlen(text.text);
    char *copy = malloc(2 * n);
    static const char digits[] = "0123456789-,[]{}\":.eabz";
    int accepted = 0;
    uint64_t s = 1;
    for (int i = 0; i < 4000; i++) {
        memcpy(copy, text.text, n);
        size_t length = n;
        for (int k = 0; k <= i % 3; k++) {
            s = fb_splitmix64(s);
            size_t at = s % length;
            if (i % 8 == 7) {
                size_t run = 1 + (s >> 40) % 30;
                if (run > length - at) run = length - at;
                memmove(copy + at, copy + at + run, length - at - run);
                length -= run;
            } else {
                /* digits for digits, so that much still parses */
                copy[at] =
                    i % 2 && copy[at] >= '0' && copy[at] <= '9' ? digits[(s >> 32) % 10] : digits[(s >> 32) % 22];
            }
        }
        fb_error err = {0};
        fb_graph *back = fb_graph_read_json(copy, length, &err);
        if (back) {
            accepted++;
            assert_true(fb_graph_verify(back, &err));
            fb_graph_free(canonical_of(back));
        } else {
            assert_true(err.kind != FB_OK && err.text[0]);
        }
        fb_graph_free(back);
    }
    assert_in_range(accepted, 10, 3000);
    free(copy);
    fb_str_free(&text);
    fb_graph_free(g);
}

static void test_large(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(8));
    for (int i = 0; i < 50000; i++) x = add_op(g, FB_OP_TANH, ARGS(x), NULL);
    output(g, x, NULL);
    finish(g);
    clock_t begin = clock(); /* of this process alone: others may keep the machine busy */
    fb_graph *back = reread(g);
    assert_int_equal(back->n_nodes, 50001);
    assert_true(clock() - begin < 10 * CLOCKS_PER_SEC);
    fb_graph_free(back);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_lines),    cmocka_unit_test(test_corrupted_fields),
        cmocka_unit_test(test_by_hand),  cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests_name("graph_json", tests, NULL, NULL);
}
