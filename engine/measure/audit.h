/* What a program with kernels from files is asked beside its check. Generated kernels are known line by line;
 * somebody's own may do its work only while it is looked at: at the first call, when memory was cleared, for inputs
 * that it has met.
 *
 * measure.c therefore runs such a program from cleared memory between its samples, and checks it a second time on
 * inputs drawn anew; here is what no run can show, that a time is too short to have held the work.
 */
#ifndef FB_MEASURE_AUDIT_H
#define FB_MEASURE_AUDIT_H

#include "code/program.h"
#include "target/machine.h"

/* Is some kernel a file's? */
bool fb_audit_has_files(const fb_program *p);
/* The least µs in which one run's launches of kernels from files can touch each byte that they must, once, at the best
 * rate that the machine's calibration reached for as many bytes or more; 0 where it was never calibrated, or is
 * doubted. */
double fb_files_floor_us(const fb_program *p, const fb_machine *m);
/* Is a run of wall_us too short for them? Less than half of the floor: a calibration on a busy machine may be off by as
 * much. `why` gets a sentence. */
bool fb_files_left_out_work(const fb_program *p, const fb_machine *m, double wall_us, char why[160]);
/* A seed that no code can know beforehand. */
uint64_t fb_seed_unseen(void);

#endif
