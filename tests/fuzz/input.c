#include "base/memory.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fuzz_byte(FuzzInput *in) {
    if (in->left == 0) return 0;
    in->left--;
    return *in->at++;
}

uint32_t fuzz_u32(FuzzInput *in) {
    uint32_t u = 0;
    for (int i = 0; i < 4; i++) u |= (uint32_t)fuzz_byte(in) << 8 * i;
    return u;
}

int fuzz_below(FuzzInput *in, int limit) { return fuzz_byte(in) % limit; }

float fuzz_float(FuzzInput *in) {
    uint32_t u = fuzz_u32(in);
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static char *take(FuzzInput *in, size_t n) {
    char *text = xmalloc(n + 1);
    if (n > 0) memcpy(text, in->at, n);
    text[n] = 0;
    in->at += n;
    in->left -= n;
    return text;
}

char *fuzz_until(FuzzInput *in, uint8_t end, size_t *n) {
    const uint8_t *stop = in->left ? memchr(in->at, end, in->left) : NULL;
    *n = stop ? (size_t)(stop - in->at) : in->left;
    char *text = take(in, *n);
    if (stop) fuzz_byte(in);
    return text;
}

char *fuzz_rest(FuzzInput *in, size_t *n) { return take(in, *n = in->left); }

const char *fuzz_folder(void) {
    static const char *dir;
    if (!dir) dir = test_dir();
    return dir;
}

static const char *path_of(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    return path;
}

const char *fuzz_file(const char *name, const void *data, size_t n) {
    const char *path = path_of(name);
    test_write_file(path, data, n);
    return path;
}

void fuzz_remove(const char *name) { unlink(path_of(name)); }
