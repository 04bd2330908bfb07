#include "tests/support/pictures.h"

#include "base/memory.h"
#include "tests/support/test.h"

#include <openssl/evp.h>
#include <png.h>
#include <string.h>
#include <zlib.h>

/* The file, in memory that the next call overwrites. */
static unsigned char *file_of(const unsigned char *pixels, int width, int height, int format, size_t *n) {
    static unsigned char file[1 << 16];
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = (png_uint_32)format};
    png_alloc_size_t size = sizeof file;
    CHECK_MSG(png_image_write_to_memory(&png, file, &size, 0, pixels, 0, NULL), "%s", png.message);
    *n = size;
    return file;
}

static char *url_of(const unsigned char *file, size_t n) {
    static const char head[] = "data:image/png;base64,";
    char *url = xcalloc(1, sizeof head + 4 * (n / 3 + 2));
    memcpy(url, head, sizeof head);
    EVP_EncodeBlock((unsigned char *)url + strlen(head), file, (int)n);
    return url;
}

char *test_picture_url(const unsigned char *pixels, int width, int height, int format, size_t cut) {
    size_t n;
    const unsigned char *file = file_of(pixels, width, height, format, &n);
    return url_of(file, n - cut);
}

char *test_picture_with(const unsigned char *pixels, int width, int height, int format, PictureChunk chunk, int times) {
    enum { BEFORE = 8 + 12 + 13, AROUND = 12 }; /* signature and IHDR; length, type and sum */
    size_t n, size = AROUND + chunk.n;
    const unsigned char *file = file_of(pixels, width, height, format, &n);
    unsigned char *with = xmalloc(n + (size_t)times * size), *at = with + BEFORE;
    memcpy(with, file, BEFORE);
    for (int i = 0; i < times; i++, at += size) {
        png_save_uint_32(at, (png_uint_32)chunk.n);
        memcpy(at + 4, chunk.type, 4);
        memcpy(at + 8, chunk.data, chunk.n);
        png_save_uint_32(at + 8 + chunk.n, (png_uint_32)crc32(0, at + 4, (uInt)(4 + chunk.n)));
    }
    memcpy(at, file + BEFORE, n - BEFORE);
    char *url = url_of(with, n + (size_t)times * size);
    free(with);
    return url;
}
