/* pictures: PNG files for models that see. */
#ifndef NOISED_TEST_PICTURES_H
#define NOISED_TEST_PICTURES_H

#include <stddef.h>

/* A picture as "data:image/png;base64,...", malloc'ed; format as libpng's PNG_FORMAT_GRAY or _RGB. `cut` bytes are
 * missing at its end. */
char *test_picture_url(const unsigned char *pixels, int width, int height, int format, size_t cut);

#endif
