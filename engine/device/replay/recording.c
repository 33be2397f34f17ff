/* Reads, looks up and writes recordings. Needs the whole file in memory. Numbers are kept short; a figure is found
 * by what its launches run, so that it serves every plan with the same kernel. */
#include "device/replay/recording.h"

#include "device/replay/head.h"

#include "base/embedded.h"
#include "base/gzip.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "plan/loops.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 1, STAT = 4 };
static const double TURN_US = 1e6; /* rounds are told from whole seconds on */
static const char embedded_folder[] = "scripts/recordings/";

struct fb_recording {
    json_t *root, *scripts, *experiments, *kernels, *groups, *plans, *peers, *peer_plans; /* all but root inside root */
    json_t *timelines; /* by signature; NULL: not read yet, and in `apart` */
    char *apart;       /* the compressed rest of the file */
    size_t n_apart;
    fb_machine machine;
    /* Of one that is only served: its text, and where each figure stands in it until it is asked for. */
    char *text;
    fb_recording_places places;
    fb_error *damage; /* what is wrong with a figure that was asked for */
};

/* ---- what things are called ---- */

static const char *cut(fb_hash h, char to[FB_SIGNATURE])
{
    char hex[33];
    memcpy(to, fb_hash_hex(h, hex), FB_SIGNATURE - 1);
    to[FB_SIGNATURE - 1] = '\0';
    return to;
}

static void add_names(fb_hasher *h, const fb_graph *g, int n, const fb_id *nodes)
{
    fb_hasher_add_i64(h, n);
    for (int i = 0; i < n; i++) fb_hasher_add_text(h, g->nodes[nodes[i]].name); /* ascending, so always in one order */
}

const char *fb_recording_group_signature(const fb_plan *plan, int group, char to[FB_SIGNATURE])
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    const fb_group *of = fb_plan_group(plan, group);
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add(h, &g->hash, sizeof g->hash);
    add_names(h, g, of->n_nodes, of->nodes);
    add_names(h, g, of->n_stored, of->stored);
    fb_hasher_add_text(h, fb_family_name(of->family));
    for (int k = 0; k < FB_KNOBS; k++) /* those after split_k came later: an automatic one leaves no mark */
        if (k <= FB_KNOB_SPLIT_K || of->knobs.value[k]) fb_hasher_add_i64(h, of->knobs.value[k]);
    return cut(fb_hasher_end(h), to);
}

const char *fb_recording_plan_signature(const fb_plan *plan, char to[FB_SIGNATURE])
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    fb_hasher *h = fb_hasher_new();
    for (int i = 0; i < fb_plan_groups(plan); i++) fb_hasher_add_text(h, fb_recording_group_signature(plan, i, to));
    if (fb_plan_overlap(plan)) fb_hasher_add_text(h, "overlap");
    if (fb_plan_launch_mode(plan) == FB_LAUNCH_MEGA) fb_hasher_add_text(h, "mega");
    for (int r = 1; r < g->n_regions; r++)
        if (fb_plan_whole_loop(plan, r) == r) fb_hasher_add_i64(h, r);
    return cut(fb_hasher_end(h), to);
}

const char *fb_recording_graph_signature(const fb_graph *g, char to[FB_SIGNATURE])
{
    return cut(g->hash, to);
}

const char *fb_recording_code_name(const fb_program *p, const fb_launch *l, char to[FB_SIGNATURE])
{
    return cut(fb_program_launch_code(p, l), to);
}

const char *fb_recording_program_code(const fb_program *p, char to[FB_SIGNATURE])
{
    fb_hasher *h = fb_hasher_new();
    for (int i = 0; i < p->n_launches; i++) {
        fb_hasher_add_text(h, fb_recording_code_name(p, &p->launches[i], to));
        fb_hasher_add_i64(h, p->launches[i].count);
    }
    for (int b = 0; b < p->n_buffers; b++) { /* in recordings from before copies were part of a run, none is */
        if (!p->buffers[b].fed && !p->buffers[b].received) continue;
        fb_hasher_add_text(h, p->buffers[b].fed ? "fed" : "received");
        fb_hasher_add_i64(h, p->overlap);
    }
    return cut(fb_hasher_end(h), to);
}

/* ---- checking ---- */

static bool is_name(const char *text)
{
    return strlen(text) == FB_SIGNATURE - 1 && strspn(text, "0123456789abcdef") == FB_SIGNATURE - 1;
}

static bool wrong(fb_error *err, const char *where, const char *key, const char *what)
{
    return fb_fail(err, FB_ERR_INPUT, "a recording: \"%.40s\" of \"%.40s\" is not %s", key, where, what);
}

/* A list of `n` numbers from 0 on; null stands for one that is not known. Absent is fine. */
static bool check_numbers(const json_t *object, const char *where, const char *key, size_t n, fb_error *err)
{
    const json_t *list = json_object_get(object, key), *one;
    size_t i;
    if (!list) return true;
    if (json_array_size(list) != n) return wrong(err, where, key, "a list of as many numbers as it should be");
    json_array_foreach(list, i, one)
    {
        if (!json_is_null(one) && !(json_is_number(one) && json_number_value(one) >= 0))
            return wrong(err, where, key, "a list of numbers from 0 on");
    }
    return true;
}

static bool check_stat(const json_t *list)
{
    const json_t *one;
    size_t i;
    if (json_array_size(list) != STAT) return false;
    json_array_foreach(list, i, one)
    {
        if (!json_is_number(one) || !(json_number_value(one) >= 0)) return false;
    }
    double n = json_number_value(json_array_get(list, STAT - 1));
    return n >= 1 && n <= INT32_MAX;
}

static bool check_stats(const json_t *object, const char *where, const char *const *keys, fb_error *err)
{
    for (; *keys; keys++) {
        const json_t *list = json_object_get(object, *keys);
        if (list && !check_stat(list)) return wrong(err, where, *keys, "[median, p10, p90, n]");
    }
    return true;
}

