/* Who sits there. What is counted of somebody (disk, faults, turns, predictions) outlives a connection: who comes back
 * finds it as it was left. A seat is known by the name that its connection gives it (a key's forced command says
 * --as), which nobody can choose; else by an id that the workshop told to it alone. Who has neither sits down where
 * somebody from the same place has left, and goes on with what was counted there: so nobody begins anew by coming
 * anew, and there are never more of these than there were seats at a time. */
#include "workshop/parts.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

#include <string.h>
#include <sys/random.h>

enum { ACCOUNTS_KEPT = 1000 }; /* of those who are not there */

static const int64_t hour_ns = 3600000000000;

/* An id is told to one seat and never written anywhere: it cannot be guessed, and where there is no chance to be had
 * there is none. */
static void new_id(fb_account *a)
{
    fb_hash h = {0};
    a->id[0] = '\0';
    if (getrandom(&h, sizeof h, GRND_NONBLOCK) == (ssize_t)sizeof h) fb_hash_hex(h, a->id);
}

static fb_account *known(const fb_workshop *w, const fb_seat *s, const char *id)
{
    for (int i = 0; i < w->accounts.n; i++) {
        fb_account *a = w->accounts.at[i];
        if (strcmp(a->name, s->name) == 0 && (*a->name || (*id && strcmp(a->id, id) == 0))) return a;
    }
    return NULL;
}

/* The one of which most is counted, so that leaving gains nothing. */
static fb_account *left_behind(const fb_workshop *w, const fb_seat *s)
{
    fb_account *most = NULL;
    for (int i = 0; i < w->accounts.n; i++) {
        fb_account *a = w->accounts.at[i];
        if (a->seats || *a->name || strcmp(a->origin, s->origin) != 0) continue;
        bool more = !most || (a->pause_until_ns > most->pause_until_ns ||
                              (a->pause_until_ns == most->pause_until_ns && a->disk_bytes > most->disk_bytes));
        if (more) most = a;
    }
    return *s->name ? NULL : most;
}

static void account_free(fb_workshop *w, fb_account *a)
{
    for (int i = 0; i < w->n_lanes; i++)
        if (w->lanes[i].used_by == a) w->lanes[i].used_by = NULL;
    fb_free(a);
}

/* Those who left longest ago are forgotten, should there be many. */
static void forget_some(fb_workshop *w)
{
    int away = 0, oldest = -1;
    for (int i = 0; i < w->accounts.n; i++) {
        if (w->accounts.at[i]->seats) continue;
        away++;
        if (oldest < 0 || w->accounts.at[i]->left < w->accounts.at[oldest]->left) oldest = i;
    }
    if (away <= ACCOUNTS_KEPT) return;
    account_free(w, w->accounts.at[oldest]);
    w->accounts.at[oldest] = w->accounts.at[--w->accounts.n];
}

static fb_account *new_account(fb_workshop *w, const fb_seat *s)
{
    forget_some(w);
    fb_account *a = fb_calloc(1, sizeof *a);
    a->serial = ++w->last_account;
    memcpy(a->name, s->name, sizeof a->name);
    memcpy(a->origin, s->origin, sizeof a->origin);
    FB_VEC_PUSH(&w->accounts, a);
    return a;
}

bool fb_account_take(fb_workshop *w, fb_seat *s, const char *id)
{
    fb_account *a = known(w, s, id);
    if (a && a->seats >= (int)w->options.limits.windows) return false;
    if (a && a->number) {
        s->number = a->number; /* it is the same, and what it predicted is its own */
    } else {
        if (!a) a = left_behind(w, s);
        if (!a) a = new_account(w, s);
        a->number = s->number;
        new_id(a);
    }
    w->clock++; /* it is behind all who wait: were it before them, those who come and go would keep them waiting */
    for (int i = 0; i < FB_WORKSHOP_LANES && !a->seats; i++) a->served[i] = w->clock;
    a->seats++;
    s->account = a;
    return true;
}

void fb_account_leave(fb_workshop *w, fb_seat *s)
{
    if (!s->account) return;
    s->account->seats--;
    s->account->left = ++w->clock;
    s->account = NULL;
}

void fb_account_charge(fb_workshop *w, int serial, double bytes)
{
    w->written += (int64_t)bytes;
    for (int i = 0; i < w->accounts.n; i++)
        if (w->accounts.at[i]->serial == serial) w->accounts.at[i]->disk_bytes += bytes;
}

double fb_account_disk(fb_account *a)
{
    int64_t now = fb_now_ns();
    if (!a->disk_since_ns || now - a->disk_since_ns > hour_ns) {
        a->disk_since_ns = now;
        a->disk_bytes = 0;
    }
    return a->disk_bytes;
}

void fb_accounts_free(fb_workshop *w)
{
    while (w->accounts.n) account_free(w, w->accounts.at[--w->accounts.n]);
    FB_VEC_FREE(&w->accounts);
}
