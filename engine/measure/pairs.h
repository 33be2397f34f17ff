/* How many times as long did A take as B, from pairs of times, d = log(a / b), that are looked at again and again?
 *
 * The order of the two runs of a pair is drawn by a coin. So of equal columns d is as likely above 0 as below, whatever
 * the machine did to the one that happened to run first: given the sizes |d|, the signs are coins, however heavy their
 * tails are, however they drift and however noisy the neighbours were. That is all that is asked of the noise (Fisher's
 * test of randomisation); what goes with a column itself, such as where its buffers lie, it cannot tell from a
 * difference.
 *
 * A difference m is tried on d − m: sizes are cut off at their 68 % quantile, for one disturbed run says nothing of the
 * others, and x = Σ ±w / √Σ w². With k = −2 Σ w⁴ / (Σ w²)², a sum of coins exceeds z + k (z³ − 3z) / 24 as often as a
 * normal one z (Cornish and Fisher 1938), and never in fewer than n coins of which all fall alike are as rare. x is
 * lowered for what the correlation of neighbours exceeds of a standard error, which what belongs to a column shows. The
 * interval is every m that is not refused.
 *
 * Looks are few, at 14, 17, 20, 24, 29 … pairs, each a fifth more than the one before: between them the last one
 * stands. They share a risk of 15 in 10,000, which, since looks that follow each other see much the same, makes 1 in
 * 1,000 for all of them together (tests/unit/test_compare.c; Lan and DeMets 1983 spend it alike). Four fifths are spent
 * around the look at which a difference of 2 % would be found, by the sizes alone, which leaves the signs coins; the
 * rest evenly.
 *
 * Of fewer pairs coins say next to nothing: 8 fall alike in 1 of 128. There it is asked whether all runs of one lie
 * above all runs of the other. Of runs that are alike 8 and 8 do so in 1 of 6,435, and what they share over time, a
 * drift or a load, makes it rarer; but where the first run of each pair is slower, it is the order that was drawn which
 * decides, so that either must have been first at least twice. The interval is what the ratios of all runs span; it
 * stays when coins are asked.
 *
 * Pure: asks no device, owns nothing. */
#ifndef FB_MEASURE_PAIRS_H
#define FB_MEASURE_PAIRS_H

#include <stdbool.h>

enum {
    FB_PAIRS_FEW = 8,    /* from here on runs are told apart that do not overlap */
    FB_PAIRS_LEAST = 14, /* … coins are asked: the first look */
};

/* How much one pair differs from the next: half of what the middle 68 % of log(a / b) span. NAN of fewer than two. */
double fb_pairs_sigma(const double *a, const double *b, int n);
/* … where neighbours have something in common, as levels that last for several rounds have: what a sum of n pairs scatters
 * by, over √n. In order of time. */
double fb_pairs_long_sigma(const double *a, const double *b, int n);
/* Within so many pairs of that deviation 19 of 20 differences of 2 % are found, with tails as heavy as a GPU's: a look.
 * (223 σ)² are what one look at a known deviation asks for that may be wrong in 1 of 200; one at which it is not known,
 * wrong in 1 of 500 and of normal noise asks for fb_pairs_bound. */
int fb_pairs_asked(double sigma);
/* The fewest pairs of normal noise in which any test that does not know its deviation finds 2 % in 19 of 20 and calls 1
 * of 500 equal pairs different, looking once: Student's. */
int fb_pairs_bound(double sigma);

/* How many pairs there are at the first look after `n`, that of few included. */
int fb_pairs_next_look(int n);
/* The interval of the mean of d, at the last look of n pairs; NAN before the first. */
typedef struct {
    double mean, low, high;
    int seen; /* pairs at that look */
} fb_pairs_interval;
fb_pairs_interval fb_pairs_look(const double *d, int n);
/* The same of few pairs, of the logarithms of both times; `a_first`: whether A's was the first of the two. Of those
 * before the first look, whichever follow; NAN of fewer than FB_PAIRS_FEW, and where the order was always the same. */
fb_pairs_interval fb_pairs_apart(const double *a, const double *b, const bool *a_first, int n);

#endif