/* Samples with rising times; [device] may hold null. */
static bool check_rounds(const json_t *rounds)
{
    const json_t *at = json_object_get(rounds, "at"), *wall = json_object_get(rounds, "wall"),
                 *device = json_object_get(rounds, "device"), *turn = json_object_get(rounds, "turn"), *one;
    size_t n = json_array_size(at), i;
    double before = 0;
    if (!json_is_number(turn) || !(json_number_value(turn) >= 0) || n < 1 || n > FB_ROUNDS) return false;
    if (json_array_size(wall) != n || json_array_size(device) != n) return false;
    json_array_foreach(at, i, one)
    {
        double now = json_number_value(one), us = json_number_value(json_array_get(wall, i));
        const json_t *busy = json_array_get(device, i);
        if (!json_is_number(one) || !(now >= before) || !(us > 0)) return false;
        if (!json_is_null(busy) && !(json_number_value(busy) >= 0)) return false;
        before = now;
    }
    return true;
}

static bool check_kernel(const char *code, const json_t *k, fb_error *err)
{
    static const char *const stats[] = {"hot", "cold", NULL};
    static const char *const plain[] = {"l2", "registers", "shared", "spill", "local", "occupancy"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        const json_t *one = json_object_get(k, plain[i]);
        double v = json_number_value(one);
        if (one && (!json_is_number(one) || !(v >= 0) || (i > 0 && v > INT32_MAX)))
            return wrong(err, code, plain[i], "a number from 0 on");
    }
    return check_stats(k, code, stats, err) && check_numbers(k, code, "dram", 2, err);
}

static bool check_group(const char *signature, const json_t *codes, fb_error *err)
{
    const json_t *one;
    size_t i;
    json_array_foreach(codes, i, one)
    {
        if (!json_is_string(one) || !is_name(json_string_value(one)))
            return wrong(err, "groups", signature, "a list of codes");
    }
    return json_is_array(codes) || wrong(err, "groups", signature, "a list of codes");
}

static bool check_plan(const char *signature, const json_t *p, fb_error *err)
{
    static const char *const stats[] = {"stream", "graph", "mega", "device", "cold", NULL};
    const char *code = fb_json_string_or(p, "code", ""), *graph = fb_json_string_or(p, "graph_is", NULL), *mode;
    json_t *kernels = json_object_get(p, "kernels"), *rounds = json_object_get(p, "rounds"), *one;
    if (!is_name(code)) return wrong(err, signature, "code", "a code");
    if (graph && !is_name(graph)) return wrong(err, signature, "graph_is", "a graph's hash");
    if (rounds && !json_is_object(rounds)) return wrong(err, signature, "rounds", "an object");
    json_object_foreach(rounds, mode, one)
    {
        if (!check_rounds(one)) return wrong(err, signature, "rounds", "samples in order");
    }
    if (!json_is_object(kernels)) return wrong(err, signature, "kernels", "an object");
    json_object_foreach(kernels, code, one)
    {
        if (!is_name(code) || !check_stat(one)) return wrong(err, signature, "kernels", "times by code");
    }
    return check_stats(p, signature, stats, err) && check_numbers(p, signature, "error", 4, err) &&
           check_numbers(p, signature, "launches", 2, err);
}

static bool check_script(const char *script, const json_t *variants, fb_error *err)
{
    const char *variant;
    json_t *hash;
    if (!json_is_object(variants)) return wrong(err, "scripts", script, "an object");
    json_object_foreach((json_t *)variants, variant, hash)
    {
        if (!json_is_string(hash)) return wrong(err, script, variant, "a graph's hash");
    }
    return true;
}

static bool check_experiment(const char *script, const json_t *graphs, fb_error *err)
{
    const char *graph;
    json_t *value;
    json_object_foreach((json_t *)graphs, graph, value)
    {
        if (!is_name(graph)) return wrong(err, "experiments", script, "a list of graphs");
    }
    return true;
}

static bool is_text(const json_t *value, size_t most)
{
    return json_is_string(value) && json_string_length(value) <= most;
}

static bool check_peer(const char *device, const json_t *peer, fb_error *err)
{
    static const char *const texts[] = {"name", "date"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!is_text(json_object_get(peer, texts[i]), 200)) return wrong(err, device, texts[i], "a short text");
    return true;
}

static bool is_peer_kernel(const json_t *k)
{
    const json_t *family = json_object_get(k, "family"), *count = json_object_get(k, "count");
    return is_text(json_object_get(k, "name"), FB_PEER_NAME) && (!family || is_text(family, FB_PEER_NAME)) &&
           json_is_integer(count) && json_integer_value(count) >= 1 && check_stat(json_object_get(k, "us"));
}

static bool check_peer_plan(const char *key, const json_t *p, fb_error *err)
{
    static const char *const stats[] = {"wall", "cold", "device", NULL};
    const json_t *mode = json_object_get(p, "mode"), *launches = json_object_get(p, "launches"),
                 *kernels = json_object_get(p, "kernels"), *one;
    size_t i;
    if (mode && !is_text(mode, FB_PEER_NAME)) return wrong(err, key, "mode", "a short text");
    if (launches && !(json_is_integer(launches) && json_integer_value(launches) >= 0))
        return wrong(err, key, "launches", "a count");
    if (!json_is_array(kernels) || json_array_size(kernels) > FB_PEER_KERNELS)
        return wrong(err, key, "kernels", "a short list");
    json_array_foreach(kernels, i, one)
    {
        if (!is_peer_kernel(one)) return wrong(err, key, "kernels", "a list of names, counts and times");
    }
    if (!check_stat(json_object_get(p, "wall"))) return wrong(err, key, "wall", "[median, p10, p90, n]");
    const json_t *rounds = json_object_get(p, "rounds");
    if (rounds && !check_rounds(rounds)) return wrong(err, key, "rounds", "samples in order");
    return check_stats(p, key, stats, err) && check_numbers(p, key, "error", 3, err);
}

static const struct {
    const char *key;
    size_t at;     /* in fb_recording */
    bool named;    /* its keys are codes or signatures */
    bool object;   /* its values are objects */
    bool optional; /* empty where it is not there */
    bool (*check)(const char *key, const json_t *value, fb_error *err);
} section[] = {
    {"scripts", offsetof(fb_recording, scripts), .object = true, .check = check_script},
    {"experiments", offsetof(fb_recording, experiments), .object = true, .optional = true, .check = check_experiment},
    {"kernels", offsetof(fb_recording, kernels), .named = true, .object = true, .check = check_kernel},
    {"groups", offsetof(fb_recording, groups), .named = true, .check = check_group},
    {"plans", offsetof(fb_recording, plans), .named = true, .object = true, .check = check_plan},
    {"peers", offsetof(fb_recording, peers), .object = true, .optional = true, .check = check_peer},
    {"peer_plans", offsetof(fb_recording, peer_plans), .object = true, .optional = true, .check = check_peer_plan},
};
enum { SECTIONS = sizeof section / sizeof *section };

