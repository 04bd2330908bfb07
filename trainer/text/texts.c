#include "trainer/text/texts.h"

#include "base/files.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = (1 << 29) - 1 };

size_t texts_cut(const char *data, size_t n) {
    size_t held_out = n * HELD_OUT_PER_CENT / 100, cut = n - held_out;
    if (held_out == 0) return n;
    const char *line = memchr(data + cut - 1, '\n', held_out / 2 + 1);
    if (line) return (size_t)(line + 1 - data);
    while (cut < n && ((unsigned char)data[cut] & 0xC0) == 0x80) cut++;
    return cut;
}

/* What gzip, zstd, xz and bzip2 begin with. */
static bool is_packed(const char *data, size_t n) {
    static const struct {
        const char *bytes;
        size_t n;
    } magics[] = {{"\x1F\x8B", 2}, {"\x28\xB5\x2F\xFD", 4}, {"\xFD\x37zXZ", 5}, {"BZh", 3}};
    for (size_t i = 0; i < COUNTOF(magics); i++)
        if (n >= magics[i].n && !memcmp(data, magics[i].bytes, magics[i].n)) return true;
    return false;
}

int text_check(const char *path, TextPlace at, const char *data, size_t n, Err *err) {
    const char *zero = memchr(data, 0, n);
    size_t valid = zero ? n : utf8_valid_prefix(data, n);
    if ((zero || valid < n) && at.byte == 0 && is_packed(data, n))
        return err_set(err, "%s is packed: unpack it, or noised-train tokenize reads texts of gzip", path);
    if (zero)
        return err_set(err, "%s: byte %lld is zero, so this is no text in UTF-8 (iconv -t utf-8 makes one of UTF-16)",
                       path, (long long)(at.byte + (zero - data)));
    if (valid == n) return 0;
    for (size_t i = 0; i < valid; i++) at.line += data[i] == '\n';
    return err_set(err, "%s: line %lld, byte %lld: 0x%02X is no UTF-8 (iconv -f latin1 -t utf-8 makes it of Latin-1)",
                   path, (long long)at.line, (long long)at.byte + (long long)valid,
                   (unsigned)(unsigned char)data[valid]);
}

static char *add_file(Texts *t, const char *path, size_t *n, Err *err) {
    char *data = file_read(path, FILE_MAX, n, err);
    if (!data) return NULL;
    t->files[t->n_files++] = data;
    if (*n == 0) return err_set(err, "%s: the file is empty", path), NULL;
    return text_check(path, TEXT_START, data, *n, err) ? NULL : data;
}

static void hash_texts(Texts *t) {
    Sha256 hash;
    sha256_init(&hash);
    const BpeText *parts[] = {t->train, t->val};
    int counts[] = {t->n_train, t->n_val};
    for (size_t k = 0; k < COUNTOF(parts); k++) {
        sha256_add(&hash, &counts[k], sizeof counts[k]);
        for (int i = 0; i < counts[k]; i++) {
            uint64_t n = parts[k][i].n;
            sha256_add(&hash, &n, sizeof n);
            sha256_add(&hash, parts[k][i].data, parts[k][i].n);
        }
    }
    sha256_hex(&hash, t->hash);
}

static int load_all(Texts *t, const char *const *paths, int n_paths, const char *val, Err *err) {
    char *data;
    size_t n;
    for (int i = 0; i < n_paths; i++) {
        if (!(data = add_file(t, paths[i], &n, err))) return -1;
        size_t cut = val ? n : texts_cut(data, n);
        t->train[t->n_train++] = (BpeText){.data = data, .n = cut};
        if (cut < n) t->val[t->n_val++] = (BpeText){.data = data + cut, .n = n - cut};
    }
    if (!val || !strcmp(val, VAL_NONE)) return 0;
    if (!(data = add_file(t, val, &n, err))) return -1;
    t->val[t->n_val++] = (BpeText){.data = data, .n = n};
    return 0;
}

int texts_load(Texts *t, const char *const *paths, int n_paths, const char *val, Err *err) {
    size_t most = (size_t)n_paths + 1;
    *t = (Texts){.files = xcalloc(most, sizeof *t->files),
                 .train = xcalloc(most, sizeof *t->train),
                 .val = xcalloc(most, sizeof *t->val)};
    if (load_all(t, paths, n_paths, val, err)) {
        texts_free(t);
        return -1;
    }
    hash_texts(t);
    return 0;
}

void texts_free(Texts *t) {
    for (int i = 0; i < t->n_files; i++) free(t->files[i]);
    free(t->files);
    free(t->train);
    free(t->val);
    *t = (Texts){0};
}
