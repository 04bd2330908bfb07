/* Files of tensors, alone and as a folder's shards with their index. The first byte says what the rest is:
 *     bit 0    the bytes of a file as they stand; otherwise header 0xFF data, and the length before it is right
 *     bit 1    a folder: the index 0xFF, then headers and data by turns, of model-0.safetensors and so on
 *     bit 2    what was read is written, and must be found there again
 * "@" in a header stands for the digest of the data. What opens has tensors that lie side by side and fill the file. */
#include "base/buffer.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "tests/fuzz/fuzz.h"
#include "weights/shards.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RAW = 1, FOLDER = 2, WRITE = 4, MOST_FILES = 3 };

/* ---- the files ---- */

static void put_header(Buffer *file, const char *header, const char *digest) {
    Buffer text = {0};
    for (const char *at = strchr(header, '@'); at; header = at + 1, at = strchr(header, '@')) {
        buffer_append(&text, header, (size_t)(at - header));
        buffer_text(&text, digest);
    }
    buffer_text(&text, header);
    for (int i = 0; i < 8; i++) buffer_append(file, &(char){(char)(text.n >> 8 * i)}, 1);
    buffer_append(file, text.data, text.n);
    buffer_free(&text);
}

static const char *write_file(const char *name, FuzzInput *in, bool raw, bool last) {
    Buffer file = {0};
    Sha256 sha;
    char digest[65];
    size_t n_header = 0, n;
    char *header = raw ? NULL : fuzz_until(in, 0xFF, &n_header);
    char *data = last ? fuzz_rest(in, &n) : fuzz_until(in, 0xFF, &n);
    sha256_init(&sha);
    sha256_add(&sha, data, n);
    sha256_hex(&sha, digest);
    if (header) put_header(&file, header, digest);
    buffer_append(&file, data, n);
    const char *path = fuzz_file(name, file.data, file.n);
    buffer_free(&file);
    free(header);
    free(data);
    return path;
}

static void write_folder(FuzzInput *in, bool raw) {
    size_t n;
    char name[32], *index = fuzz_until(in, 0xFF, &n);
    if (n)
        fuzz_file("model.safetensors.index.json", index, n);
    else
        fuzz_remove("model.safetensors.index.json");
    free(index);
    for (int i = 0; i < MOST_FILES; i++) {
        snprintf(name, sizeof name, "model-%d.safetensors", i);
        fuzz_remove(name);
        if (in->left) write_file(name, in, raw, i == MOST_FILES - 1);
    }
    fuzz_remove("model.safetensors");
}

/* ---- what opens ---- */

static int by_place(const void *a, const void *b) {
    const SafeTensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void check_places(const SafeFile *f) {
    SafeTensor *sorted = xmalloc(((size_t)f->n + 1) * sizeof *sorted);
    if (f->n) memcpy(sorted, f->tensors, (size_t)f->n * sizeof *sorted);
    qsort(sorted, (size_t)f->n, sizeof *sorted, by_place);
    const char *at = (const char *)f->map + safe_header_bytes(f);
    for (int i = 0; i < f->n; i++) {
        CHECK_MSG(sorted[i].data == at, "%s lies %td bytes off", sorted[i].name, (const char *)sorted[i].data - at);
        at += sorted[i].bytes;
    }
    CHECK(at == (const char *)f->map + f->map_bytes);
    free(sorted);
}

static void check_tensor(const SafeFile *f, const SafeTensor *t) {
    size_t count = 1;
    CHECK(t->n_dims >= 0 && t->n_dims <= SAFE_DIMS_MAX && (uintptr_t)t->data % dtype_size(t->dtype) == 0);
    for (int i = 0; i < t->n_dims; i++) count *= (size_t)t->dims[i];
    CHECK(t->bytes == count * dtype_size(t->dtype) && safe_find(f, t->name) == t);
    for (size_t i = 0; t->dtype == DTYPE_F32 && i < count; i++) CHECK(isfinite(((const float *)t->data)[i]));
}

static void check_written(const SafeFile *f) {
    SafeOut *out = xcalloc((size_t)f->n + 1, sizeof *out);
    SafeFile again;
    Err err;
    for (int i = 0; i < f->n; i++) {
        const SafeTensor *t = &f->tensors[i];
        out[i] =
            (SafeOut){.name = t->name, .dtype = t->dtype, .source = t->dtype, .n_dims = t->n_dims, .data = t->data};
        memcpy(out[i].dims, t->dims, sizeof t->dims);
    }
    const char *path = fuzz_file("written", "", 0);
    CHECK_MSG(safe_save(path, out, f->n, 1, &err) == 0, "%s", err.msg);
    CHECK_MSG(safe_open(&again, path, &err) == 0, "%s", err.msg);
    CHECK(again.n == f->n);
    for (int i = 0; i < f->n; i++) {
        const SafeTensor *a = &f->tensors[i], *b = &again.tensors[i];
        CHECK(!strcmp(a->name, b->name) && a->dtype == b->dtype && a->n_dims == b->n_dims && a->bytes == b->bytes &&
              !memcmp(a->data, b->data, a->bytes));
    }
    safe_close(&again);
    free(out);
}

static void check_file(const SafeFile *f, bool write) {
    for (int i = 0; i < f->n; i++) {
        check_tensor(f, &f->tensors[i]);
        if (i) CHECK(strcmp(f->tensors[i - 1].name, f->tensors[i].name) < 0);
    }
    check_places(f);
    if (write) check_written(f);
    CHECK(safe_intact(f));
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    int form = fuzz_byte(&in);
    Err err = {""};
    if (form & FOLDER) {
        Shards s;
        write_folder(&in, form & RAW);
        if (shards_open(&s, fuzz_folder(), form & WRITE, &err)) {
            CHECK(err.msg[0]);
            return;
        }
        for (int i = 0; i < s.n_files; i++) check_file(&s.files[i], false);
        for (int i = 0; i < s.n; i++) CHECK(shards_find(&s, s.tensors[i].name) == &s.tensors[i]);
        shards_close(&s);
    } else {
        SafeFile f;
        if (safe_open(&f, write_file("file", &in, form & RAW, true), &err)) {
            CHECK(err.msg[0]);
            return;
        }
        check_file(&f, form & WRITE);
        safe_close(&f);
    }
}

TEST(fuzz_safetensors) { fuzz_run("safetensors", look); }