/* `figures`: they are in it. */
static bool check_section(fb_recording *r, int s, bool figures, fb_error *err)
{
    const char *key;
    if (section[s].optional && !json_object_get(r->root, section[s].key))
        json_object_set_new(r->root, section[s].key, json_object());
    json_t *whole = json_object_get(r->root, section[s].key), *value;
    if (!json_is_object(whole))
        return fb_fail(err, FB_ERR_INPUT, "a recording: \"%s\" is not an object", section[s].key);
    json_object_foreach(whole, key, value)
    {
        if (section[s].named && !is_name(key)) return wrong(err, section[s].key, key, "a name of 16 hex digits");
        if (section[s].object && !json_is_object(value)) return wrong(err, section[s].key, key, "an object");
        if (!figures && fb_recording_figures(section[s].key) != FB_FIGURES) continue;
        if (!section[s].check(key, value, err)) return false;
    }
    *(json_t **)((char *)r + section[s].at) = whole;
    return true;
}

static bool check_head(fb_recording *r, fb_error *err)
{
    static const char *const texts[] = {"version", "date", "device", "driver"};
    int64_t version;
    if (!json_is_object(r->root) || !json_object_get(r->root, "fusebox_recording"))
        return fb_fail(err, FB_ERR_INPUT, "this is no recording");
    if (!fb_json_get_int(r->root, "fusebox_recording", 1, INT32_MAX, &version, err)) return false;
    if (version != VERSION)
        return fb_fail(err, FB_ERR_INPUT, "a recording of format %lld, but this fusebox reads format %d",
                       (long long)version, VERSION);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const json_t *text = json_object_get(r->root, texts[i]);
        if (text && (!json_is_string(text) || json_string_length(text) > 200))
            return wrong(err, "recording", texts[i], "a short text");
    }
    const json_t *clock = json_object_get(r->root, "clock_mhz");
    if (clock && !(json_number_value(clock) > 0)) return wrong(err, "recording", "clock_mhz", "a number");
    if (!fb_machine_from_json(&r->machine, json_object_get(r->root, "machine"), err))
        return fb_fail_prefix(err, "a recording");
    if (r->machine.target->generates) return true;
    return wrong(err, "machine", "kind", "host or cuda");
}

/* ---- the file ---- */

fb_recording *fb_recording_new(const fb_machine *m)
{
    fb_recording *r = fb_calloc(1, sizeof *r);
    r->root = json_pack("{s:i}", "fusebox_recording", VERSION);
    for (int s = 0; s < SECTIONS; s++) {
        json_object_set_new(r->root, section[s].key, json_object());
        *(json_t **)((char *)r + section[s].at) = json_object_get(r->root, section[s].key);
    }
    fb_recording_set_machine(r, m);
    return r;
}

/* Whole; its figures when they are asked for, at their places in the text; or the head alone. */
typedef enum { READ_WHOLE, READ_SERVED, READ_HEAD } read_as;

/* Takes the text where it is served from. What is damaged is read whole, which says how. */
static bool read_text(fb_recording *r, char *text, size_t n, read_as as, fb_error *err)
{
    fb_str head = {0};
    if (as != READ_WHOLE && !fb_recording_head(text, n, &head, as == READ_SERVED ? &r->places : NULL)) {
        as = READ_WHOLE;
        fb_recording_places_free(&r->places);
    }
    r->root = as == READ_WHOLE ? fb_json_parse(text, n, err) : fb_json_parse(head.text, head.n, err);
    fb_str_free(&head);
    bool ok = r->root && check_head(r, err);
    for (int s = 0; ok && s < SECTIONS; s++) ok = check_section(r, s, as == READ_WHOLE, err);
    if (as == READ_SERVED) {
        r->text = text;
        r->damage = fb_calloc(1, sizeof *r->damage);
    } else {
        fb_free(text);
    }
    return ok;
}

/* Timelines stay as they are until somebody asks for one. */
static bool read_compressed(fb_recording *r, const char *bytes, size_t n, read_as as, fb_error *err)
{
    size_t used, n_text;
    char *text = fb_gunzip(bytes, n, FB_RECORDING_MAX, &n_text, &used, err);
    bool ok = text && read_text(r, text, n_text, as, err);
    r->n_apart = ok && as != READ_HEAD ? n - used : 0;
    if (!r->n_apart) return ok;
    r->apart = fb_alloc(r->n_apart);
    memcpy(r->apart, bytes + used, r->n_apart);
    return true;
}

static fb_recording *read_any(const char *text, size_t n, read_as as, fb_error *err)
{
    fb_recording *r = fb_calloc(1, sizeof *r);
    bool ok;
    if (fb_is_gzip(text, n)) {
        ok = read_compressed(r, text, n, as, err);
    } else {
        char *own = fb_alloc(n + 1);
        memcpy(own, text, n);
        ok = read_text(r, own, n, as, err);
    }
    if (ok) return r;
    fb_recording_free(r);
    return NULL;
}

fb_recording *fb_recording_read(const char *text, size_t n, fb_error *err)
{
    return read_any(text, n, READ_WHOLE, err);
}

void fb_recording_free(fb_recording *r)
{
    if (!r) return;
    json_decref(r->root);
    json_decref(r->timelines);
    fb_free(r->apart);
    fb_recording_places_free(&r->places);
    fb_free(r->text);
    fb_free(r->damage);
    fb_free(r);
}

static json_t *read_figure(const fb_recording *r, fb_figures of, const char *key, fb_error *err)
{
    const fb_recording_place *place = fb_recording_place_of(&r->places, of, key);
    json_t *value = place ? fb_json_parse(place->value, place->n_value, err) : NULL;
    bool ok = value != NULL;
    for (int s = 0; ok && s < SECTIONS; s++) {
        if (fb_recording_figures(section[s].key) != of) continue;
        ok = (!section[s].named || is_name(key)) &&
             (json_is_object(value) || !section[s].object || wrong(err, section[s].key, key, "an object")) &&
             section[s].check(key, value, err);
    }
    if (ok) return value;
    json_decref(value);
    return NULL;
}

