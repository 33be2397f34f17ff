/* How a loop's body is dealt to threads that go through all steps by themselves: each keeps in registers what a step
 * leaves to the next, and loads the items of several steps while it works on those before.
 *
 * requires  a nest in which no element is made from another one that the kernel stores (fb_nest_makes_each_alone)
 * provides  the deal FB_DEAL_THROUGH: threads, lanes a row, neighbours a thread, and how far ahead items are loaded
 */
#ifndef FB_SCHEDULE_THROUGH_H
#define FB_SCHEDULE_THROUGH_H

#include "schedule/schedule.h"

/* Can all sections be dealt so? Their rows, where some are reduced, are no longer than a warp's lanes can keep. */
bool fb_through_fits(const fb_nest *nest, const fb_knobs *knobs);
/* Of a nest that goes through (fb_nest_go_through), section x->section. */
void fb_through_deal(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x);

/* The space whose elements a thread has `each` neighbours of; FB_NONE: the rows. */
static inline int fb_through_space(const fb_section *s)
{
    return s->n_passes ? s->passes[0].space : FB_NONE;
}

/* Is there one of the value for each of these elements, and not one for all that a thread has? */
static inline bool fb_through_varies(const fb_section *s, const fb_value *v)
{
    if (s->n_passes) return v->space != FB_NONE;
    return s->rows.n && v->rows >> (s->rows.n - 1) & 1;
}

#endif
