/* The line between a class and its workshop, which the driver holds. Seats connect to it as to a workshop; what they
 * say goes on to the workshop's own socket, and what that answers goes back. So the driver hears every request and
 * every figure on their way, and can lose a line at any moment. One thread, one line; it keeps what a seat was told
 * until that is forgotten. */
#ifndef FB_TESTS_WORKSHOP_LINE_H
#define FB_TESTS_WORKSHOP_LINE_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    long opened, lost, back;          /* connections; those that were cut; seats that were measured for after that */
    long answers, cancelled, refused; /* requests that were answered, and how: the last two are among them */
    long forsaken;                    /* … that were open when their line or their seat ended */
    long reports;                     /* with a measured time */
    long wrong;                       /* reports that cannot be of the plan that was asked for; said as they come */
    long late;                        /* requests that were open for longer than a seat may wait */
    double p50_s, p99_s, most_s;      /* how long a seat waited for an answer */
} line_counts;

/* What a screen shows of a column that was measured. */
typedef struct {
    char wall[48], launches[48], device[48], moved[48];
} shown_figures;

/* Takes a figure's mark of doubt away: it is the text's own, and no part of what was told. */
void line_undoubted(char *figure);

/* Listens at `at` for a workshop that listens at `workshop`; a request that is open for longer than `patience_s` is
 * late. False with errno. */
bool line_begin(const char *at, const char *workshop, double patience_s);
void line_end(void);
/* Carries what there is, and waits for it at most so long. */
void line_carry(int ms);
/* Cuts what that process of the driver's (a workbench) has open: how many. */
int line_lose(pid_t seat);
void line_forget(pid_t seat);
/* Was this seat ever told these figures, of one plan, together? */
bool line_told(pid_t seat, const shown_figures *f);
long line_reports_to(pid_t seat);
pid_t line_late(void); /* a seat whose request turned out to be late since this was last asked; 0: none */
void line_count(line_counts *out);

#endif