/* A figure of the section `whole`; NULL: it has none of that name, or a damaged one. */
static json_t *figure(const fb_recording *r, fb_figures of, json_t *whole, const char *key)
{
    json_t *value = json_object_get(whole, key);
    if (!r->text || (value && (!json_is_object(value) || json_object_size(value)))) return value;
    value = read_figure(r, of, key, r->damage);
    if (value) json_object_set_new(whole, key, value);
    return value;
}

bool fb_recording_sound(const fb_recording *r, fb_error *err)
{
    return !r->damage || !r->damage->kind || fb_fail(err, r->damage->kind, "%s", r->damage->text);
}

static void add_value(fb_str *out, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(4));
    fb_str_add(out, text);
    fb_free(text);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One entry a line, in order, so that files of two recordings can be compared. */
static void add_section(fb_str *out, const json_t *whole)
{
    FB_VEC(const char *) keys = {0};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)whole, key, value) FB_VEC_PUSH(&keys, key);
    if (keys.n) qsort(keys.at, (size_t)keys.n, sizeof *keys.at, by_text);
    fb_str_add(out, "{");
    for (int i = 0; i < keys.n; i++) {
        json_t *name = json_string(keys.at[i]);
        fb_str_add(out, i ? ",\n" : "\n");
        add_value(out, name);
        fb_str_add(out, ":");
        add_value(out, json_object_get(whole, keys.at[i]));
        json_decref(name);
    }
    fb_str_add(out, "}");
    FB_VEC_FREE(&keys);
}

static bool is_section(const char *key)
{
    for (int s = 0; s < SECTIONS; s++)
        if (strcmp(section[s].key, key) == 0) return true;
    return false;
}

static bool open_timelines(fb_recording *r, fb_error *err)
{
    size_t used, n;
    if (r->timelines) return true;
    char *text = r->apart ? fb_gunzip(r->apart, r->n_apart, FB_RECORDING_MAX, &n, &used, err) : NULL;
    if (r->apart && !text) return fb_fail_prefix(err, "its timelines");
    r->timelines = text ? fb_json_parse(text, n, err) : json_object();
    fb_free(text);
    if (json_is_object(r->timelines)) return true;
    json_decref(r->timelines);
    r->timelines = NULL;
    return fb_fail(err, FB_ERR_INPUT, "a recording: its timelines are no object");
}

/* Both members. */
static bool write_compressed(fb_recording *r, const char *path, const fb_str *text, fb_error *err)
{
    fb_str bytes = {0}, timelines = {0};
    if (!open_timelines(r, err)) return fb_fail_prefix(err, "%s", path);
    fb_gzip(text->text, text->n, &bytes);
    add_section(&timelines, r->timelines);
    fb_str_add(&timelines, "\n");
    if (json_object_size(r->timelines)) fb_gzip(timelines.text, timelines.n, &bytes);
    bool ok = fb_write_file(path, bytes.text, bytes.n, err);
    fb_str_free(&bytes);
    fb_str_free(&timelines);
    return ok;
}

bool fb_recording_write(fb_recording *r, const char *path, fb_error *err)
{
    fb_str out = {0};
    const char *key;
    json_t *value;
    FB_ASSERT(!r->text); /* one that is served does not have all in its objects */
    json_object_foreach(r->root, key, value)
    {
        if (is_section(key)) continue;
        fb_str_addf(&out, "%s\"%s\":", out.n ? ",\n" : "{", key);
        add_value(&out, value);
    }
    for (int s = 0; s < SECTIONS; s++) {
        fb_str_addf(&out, ",\n\"%s\":", section[s].key);
        add_section(&out, json_object_get(r->root, section[s].key));
    }
    fb_str_add(&out, "}\n");
    bool ok =
        fb_text_ends(path, ".gz") ? write_compressed(r, path, &out, err) : fb_write_file(path, out.text, out.n, err);
    fb_str_free(&out);
    return ok;
}

/* ---- the head ---- */

const fb_machine *fb_recording_machine(const fb_recording *r)
{
    return &r->machine;
}

void fb_recording_set_machine(fb_recording *r, const fb_machine *m)
{
    r->machine = *m;
    json_object_set_new(r->root, "machine", fb_machine_to_json(m));
    fb_recording_set_text(r, "device", m->name);
}

const char *fb_recording_text(const fb_recording *r, const char *key)
{
    return fb_json_string_or(r->root, key, NULL);
}

void fb_recording_set_text(fb_recording *r, const char *key, const char *text)
{
    if (text)
        json_object_set_new(r->root, key, json_string(text));
    else
        json_object_del(r->root, key);
}

double fb_recording_clock_mhz(const fb_recording *r)
{
    return fb_json_number_or(r->root, "clock_mhz", NAN);
}

void fb_recording_set_clock_mhz(fb_recording *r, double mhz)
{
    fb_json_set_number(r->root, "clock_mhz", mhz);
}

void fb_recording_add_script(fb_recording *r, const char *script, const char *variant, fb_hash graph)
{
    char hash[FB_SIGNATURE];
    if (!json_object_get(r->scripts, script)) json_object_set_new(r->scripts, script, json_object());
    json_object_set_new(json_object_get(r->scripts, script), variant, json_string(cut(graph, hash)));
}

const json_t *fb_recording_scripts(const fb_recording *r)
{
    return r->scripts;
}

void fb_recording_set_experiment(fb_recording *r, const char *script, const json_t *graphs)
{
    json_object_set_new(r->experiments, script, json_deep_copy(graphs));
}

const json_t *fb_recording_experiment(const fb_recording *r, const char *script)
{
    return json_object_get(r->experiments, script);
}

/* ---- stats and numbers ---- */

/* Four digits are more than a measurement has. */
static json_t *rounded(double v)
{
    char text[32];
    if (!isfinite(v)) return json_null();
    snprintf(text, sizeof text, "%.4g", v);
    double short_v = strtod(text, NULL);
    return short_v == floor(short_v) && short_v < 1e15 ? json_integer((json_int_t)short_v) : json_real(short_v);
}

