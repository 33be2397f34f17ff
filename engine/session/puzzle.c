/* A puzzle's right answers, which depend on who launches and on the device: the waterfall of the columns that are
 * compared gives them (session/grade.h), or the script's own function finds one there. */
#include "session/internal.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

static void known(fb_session *s, const fb_grade *grade)
{
    s->answer = (fb_answer){.state = FB_ANSWER_KNOWN, .grade = *grade};
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
    fb_grade grade;
    fb_grade_of(puzzle, why, &grade);
    if (!puzzle->has_answer || grade.turned || grade.state == FB_GRADE_TIE) {
        known(s, &grade);
        return true;
    }
    if (!fb_session_script_ready(s, err)) return false;
    json_t *value = fb_why_to_json(why);
    s->answer = (fb_answer){.state = FB_ANSWER_ASKED, .grade = grade};
    s->answer_request = fb_script_answer(s->script, value);
    json_decref(value);
    return true;
}

const fb_answer *fb_session_answer(const fb_session *s)
{
    return &s->answer;
}

bool fb_session_puzzle_event(fb_session *s, const fb_script_event *e)
{
    if (!e->id || e->id != s->answer_request) return false;
    const json_t *answer = json_object_get(e->message, "answer");
    const fb_puzzle *puzzle = s->info ? s->info->puzzle : NULL;
    fb_error why = e->error;
    bool fits = e->kind == FB_SCRIPT_ANSWER && puzzle && (json_is_string(answer) || json_is_null(answer) || !answer);
    if (fits &&
        fb_grade_answer(puzzle, json_is_string(answer) ? json_string_value(answer) : "", &s->answer.grade, &why)) {
        const fb_grade grade = s->answer.grade;
        known(s, &grade);
    } else {
        if (e->kind == FB_SCRIPT_ANSWER && !fits)
            fb_fail(&why, FB_ERR_INPUT, "the puzzle's answer function returns no choice's key");
        failed(s, &why);
    }
    return true;
}

void fb_session_puzzle_lost(fb_session *s)
{
    if (s->answer_request) failed(s, &s->script_error);
}
