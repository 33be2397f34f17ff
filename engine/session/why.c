/* Picks the reports, plans and machines that measure/why.h compares, and says what is missing for it. */
#include "session/session.h"

#include <stdio.h>
#include <string.h>

/* A framework runs on the hardware that our own devices calibrate: "torch:h200" was recorded on that of "replay:h200",
 * and one that is here runs on the default device's, which is the first GPU where there is one. */
static const fb_machine *machine_of(const fb_session *s, const fb_column *c)
{
    bool foreign = !c->machine->target->generates;
    const char *colon = foreign ? strchr(c->device, ':') : NULL;
    char replay[128];
    snprintf(replay, sizeof replay, "replay%s", colon ? colon : "");
    const fb_machine *recorded = colon ? fb_session_machine(s, replay) : NULL;
    if (recorded) return recorded;
    const char *device = foreign ? fb_session_default_device(s) : NULL;
    const fb_machine *m = device ? fb_session_machine(s, device) : NULL;
    return m && m->target->generates ? m : c->machine;
}

static bool both(const fb_session *s, int a, int b, const fb_column *c[2], fb_error *err)
{
    const int which[] = {a, b};
    for (int i = 0; i < 2; i++) {
        c[i] = fb_session_column(s, which[i]);
        if (c[i]->state == FB_COLUMN_FAILED)
            return fb_fail(err, c[i]->error.kind, "%s: %s", c[i]->text, c[i]->error.text);
        if (!c[i]->report || !c[i]->machine)
            return fb_fail(err, FB_ERR_UNAVAILABLE, "%s has not been measured yet", c[i]->text);
    }
    return true;
}

bool fb_session_why(const fb_session *s, int a, int b, fb_why *out, fb_error *err)
{
    const fb_column *c[2];
    return both(s, a, b, c, err) &&
           fb_why_of(c[0]->report, c[1]->report, machine_of(s, c[0]), machine_of(s, c[1]), out, err);
}

bool fb_session_why_reports(const fb_session *s, int a, int b, const fb_report *of_a, const fb_report *of_b,
                            fb_why *out, fb_error *err)
{
    const fb_column *ca = fb_session_column(s, a), *cb = fb_session_column(s, b);
    const fb_column *blind = !ca->machine ? ca : !cb->machine ? cb : NULL;
    if (blind) return fb_fail(err, FB_ERR_UNAVAILABLE, "%s: its device is not known", blind->text);
    return fb_why_of(of_a, of_b, machine_of(s, ca), machine_of(s, cb), out, err);
}

bool fb_session_why_time(const fb_session *s, int a, int b, fb_time of, fb_why *out, fb_error *err)
{
    const fb_column *c[2];
    return both(s, a, b, c, err) &&
           fb_why_of_time(c[0]->report, c[1]->report, machine_of(s, c[0]), machine_of(s, c[1]), of, out, err);
}