static json_t *stat_to_json(const fb_stat *s)
{
    json_t *list = json_array();
    json_array_append_new(list, rounded(s->median));
    json_array_append_new(list, rounded(s->p10));
    json_array_append_new(list, rounded(s->p90));
    json_array_append_new(list, json_integer(s->n));
    return list;
}

static void set_stat(json_t *object, const char *key, const fb_stat *s)
{
    if (s->n > 0) json_object_set_new(object, key, stat_to_json(s));
}

static double number_at(const json_t *list, size_t i)
{
    const json_t *one = json_array_get(list, i);
    return json_is_number(one) ? json_number_value(one) : NAN;
}

static fb_stat stat_of(const json_t *list)
{
    if (json_array_size(list) != STAT) return (fb_stat){NAN, NAN, NAN, 0};
    return (fb_stat){number_at(list, 0), number_at(list, 1), number_at(list, 2), (int)number_at(list, 3)};
}

static fb_stat get_stat(const json_t *object, const char *key)
{
    return stat_of(json_object_get(object, key));
}

/* ---- rounds ---- */

static void set_rounds(json_t *object, const char *key, const fb_rounds *rounds)
{
    json_t *at = json_array(), *wall = json_array(), *device = json_array();
    double turn = rounds->n ? floor(rounds->at[0].at_us / TURN_US) * TURN_US : 0;
    for (int i = 0; i < rounds->n; i++) {
        json_array_append_new(at, json_integer((json_int_t)llround(rounds->at[i].at_us - turn)));
        json_array_append_new(wall, rounded(rounds->at[i].wall_us));
        json_array_append_new(device, rounded(rounds->at[i].device_us));
    }
    json_t *all = json_pack("{s:I, s:o, s:o, s:o}", "turn", (json_int_t)turn, "at", at, "wall", wall, "device", device);
    if (rounds->n)
        json_object_set_new(object, key, all);
    else
        json_decref(all);
}

static void get_rounds(const json_t *o, fb_rounds *to)
{
    const json_t *at = json_object_get(o, "at"), *wall = json_object_get(o, "wall"),
                 *device = json_object_get(o, "device"), *one;
    double turn = fb_json_number_or(o, "turn", 0);
    size_t i;
    to->n = 0;
    json_array_foreach(at, i, one)
    {
        to->at[to->n++] = (fb_round){turn + json_number_value(one), number_at(wall, i), number_at(device, i)};
    }
}

/* ---- kernels ---- */

bool fb_recording_kernel(const fb_recording *r, const char *code, fb_recorded_kernel *out)
{
    const json_t *k = figure(r, FB_FIGURES_KERNELS, r->kernels, code), *dram = json_object_get(k, "dram");
    *out = (fb_recorded_kernel){
        .hot_us = get_stat(k, "hot"),
        .cold_us = get_stat(k, "cold"),
        .dram_read = number_at(dram, 0),
        .dram_written = number_at(dram, 1),
        .l2_bytes = fb_json_number_or(k, "l2", NAN),
        .resources = {.registers = (int)fb_json_number_or(k, "registers", -1),
                      .shared_bytes = (int)fb_json_number_or(k, "shared", -1),
                      .spill_bytes = (int)fb_json_number_or(k, "spill", -1),
                      .local_bytes = fb_json_number_or(k, "local", NAN),
                      .occupancy = fb_json_number_or(k, "occupancy", NAN)},
    };
    return k != NULL;
}

static void set_rounded(json_t *object, const char *key, double v)
{
    if (isfinite(v) && v >= 0) json_object_set_new(object, key, rounded(v));
}

void fb_recording_set_kernel(fb_recording *r, const char *code, const fb_recorded_kernel *k)
{
    json_t *o = json_object();
    set_stat(o, "hot", &k->hot_us);
    set_stat(o, "cold", &k->cold_us);
    if (isfinite(k->dram_read) && isfinite(k->dram_written)) {
        json_t *dram = json_array();
        json_array_append_new(dram, rounded(k->dram_read));
        json_array_append_new(dram, rounded(k->dram_written));
        json_object_set_new(o, "dram", dram);
    }
    set_rounded(o, "l2", k->l2_bytes);
    set_rounded(o, "registers", k->resources.registers);
    set_rounded(o, "shared", k->resources.shared_bytes);
    set_rounded(o, "spill", k->resources.spill_bytes);
    set_rounded(o, "local", k->resources.local_bytes);
    set_rounded(o, "occupancy", k->resources.occupancy);
    json_object_set_new(r->kernels, code, o);
}

/* ---- groups ---- */

int fb_recording_group(const fb_recording *r, const char *signature)
{
    const json_t *codes = figure(r, FB_FIGURES_GROUPS, r->groups, signature);
    return codes ? (int)json_array_size(codes) : -1;
}

const char *fb_recording_group_code(const fb_recording *r, const char *signature, int launch)
{
    return json_string_value(json_array_get(figure(r, FB_FIGURES_GROUPS, r->groups, signature), (size_t)launch));
}

void fb_recording_set_group(fb_recording *r, const char *signature, int n, const char *const *codes)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_string(codes[i]));
    json_object_set_new(r->groups, signature, list);
}

/* Graphs that a script or an experiment has. */
static json_t *listed_graphs(const fb_recording *r)
{
    const char *script, *variant;
    json_t *listed = json_object(), *variants, *graph;
    json_object_foreach(r->scripts, script, variants)
    {
        json_object_foreach(variants, variant, graph)
            json_object_set_new(listed, json_string_value(graph), json_true());
    }
    json_object_foreach(r->experiments, script, variants) json_object_update(listed, variants);
    return listed;
}

static void prune_plans(fb_recording *r)
{
    const char *key;
    json_t *listed = listed_graphs(r), *value;
    void *next;
    json_object_foreach_safe(r->plans, next, key, value)
    {
        const char *graph = fb_json_string_or(value, "graph_is", NULL);
        if (graph && !json_object_get(listed, graph)) json_object_del(r->plans, key);
    }
    json_object_foreach_safe(r->peer_plans, next, key, value)
    {
        char graph[FB_SIGNATURE];
        snprintf(graph, sizeof graph, "%s", key);
        if (!json_object_get(listed, graph)) json_object_del(r->peer_plans, key);
    }
    json_decref(listed);
}

