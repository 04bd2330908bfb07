/* Pictures of requests: an input is the file, sent as base64, or with a first byte of 255 the URL's text itself. What
 * is read has the network's size and the values of bytes. */
#include "base/memory.h"
#include "server/api/pooling/image.h"
#include "tests/fuzz/fuzz.h"

#include <openssl/evp.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* With every chunk's sum made right: the library would look no further. */
static void mend_sums(unsigned char *bytes, size_t n) {
    enum { SIGNATURE = 8, AROUND = 12 };
    for (size_t at = SIGNATURE; at + AROUND <= n;) {
        size_t length = MIN(png_get_uint_32(bytes + at), n - at - AROUND);
        png_save_uint_32(bytes + at + 8 + length, (png_uint_32)crc32(0, bytes + at + 4, (uInt)(4 + length)));
        at += AROUND + length;
    }
}

static char *url_of(FuzzInput in, bool raw) {
    static const char head[] = "data:image/png;base64,";
    size_t n;
    char *bytes = fuzz_rest(&in, &n), *url = xcalloc(1, sizeof head + 4 * (n / 3 + 2));
    memcpy(url, head, sizeof head);
    if (raw) {
        memcpy(url, bytes, n); /* over the head */
    } else {
        mend_sums((unsigned char *)bytes, n);
        EVP_EncodeBlock((unsigned char *)url + sizeof head - 1, (unsigned char *)bytes, (int)n);
    }
    free(bytes);
    return url;
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    int form = fuzz_byte(&in);
    Config c = {.input = {.kind = INPUT_PATCHES, .width = 6, .height = 4, .channels = form & 1 ? 3 : 1, .patch = 2}};
    char *url = url_of(in, form == 255);
    float *pixels;
    ApiError e = {0};
    int rc = api_image_read(url, &c, "image", &pixels, &e);
    CHECK((rc == 0) == (pixels != NULL));
    CHECK_MSG(rc == 0 || e.status == 400, "%d", e.status);
    for (int i = 0; rc == 0 && i < 24 * c.input.channels; i++) {
        float byte = (pixels[i] + 1) * 127.5f;
        CHECK_MSG(byte > -0.01f && byte < 255.01f, "%g", (double)pixels[i]);
    }
    free(pixels);
    free(url);
}

TEST(fuzz_png) { fuzz_run("png", look); }
