#include "base/atomic_file.h"
#include "base/err.h"
#include "base/json_write.h"
#include "weights/hash_thread.h"
#include "base/memory.h"
#include "weights/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_ALIGN = 64, CHUNK = 1 << 16 };

static size_t count_of(const SafeOut *t) {
    size_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= (size_t)t->dims[i];
    return n;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const SafeOut *const *)a)->name, (*(const SafeOut *const *)b)->name);
}

static int by_falling_size(const void *a, const void *b) {
    size_t x = dtype_size((*(const SafeOut *const *)a)->dtype), y = dtype_size((*(const SafeOut *const *)b)->dtype);
    return x == y ? by_name(a, b) : x < y ? 1 : -1;
}

/* Whether every tensor begins at a multiple of its element, one behind the other. */
static bool aligned(const SafeOut *const *tensors, int n) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        size_t size = dtype_size(tensors[i]->dtype);
        if (at % size) return false;
        at += count_of(tensors[i]) * size;
    }
    return true;
}

/* The file up to its first byte of data: length, JSON, spaces. malloc'ed, *n bytes. `key`: what the digest is of. */
static char *header_print(const SafeOut *const *tensors, int n_tensors, uint64_t step, const char *key,
                          const char digest[SHA256_HEX], size_t *n) {
    Buffer b = {0};
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, step);
    buffer_append(&b, (char[8]){0}, 8);
    json_open(&b, NULL, '{');
    json_open(&b, "__metadata__", '{');
    json_put_text(&b, "format", "pt");
    json_put_text(&b, "producer", "noised " NOISED_VERSION);
    json_put_text(&b, key, digest);
    json_put_text(&b, "step", number);
    json_close(&b, '}');
    size_t at = 0;
    for (int i = 0; i < n_tensors; i++) {
        const SafeOut *t = tensors[i];
        BUG_ON(i && !strcmp(t->name, tensors[i - 1]->name));
        size_t end = at + count_of(t) * dtype_size(t->dtype);
        json_open(&b, t->name, '{');
        json_put_text(&b, "dtype", dtype_name(t->dtype));
        json_put_ints(&b, "shape", t->dims, t->n_dims);
        json_open(&b, "data_offsets", '[');
        json_put_uint(&b, NULL, at);
        json_put_uint(&b, NULL, end);
        json_close(&b, ']');
        json_close(&b, '}');
        at = end;
    }
    json_close(&b, '}');
    buffer_print(&b, "%*s", (int)((DATA_ALIGN - b.n % DATA_ALIGN) % DATA_ALIGN), "");
    *n = b.n;
    char *text = json_end_text(&b);
    for (int i = 0; i < 8; i++) text[i] = (char)((*n - 8) >> 8 * i);
    return text;
}

static int write_data(AtomicFile *f, HashThread *hash, const void *data, size_t n, Err *err) {
    hash_thread_add(hash, data, n);
    return atomic_write(f, data, n, err);
}

/* What is beyond BF16 would become infinity. */
static int to_halves(const SafeOut *t, size_t first, size_t n, const float *values, uint16_t *halves, Err *err) {
    for (size_t k = 0; k < n; k++) {
        halves[k] = f32_to_bf16(values[k]);
        if ((halves[k] & 0x7f80) == 0x7f80)
            return err_set(err, "%s holds %g at element %zu, which BF16 cannot", t->name, (double)values[k], first + k);
    }
    return 0;
}

/* Two buffers in turn: the thread may still be at the one before. */
static int write_converted(AtomicFile *f, HashThread *hash, const SafeOut *t, Err *err) {
    size_t n = count_of(t), source_size = dtype_size(t->source), size = dtype_size(t->dtype);
    float *values = xmalloc(2 * CHUNK * sizeof *values);
    uint16_t *halves = xmalloc(2 * CHUNK * sizeof *halves);
    int rc = 0;
    BUG_ON(t->dtype != DTYPE_F32 && t->dtype != DTYPE_BF16);
    for (size_t i = 0, m, turn = 0; i < n && rc == 0; i += m, turn ^= CHUNK) {
        m = MIN(n - i, CHUNK);
        Weight part = {.dtype = t->source, .n_dims = 1, .dims = {(int)m}, .data = (char *)t->data + i * source_size};
        weight_read(&part, 0, m, values + turn);
        const void *data = values + turn;
        if (t->dtype == DTYPE_BF16) {
            rc = to_halves(t, i, m, values + turn, halves + turn, err);
            data = halves + turn;
        }
        if (rc == 0) rc = write_data(f, hash, data, m * size, err);
    }
    hash_thread_wait(hash);
    free(values);
    free(halves);
    return rc;
}

static int write_tensor(AtomicFile *f, HashThread *hash, const SafeOut *t, Err *err) {
    if (t->dtype != t->source) return write_converted(f, hash, t, err);
    return write_data(f, hash, t->data, count_of(t) * dtype_size(t->dtype), err);
}

static int write_tensors(AtomicFile *f, const SafeOut *const *tensors, int n, char digest[SHA256_HEX], Err *err) {
    HashThread hash;
    int rc = hash_thread_start(&hash, err);
    if (rc) return -1;
    for (int i = 0; i < n && rc == 0; i++) rc = write_tensor(f, &hash, tensors[i], err);
    hash_thread_end(&hash, digest);
    return rc;
}

/* The header is written twice: what it says about the data is known only behind it. */
static int write_file(AtomicFile *f, const SafeOut *const *tensors, int n, uint64_t step, Err *err) {
    char digest[SHA256_HEX];
    size_t header_bytes;
    memset(digest, '0', sizeof digest - 1);
    digest[sizeof digest - 1] = 0;
    char *header = header_print(tensors, n, step, "sha256", digest, &header_bytes);
    int rc = atomic_write(f, header, header_bytes, err);
    free(header);
    if (rc || write_tensors(f, tensors, n, digest, err)) return -1;
    header = header_print(tensors, n, step, "sha256", digest, &header_bytes);
    rc = atomic_write_at(f, 0, header, header_bytes, err);
    free(header);
    return rc;
}

static const SafeOut **in_file_order(const SafeOut *tensors, int n) {
    const SafeOut **sorted = xmalloc(((size_t)n + 1) * sizeof *sorted);
    for (int i = 0; i < n; i++) sorted[i] = &tensors[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    if (!aligned(sorted, n)) qsort(sorted, (size_t)n, sizeof *sorted, by_falling_size);
    return sorted;
}

char *safe_head(const SafeOut *tensors, int n, uint64_t step, const char parts_sha256[SHA256_HEX], size_t *bytes,
                size_t *offsets) {
    const SafeOut **sorted = in_file_order(tensors, n);
    char *head = header_print(sorted, n, step, "parts_sha256", parts_sha256, bytes);
    size_t at = *bytes;
    for (int i = 0; i < n; i++) {
        offsets[sorted[i] - tensors] = at;
        at += count_of(sorted[i]) * dtype_size(sorted[i]->dtype);
    }
    free(sorted);
    return head;
}

int safe_save(const char *path, const SafeOut *tensors, int n, uint64_t step, Err *err) {
    const SafeOut **sorted = in_file_order(tensors, n);
    AtomicFile f;
    int rc = atomic_open(&f, path, err);
    if (rc == 0 && write_file(&f, sorted, n, step, err)) {
        atomic_abandon(&f);
        rc = -1;
    } else if (rc == 0) {
        rc = atomic_commit(&f, err);
    }
    free(sorted);
    return rc;
}