static void prune_timelines(fb_recording *r)
{
    const char *key;
    json_t *value;
    void *next;
    if (!open_timelines(r, NULL)) return;
    json_object_foreach_safe(r->timelines, next, key, value)
    {
        if (!json_object_get(r->plans, key)) json_object_del(r->timelines, key);
    }
}

void fb_recording_prune(fb_recording *r)
{
    const char *key;
    json_t *used = json_object(), *value, *code;
    void *next;
    size_t i;
    prune_plans(r);
    prune_timelines(r);
    json_object_foreach(r->groups, key, value)
    {
        json_array_foreach(value, i, code) json_object_set_new(used, json_string_value(code), json_true());
    }
    json_object_foreach(r->plans, key, value) json_object_update(used, json_object_get(value, "kernels"));
    json_object_foreach_safe(r->kernels, next, key, value)
    {
        if (!json_object_get(used, key)) json_object_del(r->kernels, key);
    }
    json_decref(used);
}

/* ---- plans ---- */

enum { MODES = 3 };
static const char *const mode_name[MODES] = {
    [FB_LAUNCH_STREAM] = "stream", [FB_LAUNCH_GRAPH] = "graph", [FB_LAUNCH_MEGA] = "mega"};

bool fb_recording_plan(const fb_recording *r, const char *signature, fb_recorded_plan *out)
{
    const json_t *p = figure(r, FB_FIGURES_PLANS, r->plans, signature), *error = json_object_get(p, "error");
    const json_t *launches = json_object_get(p, "launches");
    double undecided = number_at(error, 3);
    *out = (fb_recorded_plan){
        .device_us = get_stat(p, "device"),
        .cold_us = get_stat(p, "cold"),
        .max_abs = number_at(error, 0),
        .max_rel = number_at(error, 1),
        .bound = number_at(error, 2),
        .undecided = undecided < 1e15 ? (int64_t)undecided : 0, /* and when it is not known */
        .launches = fmax(0, number_at(launches, 0)),
        .calls = fmax(0, number_at(launches, 1)),
    };
    for (int m = 0; m < MODES; m++) {
        out->wall_us[m] = get_stat(p, mode_name[m]);
        get_rounds(json_object_get(json_object_get(p, "rounds"), mode_name[m]), &out->rounds[m]);
    }
    snprintf(out->code, sizeof out->code, "%s", fb_json_string_or(p, "code", ""));
    snprintf(out->graph, sizeof out->graph, "%s", fb_json_string_or(p, "graph_is", ""));
    return p != NULL;
}

void fb_recording_set_plan(fb_recording *r, const char *signature, const fb_recorded_plan *p)
{
    json_t *o = json_pack("{s:s, s:{}}", "code", p->code, "kernels");
    json_t *rounds = json_object();
    for (int m = 0; m < MODES; m++) {
        set_stat(o, mode_name[m], &p->wall_us[m]);
        set_rounds(rounds, mode_name[m], &p->rounds[m]);
    }
    if (json_object_size(rounds)) json_object_set(o, "rounds", rounds);
    json_decref(rounds);
    if (p->graph[0]) json_object_set_new(o, "graph_is", json_string(p->graph));
    set_stat(o, "device", &p->device_us);
    set_stat(o, "cold", &p->cold_us);
    if (isfinite(p->bound)) {
        const double error[] = {p->max_abs, p->max_rel, p->bound, (double)p->undecided};
        json_t *list = json_array();
        for (int i = 0; i < 4; i++) json_array_append_new(list, rounded(error[i]));
        json_object_set_new(o, "error", list);
    }
    json_object_set_new(r->plans, signature, o);
    fb_recording_set_plan_launches(r, signature, p->launches, p->calls);
}

void fb_recording_set_plan_launches(fb_recording *r, const char *signature, double launches, double calls)
{
    json_t *list = json_pack("[o, o]", json_integer((json_int_t)launches), json_integer((json_int_t)calls));
    if (launches > 0) json_object_set(json_object_get(r->plans, signature), "launches", list);
    json_decref(list);
}

typedef FB_VEC(const char *) name_list;

/* Of one that is served they stand in its text. */
static void find_plans(const fb_recording *r, const char *graph, fb_arena *arena, name_list *found)
{
    char field[FB_SIGNATURE + 16];
    size_t n_field = (size_t)snprintf(field, sizeof field, "\"graph_is\":\"%.16s\"", graph);
    for (int i = 0; r->text && i < r->places.in[FB_FIGURES_PLANS].n; i++) {
        const fb_recording_place *p = &r->places.in[FB_FIGURES_PLANS].at[i];
        if (memmem(p->value, p->n_value, field, n_field))
            FB_VEC_PUSH(found, fb_arena_printf(arena, "%.*s", (int)p->n_key, p->key));
    }
    const char *key;
    json_t *value;
    json_object_foreach(r->plans, key, value)
    {
        if (!r->text && strcmp(fb_json_string_or(value, "graph_is", ""), graph) == 0)
            FB_VEC_PUSH(found, fb_arena_strdup(arena, key));
    }
}

int fb_recording_plans(const fb_recording *r, const char *graph, fb_arena *arena, const char ***out)
{
    name_list found = {0};
    find_plans(r, graph, arena, &found);
    if (found.n) qsort(found.at, (size_t)found.n, sizeof *found.at, by_text);
    *out = fb_arena_copy(arena, found.at, (size_t)found.n * sizeof *found.at);
    int n = found.n;
    FB_VEC_FREE(&found);
    return n;
}

static json_t *plan_kernels(const fb_recording *r, const char *signature)
{
    return json_object_get(figure(r, FB_FIGURES_PLANS, r->plans, signature), "kernels");
}

bool fb_recording_plan_kernel(const fb_recording *r, const char *signature, const char *code, fb_stat *out)
{
    *out = stat_of(json_object_get(plan_kernels(r, signature), code));
    return out->n > 0;
}

json_t *fb_recording_plan_kernels(const fb_recording *r, const char *signature)
{
    return json_incref(plan_kernels(r, signature));
}

void fb_recording_set_plan_kernels(fb_recording *r, const char *signature, const json_t *kernels)
{
    json_object_update(plan_kernels(r, signature), (json_t *)kernels);
}

void fb_recording_set_plan_kernel(fb_recording *r, const char *signature, const char *code, const fb_stat *hot_us)
{
    set_stat(plan_kernels(r, signature), code, hot_us);
}

