/* NVML, the management library of NVIDIA's driver, opened at run time: what clocks a GPU runs at beside each sample,
 * and why it runs slower than it could. Without it these are not known, and nothing else changes. */
#ifndef FB_DEVICE_CUDA_NVML_H
#define FB_DEVICE_CUDA_NVML_H

#include "base/figure.h"

#include <jansson.h>

typedef struct fb_nvml fb_nvml; /* one GPU */

/* By its PCI bus ("0000:1b:00.0"). `library` NULL: the system's. NULL with a sentence in `why` (may be NULL) where
 * there is none, or it does not know the GPU. */
fb_nvml *fb_nvml_open(const char *library, const char *bus, char why[160]);
void fb_nvml_close(fb_nvml *n);
/* Fills in what it tells; NULL tells nothing. Power and temperature are asked for a few times a second at most. */
void fb_nvml_state(fb_nvml *n, fb_machine_state *out);
/* Adds its line to the libraries of fb_device_ops.list. */
void fb_nvml_list(json_t *libraries);

#endif
