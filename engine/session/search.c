/* The plan `best`: a search in the worker of the column's device. It is a job like measuring, so that neither disturbs
 * the other, and goes before the measurements that wait for its column. */
#include "session/internal.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void fb_search_start(fb_session *s, fb_column_record *c, const fb_device_record *d)
{
    fb_job *j = fb_calloc(1, sizeof *j);
    j->column = c;
    j->worker = d->worker;
    j->stage = FB_JOB_SEARCH;
    c->job = j;
    FB_VEC_PUSH(&s->jobs, j);
    c->shown.searching = true;
    snprintf(c->shown.progress, sizeof c->shown.progress, "waiting to search");
    fb_devices_interrupt(s, d->worker);
    fb_session_changed(s);
}

void fb_search_send(fb_session *s, fb_job *j)
{
    fb_column_record *c = j->column;
    /* one seed: what is found is verified with more when it is measured */
    fb_measure_options o = {.seeds = {s->options.seed}, .n_seeds = 1};
    const fb_machine *as = c->shown.machine->target->stands_in ? s->options.plan_as : NULL;
    fb_error why = {0};
    if (!fb_scheduler_send_files(s, j->worker, c->shown.written, &why)) fb_session_say(s, "%s", why.text);
    j->outstanding = true;
    j->id =
        fb_worker_search(s->workers[j->worker].worker, c->shown.written, fb_session_device_called(s, c->shown.device),
                         &o, c->search_again || s->options.search_again, as);
}

/* The plan before it is there still, if there was one. */
void fb_search_ended(fb_column_record *c, const fb_error *why)
{
    c->plan_wanted = false;
    c->shown.searching = false;
    if (why->kind != FB_ERR_CANCELLED || !c->history) {
        fb_error told = *why;
        if (why->kind == FB_ERR_CANCELLED)
            fb_fail(&told, FB_ERR_CANCELLED, "the search was cancelled before there was a plan");
        fb_column_fail(c, &told);
        return;
    }
    fb_column_keep_plan(c);
}

static bool take(fb_column_record *c, const json_t *message, fb_error *err)
{
    fb_session *s = c->session;
    bool wait = false;
    fb_device_record *d = fb_session_device_named(s, c->device, &wait, err);
    if (!d || !fb_best_summary_from_json(&c->search, json_object_get(message, "summary"), err)) return false;
    fb_planner *planner = fb_slot_planner_for(s, c->slot, d);
    fb_plan *plan = fb_plan_from_json(planner, json_object_get(message, "plan"), true, NULL, err);
    if (!plan) return false;
    c->searched = true;
    c->search_again = false;
    c->shown.searching = false;
    fb_str text = {0};
    fb_best_sentence(&c->search, &text);
    fb_session_say(s, "%s: %s", c->text, fb_str_get(&text));
    fb_str_free(&text);
    fb_column_take_plan(c, plan, FB_SEARCH_NAME);
    return true;
}

void fb_search_found(fb_column_record *c, const json_t *message)
{
    fb_error why = {0};
    if (take(c, message, &why)) return;
    fb_fail_prefix(&why, "search");
    fb_search_ended(c, &why);
}

bool fb_session_search(fb_session *s, int i, fb_error *err)
{
    fb_column_record *c = fb_column_at(s, i);
    if (!c) return fb_fail(err, FB_ERR_INPUT, "no column %d", i + 1);
    if (fb_column_foreign(c))
        return fb_fail(err, FB_ERR_UNAVAILABLE, "%s plans for itself: nothing is searched there", c->shown.device);
    c->search_again = true;
    return fb_session_set_plan(s, i, FB_SEARCH_NAME, err);
}
