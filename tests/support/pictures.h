/* pictures: PNG files for models that see. */
#ifndef NOISED_TEST_PICTURES_H
#define NOISED_TEST_PICTURES_H

#include <stddef.h>

/* What stands behind a picture's IHDR; data NULL, n 0: nothing. */
typedef struct PictureChunk {
    const char *type; /* four letters */
    const unsigned char *data;
    size_t n;
} PictureChunk;

/* A picture as "data:image/png;base64,...", malloc'ed; format as libpng's PNG_FORMAT_GRAY or _RGB. `cut` bytes are
 * missing at its end. */
char *test_picture_url(const unsigned char *pixels, int width, int height, int format, size_t cut);

/* The same, whole, with `times` times the chunk in it. */
char *test_picture_with(const unsigned char *pixels, int width, int height, int format, PictureChunk chunk, int times);

#endif
