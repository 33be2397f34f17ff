/* Columns as values, to be made again later: what was asked for, and an edited plan by the names of its nodes. Needs a
 * script that has answered; leaves the session as it is. */
#include "session/internal.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

json_t *fb_session_keep(const fb_session *s, int i)
{
    const fb_column_record *c = fb_column_at(s, i);
    fb_str spec = {0};
    if (!c || !c->variant) return NULL; /* it stands for one a variant, which are not there yet */
    if (*c->variant) fb_str_addf(&spec, "%s:", c->variant);
    fb_str_add(&spec, c->base);
    if (c->device) fb_str_addf(&spec, "@%s", c->device);
    if (c->inputs) fb_str_addf(&spec, "#%s", c->inputs);
    json_t *kept = json_pack("{s:s}", "column", fb_str_get(&spec));
    if (c->carried)
        json_object_set(kept, "plan", c->carried);
    else if (fb_column_edited(c))
        json_object_set_new(kept, "plan", fb_plan_to_json(fb_history_now(c->history)));
    fb_str_free(&spec);
    return kept;
}

int fb_session_restore(fb_session *s, const json_t *kept, int at, fb_error *err)
{
    const char *spec = fb_json_string_or(kept, "column", NULL);
    json_t *plan = json_object_get(kept, "plan");
    if (!spec || (plan && !json_is_object(plan))) {
        fb_fail(err, FB_ERR_INPUT, "what was kept of a column makes no sense");
        return -1;
    }
    int i = fb_session_add(s, spec, err);
    if (i < 0) return -1;
    fb_column_record *c = fb_column_at(s, i);
    if (plan && !c->carried) c->carried = json_deep_copy(plan); /* its plan is made of it, once there is a graph */
    if (at >= 0 && at < i) fb_session_move(s, i, at);
    return at >= 0 && at < i ? at : i;
}
