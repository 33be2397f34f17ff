/* What the processes of a worker share, and its two small ones: the reference process, which loads no generated
 * code, and the one that lists devices. */
#include "base/clock.h"
#include "base/confine.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/polite.h"
#include "worker/phases.h"
#include "worker/worker_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- shared by the processes of a worker ---- */

void fb_worker_files_put(fb_worker_files *files, const char *key, double *values, int64_t n)
{
    for (int i = 0; i < files->n; i++) {
        if (strcmp(files->at[i].key, key) != 0) continue;
        fb_free(files->at[i].values);
        files->at[i].values = values;
        files->at[i].n = n;
        return;
    }
    FB_VEC_PUSH(files, (fb_worker_file){.key = fb_strdup(key), .values = values, .n = n});
}

void fb_worker_files_clear(fb_worker_files *files)
{
    for (int i = 0; i < files->n; i++) {
        fb_free(files->at[i].key);
        fb_free(files->at[i].values);
    }
    FB_VEC_FREE(files);
}

bool fb_worker_files_get(void *ctx, const char *key, int64_t n, double *out)
{
    const fb_worker_files *files = ctx;
    for (int i = 0; i < files->n; i++) {
        if (strcmp(files->at[i].key, key) != 0 || files->at[i].n < n) continue;
        memcpy(out, files->at[i].values, (size_t)n * sizeof *out);
        return true;
    }
    return false;
}

void fb_send_error(fb_channel *c, int64_t id, const fb_error *why)
{
    fb_channel_send(c, json_pack("{s:s, s:I, s:s, s:s}", "type", "error", "id", (json_int_t)id, "kind",
                                 fb_error_kind_name(why->kind), "text", why->text));
}

void fb_send_progress(fb_progress_sender *s, const char *what, double fraction)
{
    enum { CHANGED_NS = 20000000, ALIKE_NS = 200000000 };
    int64_t now = fb_now_ns(), since = now - s->sent_ns;
    size_t phase = strcspn(what, "0123456789"); /* "compiling 3 of 7" is the phase of "compiling 4 of 7" */
    bool same_phase = s->sent_ns && strncmp(s->what, what, phase) == 0 && strcspn(s->what, "0123456789") == phase;
    bool changed = strncmp(s->what, what, sizeof s->what - 1) != 0;
    if (same_phase && since < (changed ? CHANGED_NS : ALIKE_NS)) return;
    snprintf(s->what, sizeof s->what, "%s", what);
    s->sent_ns = now;
    fb_channel_send(s->channel, json_pack("{s:s, s:I, s:s, s:f}", "type", "progress", "id", (json_int_t)s->id, "what",
                                          what, "fraction", fraction >= 0 && fraction <= 1 ? fraction : 0));
    fb_channel_flush(s->channel, 0, NULL);
}

fb_channel *fb_channel_private(int in, int out)
{
    int own_in = fcntl(in, F_DUPFD_CLOEXEC, 3), own_out = fcntl(out, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) dup2(null, 0);
    dup2(2, 1);
    if (null > 2) close(null);
    return fb_channel_new(own_in, own_out);
}

/* ---- references ---- */

typedef struct {
    fb_progress_sender sender;
    fb_phases phases;
} reference_progress;

static bool reference_step(void *ctx, const char *what, double fraction)
{
    reference_progress *p = ctx;
    fb_phases_note(&p->phases, "reference", what);
    fb_send_progress(&p->sender, what, fraction);
    return true; /* who does not want it any more kills us */
}

/* It writes references and nothing else; made before, for it may make no folder beside them. */
static void confine_reference(void)
{
    char paths[FB_REFERENCE_PLACES][2048];
    const char *list[FB_REFERENCE_PLACES];
    int n = 0;
    for (int i = 0; i < FB_REFERENCE_PLACES; i++)
        if (fb_reference_folder(i, paths[n], sizeof paths[n], NULL)) list[n] = paths[n], n++;
    fb_confine(FB_ROLE_REFERENCE, &(fb_confine_places){.write = list, .n_write = n});
}

int fb_worker_reference_main(void *ctx, int in, int out)
{
    const fb_reference_job *job = ctx;
    fb_channel *c = fb_channel_private(in, out);
    reference_progress to = {.sender = {.channel = c}};
    fb_progress progress = {.step = reference_step, .ctx = &to};
    fb_error why = {0};
    fb_give_way();
    fb_written_count(job->wrote);
    confine_reference();
    bool ok = true;
    for (int i = 0; ok && i < job->n_seeds; i++)
        ok = fb_reference_make(job->graph, job->seeds[i], fb_worker_files_get, job->files, &progress, &why);
    fb_phases_note(&to.phases, "reference", NULL);
    if (!ok) fb_send_error(c, 0, &why);
    fb_channel_flush(c, 1000, NULL);
    return ok ? 0 : 1;
}

/* ---- listing ---- */

/* What keeps the processes of a worker to what they need. */
static void list_confinement(json_t *libraries)
{
    char text[160];
    bool less;
    fb_confinement_there(text, &less);
    json_array_append_new(libraries, json_pack("{s:s, s:b, s:s}", "name", "confinement", "found", !less,
                                               less ? "missing" : "path", text));
}

int fb_list_main(void *ctx, int in, int out)
{
    const bool *with_libraries = ctx;
    fb_channel *c = fb_channel_private(in, out);
    json_t *devices = json_array(), *libraries = json_array();
    for (int i = 0; fb_device_table[i]; i++) fb_device_table[i]->list(devices, *with_libraries ? libraries : NULL);
    if (*with_libraries) list_confinement(libraries);
    fb_channel_send(c, json_pack("{s:o, s:o}", "devices", devices, "libraries", libraries));
    fb_channel_flush(c, 10000, NULL);
    return 0;
}
