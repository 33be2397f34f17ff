/* A puzzle's right answer, which depends on who launches and on the device: the script's own function finds it in the
 * waterfall of the columns that are compared. */
#include "session/internal.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

static void known(fb_session *s, const char *key)
{
    s->answer = (fb_answer){.state = FB_ANSWER_KNOWN};
    fb_text_clean(s->answer.key, sizeof s->answer.key, key, strlen(key));
    s->answer_request = 0;
    fb_session_changed(s);
}

static void failed(fb_session *s, const fb_error *why)
{
    s->answer = (fb_answer){.state = FB_ANSWER_FAILED, .error = *why};
    s->answer_request = 0;
    fb_session_changed(s);
}

bool fb_session_ask(fb_session *s, const fb_why *why, fb_error *err)
{
    const fb_puzzle *puzzle = s->info ? s->info->puzzle : NULL;
    if (!puzzle) return fb_fail(err, FB_ERR_INPUT, "the script asks no puzzle");
    if (why->tie || !puzzle->has_answer) {
        fb_why_id largest = fb_why_largest(why);
        known(s, why->tie ? "tie" : largest == FB_WHY_NONE ? "" : fb_why_name(largest));
        return true;
    }
    if (!fb_script_ready(s, err)) return false;
    json_t *value = fb_why_to_json(why);
    s->answer = (fb_answer){.state = FB_ANSWER_ASKED};
    s->answer_request = fb_script_answer(s->script, value);
    json_decref(value);
    return true;
}

const fb_answer *fb_session_answer(const fb_session *s)
{
    return &s->answer;
}

bool fb_puzzle_event(fb_session *s, const fb_script_event *e)
{
    if (!e->id || e->id != s->answer_request) return false;
    const json_t *answer = json_object_get(e->message, "answer");
    fb_error why = e->error;
    if (e->kind == FB_SCRIPT_ANSWER && (json_is_string(answer) || json_is_null(answer) || !answer)) {
        known(s, json_is_string(answer) ? json_string_value(answer) : "");
    } else {
        if (e->kind == FB_SCRIPT_ANSWER)
            fb_fail(&why, FB_ERR_INPUT, "the puzzle's answer function returns no choice's key");
        failed(s, &why);
    }
    return true;
}

void fb_puzzle_lost(fb_session *s)
{
    if (s->answer_request) failed(s, &s->script_error);
}
