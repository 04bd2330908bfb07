#include "server/api/pooling/image.h"

#include "base/err.h"
#include "base/memory.h"

#include <openssl/evp.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

/* The bytes behind the comma, malloc'ed; NULL with e filled. */
static unsigned char *decode_url(const char *url, const char *param, size_t *n, ApiError *e) {
    static const char head[] = "data:image/png;base64,";
    if (strncmp(url, head, sizeof head - 1)) {
        api_fail(e, 400, NULL, param, "%s must begin with \"%s\"", param, head);
        return NULL;
    }
    const char *text = url + sizeof head - 1;
    size_t length = strlen(text), padding = 0;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=') padding++;
    unsigned char *bytes = try_malloc(length / 4 * 3 + 3);
    if (!bytes) {
        api_no_memory(e);
        return NULL;
    }
    int got = length && length % 4 == 0 ? EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length) : -1;
    if (got < 0) {
        free(bytes);
        api_fail(e, 400, NULL, param, "%s is no base64 with its padding", param);
        return NULL;
    }
    *n = (size_t)got - padding;
    return bytes;
}

/* libpng's simple reader keeps in memory, inflated, all texts and profiles that come before the picture: nobody wants
 * them, so they are cut out unread. What stays is what must be understood (the case of the first letter says so) and
 * the few numbers that say what its colours are. Returns the length of that. */
static size_t cut_texts(unsigned char *bytes, size_t n) {
    static const char kept[][5] = {"tRNS", "gAMA", "cHRM", "sRGB"};
    enum { SIGNATURE = 8, AROUND = 12, ANCILLARY = 'a' - 'A' };
    size_t to = SIGNATURE, from = SIGNATURE;
    while (from + AROUND <= n) {
        const unsigned char *type = bytes + from + 4;
        size_t size = MIN(AROUND + (size_t)png_get_uint_32(bytes + from), n - from);
        bool keep = !(*type & ANCILLARY);
        for (size_t i = 0; i < COUNTOF(kept); i++) keep |= !memcmp(type, kept[i], 4);
        if (keep) memmove(bytes + to, bytes + from, size);
        if (keep) to += size;
        from += size;
    }
    return MIN(to, n);
}

/* `colours` [height, width, channels] bytes. */
static void to_floats(float *to, const unsigned char *colours, const Config *c) {
    size_t pixels = (size_t)c->input.height * (size_t)c->input.width, channels = (size_t)c->input.channels;
    for (size_t k = 0; k < channels; k++)
        for (size_t i = 0; i < pixels; i++) to[k * pixels + i] = (float)colours[i * channels + k] / 127.5f - 1;
}

static int decode_png(png_image *png, const Config *c, const char *param, float **pixels, ApiError *e) {
    int width = c->input.width, height = c->input.height;
    if (png->width != (png_uint_32)width || png->height != (png_uint_32)height)
        return api_fail(e, 400, NULL, param, "%s is %u by %u pixels, the network reads %d by %d", param,
                        (unsigned)png->width, (unsigned)png->height, width, height);
    png->format = c->input.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    const png_color black = {0, 0, 0};
    size_t bytes = PNG_IMAGE_SIZE(*png);
    unsigned char *colours = try_malloc(bytes);
    *pixels = try_malloc(bytes * sizeof **pixels);
    int rc = colours && *pixels ? 0 : api_no_memory(e);
    if (rc == 0 && !png_image_finish_read(png, &black, colours, 0, NULL))
        rc = api_fail(e, 400, NULL, param, "%s: %s", param, png->message);
    if (rc == 0) to_floats(*pixels, colours, c);
    free(colours);
    return rc;
}

int api_image_read(const char *url, const Config *c, const char *param, float **pixels, ApiError *e) {
    size_t n;
    *pixels = NULL;
    if (c->input.channels != 1 && c->input.channels != 3)
        return api_fail(e, 400, NULL, param, "the network reads %d channels, a picture has 1 or 3", c->input.channels);
    unsigned char *bytes = decode_url(url, param, &n, e);
    if (!bytes) return -1;
    n = cut_texts(bytes, n);
    png_image png = {.version = PNG_IMAGE_VERSION};
    int rc = png_image_begin_read_from_memory(&png, bytes, n)
                 ? decode_png(&png, c, param, pixels, e)
                 : api_fail(e, 400, NULL, param, "%s: %s", param, png.message);
    png_image_free(&png);
    free(bytes);
    if (rc) {
        free(*pixels);
        *pixels = NULL;
    }
    return rc;
}
