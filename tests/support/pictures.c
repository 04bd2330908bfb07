#include "tests/support/pictures.h"

#include "base/memory.h"
#include "tests/support/test.h"

#include <openssl/evp.h>
#include <png.h>
#include <string.h>

char *test_picture_url(const unsigned char *pixels, int width, int height, int format, size_t cut) {
    static const char head[] = "data:image/png;base64,";
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = (png_uint_32)format};
    static unsigned char file[1 << 16];
    png_alloc_size_t n = sizeof file;
    CHECK_MSG(png_image_write_to_memory(&png, file, &n, 0, pixels, 0, NULL), "%s", png.message);
    char *url = xcalloc(1, sizeof head + 4 * (n / 3 + 2));
    memcpy(url, head, sizeof head);
    EVP_EncodeBlock((unsigned char *)url + strlen(head), file, (int)(n - cut));
    return url;
}
