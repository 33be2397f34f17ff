#include "session/session.h"

/* A framework runs on the hardware that our own devices calibrate: the default device's, which is the first GPU where
 * there is one. */
static const fb_machine *machine_of(const fb_session *s, const fb_column *c)
{
    const char *device = c->machine->kind == FB_DEVICE_FOREIGN ? fb_session_default_device(s) : NULL;
    const fb_machine *m = device ? fb_session_machine(s, device) : NULL;
    return m && m->kind != FB_DEVICE_FOREIGN ? m : c->machine;
}

bool fb_session_why(const fb_session *s, int a, int b, fb_why *out, fb_error *err)
{
    const int which[] = {a, b};
    const fb_column *c[2];
    for (int i = 0; i < 2; i++) {
        c[i] = fb_session_column(s, which[i]);
        if (c[i]->state == FB_COLUMN_FAILED)
            return fb_fail(err, c[i]->error.kind, "%s: %s", c[i]->text, c[i]->error.text);
        if (!c[i]->report || !c[i]->machine)
            return fb_fail(err, FB_ERR_UNAVAILABLE, "%s has not been measured yet", c[i]->text);
    }
    return fb_why_of(c[0]->report, c[1]->report, machine_of(s, c[0]), machine_of(s, c[1]), out, err);
}
