/* Kernels that moved more than their access maps say. Needs counters. */
#include "base/str.h"
#include "measure/report.h"
#include "schedule/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double much = 1.2, least = 1e5; /* times; bytes: below that it is noise of the counters */

static double read_apart(const fb_kernel_report *k)
{
    return k->apart_written > 0 ? k->apart_bytes - k->apart_written : k->apart_bytes;
}

static bool reads_most(const fb_kernel_report *k)
{
    return k->measured_read - k->bytes_read > k->measured_written - k->bytes_written;
}

/* In tiles, ours or a library's: each operand is read once for every tile of the other. */
static bool is_product(const fb_kernel_report *k)
{
    fb_family f;
    return k->family && fb_family_parse(k->family, &f) && fb_family_row_of(f)->multiplies;
}

/* The first that holds, from what is known for certain to what is likely. */
static const char *cause_of(const fb_kernel_report *k, double more, char to[80])
{
    char bytes[32];
    bool writes = k->measured_written > much * k->bytes_written + least;
    bool reads = k->measured_read > much * k->bytes_read + least;
    if (k->local_bytes >= 0.2 * more) {
        snprintf(to, 80, "it keeps %s in local memory", fb_format_bytes(bytes, k->local_bytes));
        return to;
    }
    if (k->spill_bytes > 0) return "registers spill to memory";
    if (writes && k->apart_written >= 0.2 * more) return "it writes across rows, a part of each sector";
    if (reads && read_apart(k) >= 0.2 * more) return "it reads across rows, a sector for each element";
    bool gathers = k->name && (strncmp(k->name, "stack", 5) == 0 || strncmp(k->name, "cat", 3) == 0);
    if (gathers && isnan(k->local_bytes)) return "it keeps a table of its sources in local memory";
    if (is_product(k) && reads && reads_most(k))
        return "it reads tiles of its operands again, beyond what the L2 holds";
    if (writes && reads) return "it clears or reads its result before it writes it";
    if (writes) return "more is written than the result: zeroes, parts that are summed later";
    return "something is read again that no longer was in the cache";
}

/* Caches may hide from the memory what they do themselves: sectors that go back and forth for one element each. */
static bool moved_sectors(const fb_kernel_report *k, double modelled, char to[200])
{
    char m[32], b[32];
    double more = k->l2_bytes - modelled;
    if (!(more > (much - 1) * modelled + least) || !(k->apart_bytes >= more / 2)) return false;
    snprintf(to, 200, "moved %s through its cache, %s modelled: likely it %s", fb_format_bytes(m, k->l2_bytes),
             fb_format_bytes(b, modelled),
             k->apart_written > 0 && read_apart(k) > 0 ? "reads and writes across rows, a sector for each element"
             : k->apart_written > 0                    ? "writes across rows, a part of each sector"
                                                       : "reads across rows, a sector for each element");
    return true;
}

bool fb_kernel_moved_more(const fb_kernel_report *k, char to[200])
{
    double modelled = k->bytes_read + k->bytes_written, moved = k->measured_read + k->measured_written;
    char m[32], b[32], cause[80];
    if (!isfinite(moved) && k->local_bytes > (much - 1) * modelled + least) {
        snprintf(to, 200, "keeps %s in local memory, %s modelled: a table, or registers that spill",
                 fb_format_bytes(m, k->local_bytes), fb_format_bytes(b, modelled));
        return true;
    }
    if (!(moved > much * modelled + least)) return moved_sectors(k, modelled, to);
    snprintf(to, 200, "moved %s, %s modelled: likely %s", fb_format_bytes(m, moved), fb_format_bytes(b, modelled),
             cause_of(k, moved - modelled, cause));
    return true;
}
