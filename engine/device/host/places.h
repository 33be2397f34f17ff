/* Where small programs' buffers lie. How fast memory is met depends on which pages it is made of, by as much as a sixth
 * where it fits a core's own cache; a comparison of programs must not be one of pages. So all of a device take turns
 * with the same mappings: what one gives back, another one, or the same, gets by chance.
 *
 * Owned by the device; one thread. */
#ifndef FB_DEVICE_HOST_PLACES_H
#define FB_DEVICE_HOST_PLACES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct fb_host_places fb_host_places;

enum { FB_HOST_GUARD = 4096 }; /* a page that nobody may touch, the first and the last of what is taken */

fb_host_places *fb_host_places_new(void);
void fb_host_places_free(fb_host_places *p); /* NULL is fine; all must have been given back */
/* Are there turns for so many bytes? Large ones meet pages of every kind at once. */
bool fb_host_places_take_turns(size_t bytes);
/* `bytes` of zeros, whole pages with both guards among them; NULL: there is no memory. */
char *fb_host_place_take(fb_host_places *p, size_t bytes);
void fb_host_place_give(fb_host_places *p, char *at, size_t bytes);

#endif