/* ---- timelines ---- */

enum { SPANS_KEPT = 600, SAMPLES_KEPT = 250, RUNS_KEPT = 250, HUNDREDTHS = 100 };

/* µs → hundredths, or back. */
static json_t *scaled(const json_t *value, bool in)
{
    if (!json_is_number(value)) return json_null();
    double v = json_number_value(value);
    return in ? json_integer((json_int_t)llround(v * HUNDREDTHS)) : json_real(v / HUNDREDTHS);
}

static json_t *scaled_list(const json_t *list, size_t most, bool in)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(list) && i < most; i++)
        json_array_append_new(out, scaled(json_array_get(list, i), in));
    return out;
}

/* [index, start, end, issued, issue ended, stream, lane] */
static json_t *scaled_span(const json_t *span, bool in)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(span); i++) {
        json_t *one = json_array_get(span, i);
        json_array_append_new(out, i >= 1 && i <= 4 ? scaled(one, in) : json_incref(one));
    }
    return out;
}

static json_t *scaled_metrics(const json_t *m, bool in)
{
    size_t names = json_array_size(json_object_get(m, "names")), n = json_array_size(json_object_get(m, "at_us"));
    if (n > SAMPLES_KEPT) n = SAMPLES_KEPT;
    json_t *values = json_array(), *all = json_object_get(m, "values");
    for (size_t i = 0; i < n * names && i < json_array_size(all); i++) {
        json_t *one = json_array_get(all, i);
        json_array_append_new(values, json_is_number(one) ? rounded(json_number_value(one)) : json_null());
    }
    return json_pack("{s:O, s:o, s:o, s:o, s:o}", "names", json_object_get(m, "names"), "interval_us",
                     scaled(json_object_get(m, "interval_us"), in), "at_us",
                     scaled_list(json_object_get(m, "at_us"), n, in), "values", values, "runs",
                     scaled_list(json_object_get(m, "runs"), 2 * (size_t)RUNS_KEPT, in));
}

static json_t *scaled_timeline(const json_t *t, bool in)
{
    static const char *const same[] = {"names", "kernels", "no_metrics"};
    json_t *out = json_object(), *spans = json_array(), *all = json_object_get(t, "spans"), *one;
    const json_t *metrics = json_object_get(t, "metrics");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) json_object_set(out, same[i], json_object_get(t, same[i]));
    size_t i;
    json_array_foreach(all, i, one)
    {
        if (i < SPANS_KEPT) json_array_append_new(spans, scaled_span(one, in));
    }
    json_object_set_new(out, "spans", spans);
    if (json_is_array(json_object_get(metrics, "names")))
        json_object_set_new(out, "metrics", scaled_metrics(metrics, in));
    return out;
}

json_t *fb_recording_timeline(fb_recording *r, const char *signature, fb_error *err)
{
    if (!open_timelines(r, err)) return NULL;
    const json_t *t = json_object_get(r->timelines, signature);
    if (t) return scaled_timeline(t, false);
    fb_fail(err, FB_ERR_UNAVAILABLE, "the recording kept no timeline of this plan");
    return NULL;
}

void fb_recording_set_timeline(fb_recording *r, const char *signature, const json_t *timeline)
{
    if (open_timelines(r, NULL)) json_object_set_new(r->timelines, signature, scaled_timeline(timeline, true));
}

/* ---- peers ---- */

static const char *peer_key(fb_str *to, const char *graph, const char *device, const char *plan)
{
    fb_str_addf(to, "%s %s %s", graph, device, plan);
    return fb_str_get(to);
}

const char *fb_recording_peer(const fb_recording *r, const char *device, const char *key)
{
    return fb_json_string_or(json_object_get(r->peers, device), key, NULL);
}

static bool is_of_peer(const char *key, const char *device)
{
    size_t n = strlen(device);
    const char *at = strchr(key, ' ');
    return at && strncmp(at + 1, device, n) == 0 && at[1 + n] == ' ';
}

bool fb_recording_set_peer(fb_recording *r, const char *device, const char *name, const char *date)
{
    const char *was = fb_recording_peer(r, device, "name"), *key;
    bool same = was && strcmp(was, name) == 0;
    int dropped = 0;
    void *next;
    json_t *value;
    json_object_foreach_safe(r->peer_plans, next, key, value)
    {
        if (same || !is_of_peer(key, device)) continue;
        json_object_del(r->peer_plans, key);
        dropped++;
    }
    json_object_set_new(r->peers, device, json_pack("{s:s, s:s}", "name", name, "date", date));
    return !dropped;
}

bool fb_recording_peer_plan(const fb_recording *r, const char *graph, const char *device, const char *plan,
                            fb_peer_plan *out)
{
    fb_str key = {0};
    const json_t *p = figure(r, FB_FIGURES_PEER_PLANS, r->peer_plans, peer_key(&key, graph, device, plan)),
                 *error = json_object_get(p, "error"), *one;
    size_t i;
    *out = (fb_peer_plan){.wall_us = get_stat(p, "wall"),
                          .device_us = get_stat(p, "device"),
                          .cold_us = get_stat(p, "cold"),
                          .launches = fb_json_int_or(p, "launches", -1),
                          .launch_mode = fb_json_string_or(p, "mode", NULL),
                          .max_abs = number_at(error, 0),
                          .max_rel = number_at(error, 1),
                          .bound = number_at(error, 2)};
    get_rounds(json_object_get(p, "rounds"), &out->rounds);
    json_array_foreach(json_object_get(p, "kernels"), i, one)
    {
        out->kernels[out->n_kernels++] = (fb_peer_kernel){.name = fb_json_string_or(one, "name", ""),
                                                          .family = fb_json_string_or(one, "family", NULL),
                                                          .count = fb_json_int_or(one, "count", 1),
                                                          .device_us = get_stat(one, "us")};
    }
    fb_str_free(&key);
    return p != NULL;
}

/* Cut between two characters. */
static json_t *short_text(const char *text)
{
    size_t n = strlen(text);
    if (n > FB_PEER_NAME)
        for (n = FB_PEER_NAME; n && ((unsigned char)text[n] & 0xc0) == 0x80;) n--;
    return json_stringn(text, n);
}

void fb_recording_set_peer_plan(fb_recording *r, const char *graph, const char *device, const char *plan,
                                const fb_peer_plan *p)
{
    fb_str key = {0};
    json_t *o = json_object(), *kernels = json_array();
    if (p->launch_mode) json_object_set_new(o, "mode", short_text(p->launch_mode));
    set_stat(o, "wall", &p->wall_us);
    set_stat(o, "device", &p->device_us);
    set_stat(o, "cold", &p->cold_us);
    set_rounds(o, "rounds", &p->rounds);
    if (p->launches >= 0) json_object_set_new(o, "launches", json_integer(p->launches));
    if (isfinite(p->bound)) {
        json_t *error = json_array();
        json_array_append_new(error, rounded(p->max_abs));
        json_array_append_new(error, rounded(p->max_rel));
        json_array_append_new(error, rounded(p->bound));
        json_object_set_new(o, "error", error);
    }
    for (int i = 0; i < p->n_kernels; i++) {
        const fb_peer_kernel *k = &p->kernels[i];
        json_t *one = json_pack("{s:o, s:I}", "name", short_text(k->name), "count", (json_int_t)k->count);
        if (k->family) json_object_set_new(one, "family", short_text(k->family));
        set_stat(one, "us", &k->device_us);
        json_array_append_new(kernels, one);
    }
    json_object_set_new(o, "kernels", kernels);
    json_object_set_new(r->peer_plans, peer_key(&key, graph, device, plan), o);
    fb_str_free(&key);
}

void fb_recording_peer_plans(const fb_recording *r, const char *graph, const char *device, fb_str *out)
{
    FB_VEC(const char *) names = {0};
    const char *key;
    json_t *value;
    fb_str start = {0};
    size_t n = strlen(peer_key(&start, graph, device, ""));
    json_object_foreach(r->peer_plans, key, value)
    {
        if (strncmp(key, start.text, n) == 0) FB_VEC_PUSH(&names, key + n);
    }
    if (names.n) qsort(names.at, (size_t)names.n, sizeof *names.at, by_text);
    for (int i = 0; i < names.n; i++) fb_str_addf(out, "%s%s", i ? ", " : "", names.at[i]);
    FB_VEC_FREE(&names);
    fb_str_free(&start);
}

/* ---- where they are ---- */

static bool user_folder(char *to, size_t room)
{
    const char *own = getenv("FUSEBOX_RECORDINGS"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n = own && *own              ? snprintf(to, room, "%s", own)
            : data && data[0] == '/' ? snprintf(to, room, "%s/fusebox/recordings", data)
            : home && home[0] == '/' ? snprintf(to, room, "%s/.local/share/fusebox/recordings", home)
                                     : -1;
    return n > 0 && n < (int)room;
}

/* Of two files of a name the first is taken. */
static const char *const ending[] = {".json.gz", ".json"};
enum { ENDINGS = sizeof ending / sizeof *ending };

/* "h200" of "h200.json.gz"; device names stand in columns, so that only plain ones count. */
static const char *name_in(const char *file, fb_arena *arena)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t n = strspn(file, plain);
    if (n < 1 || n > 40) return NULL;
    for (int i = 0; i < ENDINGS; i++)
        if (strcmp(file + n, ending[i]) == 0) return fb_arena_printf(arena, "%.*s", (int)n, file);
    return NULL;
}

static void add_name(name_list *names, const char *name)
{
    for (int i = 0; name && i < names->n; i++)
        if (strcmp(names->at[i], name) == 0) return;
    if (name) FB_VEC_PUSH(names, name);
}

int fb_recording_names(fb_arena *arena, const char ***out)
{
    char folder[4096];
    name_list names = {0};
    DIR *dir = user_folder(folder, sizeof folder) ? opendir(folder) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) add_name(&names, name_in(e->d_name, arena));
    if (dir) closedir(dir);
    if (names.n) qsort(names.at, (size_t)names.n, sizeof *names.at, by_text);
    size_t n = sizeof embedded_folder - 1;
    for (const fb_embedded_file *f = fb_embedded_files; f->path; f++)
        if (strncmp(f->path, embedded_folder, n) == 0) add_name(&names, name_in(f->path + n, arena));
    *out = fb_arena_copy(arena, names.at, (size_t)names.n * sizeof *names.at);
    int count = names.n;
    FB_VEC_FREE(&names);
    return count;
}

/* A file of the user's: NULL where there is none, with an error where there is one that cannot be read. */
static char *read_own(const char *name, char path[4400], size_t *n, fb_error *err)
{
    char folder[4096];
    fb_error why = {0};
    for (int i = 0; user_folder(folder, sizeof folder) && i < ENDINGS; i++) {
        snprintf(path, 4400, "%s/%.64s%s", folder, name, ending[i]);
        char *text = fb_read_file(path, FB_RECORDING_MAX, n, &why);
        if (text) return text;
        if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0) continue;
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s", why.text); /* there, and nothing to read */
        return NULL;
    }
    return NULL;
}

static const fb_embedded_file *carried(const char *name, char path[4400])
{
    const fb_embedded_file *f = NULL;
    for (int i = 0; !f && i < ENDINGS; i++) {
        snprintf(path, 4400, "%s%.64s%s", embedded_folder, name, ending[i]);
        f = fb_embedded_find(path);
    }
    return f;
}

static fb_recording *open_any(const char *name, read_as as, fb_error *err)
{
    char path[4400];
    size_t n;
    fb_error why = {0};
    char *text = read_own(name, path, &n, &why);
    const fb_embedded_file *f = text || why.kind ? NULL : carried(name, path);
    if (!text && !f) {
        if (why.kind)
            fb_fail(err, why.kind, "%s", why.text);
        else
            fb_fail(err, FB_ERR_UNAVAILABLE, "there is no recording \"%.64s\"", name);
        return NULL;
    }
    fb_recording *r = text ? read_any(text, n, as, &why) : read_any(f->text, f->size, as, &why);
    fb_free(text);
    if (!r) fb_fail(err, why.kind, "%s: %s", path, why.text);
    return r;
}

fb_recording *fb_recording_open(const char *name, fb_error *err)
{
    return open_any(name, READ_SERVED, err);
}

fb_recording *fb_recording_open_head(const char *name, fb_error *err)
{
    return open_any(name, READ_HEAD, err);
}
