#include "weights/safetensors.h"

#include "base/err.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LENGTH_BYTES = 8,
    NAME_MAX_BYTES = 255,
    SCAN = 4096,
    HEADER_DEPTH = 3,                                             /* header, tensor, shape */
    HEADER_VALUES = SAFE_TENSORS_MAX * (6 + SAFE_DIMS_MAX) + 1024 /* and the metadata */
};

static int parse_dtype(SafeTensor *t, const cJSON *item, Err *err) {
    if (!cJSON_IsString(item)) return err_set(err, "%s: dtype is no string", t->name);
    const char *name = item->valuestring;
    t->is_mask = !strcmp(name, "BOOL") || !strcmp(name, dtype_name(DTYPE_I4));
    for (t->dtype = DTYPE_F32; t->dtype < DTYPE_I8; t->dtype++)
        if (!strcmp(name, dtype_name(t->dtype))) return 0;
    if (!strcmp(name, dtype_name(DTYPE_I4))) t->dtype = DTYPE_I4;
    if (t->is_mask || !strcmp(name, dtype_name(DTYPE_I8))) return 0;
    return err_set(err, "%s: dtype is %.32s, must be F32, BF16, F16 or I8", t->name, name);
}

static int parse_shape(SafeTensor *t, const cJSON *item, Err *err) {
    if (!cJSON_IsArray(item)) return err_set(err, "%s: shape is no array", t->name);
    const cJSON *dim;
    cJSON_ArrayForEach(dim, item) {
        int64_t v;
        if (t->n_dims == SAFE_DIMS_MAX)
            return err_set(err, "%s: shape has more than %d dimensions", t->name, SAFE_DIMS_MAX);
        if (!json_integer(dim, 0, INT_MAX, &v))
            return err_set(err, "%s: shape holds something that is no integer from 0 to %d", t->name, INT_MAX);
        t->dims[t->n_dims++] = (int)v;
    }
    return 0;
}

/* Range of the tensor's bytes in the file's data, checked against its shape, its alignment and the data's length. */
static int parse_offsets(SafeTensor *t, const cJSON *item, const unsigned char *data, size_t data_bytes, Err *err) {
    int64_t begin, end;
    if (cJSON_GetArraySize(item) != 2 || !cJSON_IsArray(item) ||
        !json_integer(item->child, 0, JSON_INTEGER_MAX, &begin) ||
        !json_integer(item->child->next, 0, JSON_INTEGER_MAX, &end))
        return err_set(err, "%s: data_offsets must be two integers", t->name);
    if (begin > end || (size_t)end > data_bytes)
        return err_set(err, "%s: data_offsets [%lld,%lld] do not lie within %zu bytes of data", t->name,
                       (long long)begin, (long long)end, data_bytes);
    size_t bytes = dtype_size(t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        if (!size_mul(bytes, (size_t)t->dims[i], &bytes)) return err_set(err, "%s: shape overflows", t->name);
    t->bytes = (size_t)(end - begin);
    if (bytes != t->bytes)
        return err_set(err, "%s: data_offsets [%lld,%lld] span %zu bytes, dtype and shape want %zu", t->name,
                       (long long)begin, (long long)end, t->bytes, bytes);
    t->data = data + begin;
    if ((uintptr_t)t->data % dtype_size(t->dtype))
        return err_set(err,
                       "%s: data starts at byte %lld behind the header, in the file not a multiple of %zu as %s needs",
                       t->name, (long long)begin, dtype_size(t->dtype), dtype_name(t->dtype));
    return 0;
}

static int parse_tensor(SafeTensor *t, const cJSON *item, const unsigned char *data, size_t data_bytes, Err *err) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    const cJSON *found[COUNTOF(keys)] = {0};
    if (!cJSON_IsObject(item)) return err_set(err, "%s: no object", t->name);
    for (const cJSON *child = item->child; child; child = child->next) {
        size_t k = 0;
        while (k < COUNTOF(keys) && strcmp(child->string, keys[k])) k++;
        if (k == COUNTOF(keys)) return err_set(err, "%s: unknown key %.64s", t->name, child->string);
        found[k] = child;
    }
    for (size_t k = 0; k < COUNTOF(keys); k++)
        if (!found[k]) return err_set(err, "%s: no %s", t->name, keys[k]);
    if (parse_dtype(t, found[0], err) || parse_shape(t, found[1], err)) return -1;
    return parse_offsets(t, found[2], data, data_bytes, err);
}

static int check_digest(const char *key, const char *digest, Err *err) {
    if (!digest || (strlen(digest) == 64 && strspn(digest, "0123456789abcdef") == 64)) return 0;
    return err_set(err, "__metadata__.%s is \"%.80s\", must be 64 hexadecimal digits", key, digest);
}

static int parse_metadata(SafeFile *f, const cJSON *item, Err *err) {
    if (!cJSON_IsObject(item)) return err_set(err, "__metadata__ is no object");
    for (const cJSON *child = item->child; child; child = child->next) {
        if (!cJSON_IsString(child)) return err_set(err, "__metadata__.%.64s is no string", child->string);
        if (!strcmp(child->string, "step")) text_make_printable(f->metadata_step = xstrdup(child->valuestring));
        if (!strcmp(child->string, "sha256")) f->metadata_sha256 = xstrdup(child->valuestring);
        if (!strcmp(child->string, "parts_sha256")) f->metadata_parts = xstrdup(child->valuestring);
    }
    return check_digest("sha256", f->metadata_sha256, err) || check_digest("parts_sha256", f->metadata_parts, err) ? -1
                                                                                                                   : 0;
}

/* Names come to terminals and logs: no control characters. */
static int check_name(const char *name, Err *err) {
    size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX_BYTES)
        return err_set(err, "a tensor name has %zu bytes, must be 1 to %d", n, NAME_MAX_BYTES);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return err_set(err, "a tensor name has a control character at byte %zu", i);
    return 0;
}

static int parse_header(SafeFile *f, const cJSON *root, const unsigned char *data, size_t data_bytes, Err *err) {
    if (!cJSON_IsObject(root)) return err_set(err, "the header is no JSON object");
    int n = cJSON_GetArraySize(root);
    if (n > SAFE_TENSORS_MAX) return err_set(err, "%d tensors, at most %d", n, SAFE_TENSORS_MAX);
    f->tensors = xcalloc((size_t)n, sizeof *f->tensors);
    for (const cJSON *item = root->child; item; item = item->next) {
        if (!strcmp(item->string, "__metadata__")) {
            if (parse_metadata(f, item, err)) return -1;
            continue;
        }
        if (check_name(item->string, err)) return -1;
        SafeTensor *t = &f->tensors[f->n++];
        t->name = xstrdup(item->string);
        if (parse_tensor(t, item, data, data_bytes, err)) return -1;
    }
    return 0;
}

static int by_position(const void *a, const void *b) {
    const SafeTensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int safe_tensor_by_name(const void *a, const void *b) {
    return strcmp(((const SafeTensor *)a)->name, ((const SafeTensor *)b)->name);
}

/* The tensors in file order must touch without gap or overlap, from the first byte of the data to the last. */
static int check_coverage(SafeFile *f, const unsigned char *data, size_t data_bytes, Err *err) {
    size_t at = 0;
    qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, by_position);
    for (int i = 0; i < f->n; i++) {
        const SafeTensor *t = &f->tensors[i];
        size_t begin = (size_t)((const unsigned char *)t->data - data);
        if (begin != at)
            return err_set(err, "%s: its data begins at %zu, but %s ends at %zu", t->name, begin,
                           i ? t[-1].name : "the header", at);
        at += t->bytes;
    }
    if (at == data_bytes) return 0;
    return err_set(err, "the tensors end at %zu, but the file has %zu bytes of data", at, data_bytes);
}

/* ---- mapping ---- */

static uint64_t read_length(const unsigned char p[LENGTH_BYTES]) {
    uint64_t n = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) n |= (uint64_t)p[i] << 8 * i;
    return n;
}

/* Spaces that the header lacks for the data to begin at a multiple of ALIGN: safetensors before 0.3 wrote none, and so
 * is gpt2's own file. */
static size_t header_lacks(int fd, off_t size) {
    enum { ALIGN = 4 };
    unsigned char p[LENGTH_BYTES];
    if (pread(fd, p, sizeof p, 0) != sizeof p) return 0;
    uint64_t n = read_length(p);
    if (n > SAFE_HEADER_MAX || n > (uint64_t)size - LENGTH_BYTES) return 0; /* refused when it is parsed */
    return (size_t)(-(LENGTH_BYTES + n) % ALIGN);
}

/* The header's length and text to fd, with `spaces` behind; returns where the data begins in `from`, -1 with errno. */
static off_t copy_header(int fd, int from, size_t spaces) {
    unsigned char p[LENGTH_BYTES];
    if (pread(from, p, sizeof p, 0) != sizeof p) return -1;
    uint64_t n = read_length(p), longer = n + spaces;
    for (int i = 0; i < LENGTH_BYTES; i++) p[i] = (unsigned char)(longer >> 8 * i);
    if (write(fd, p, sizeof p) != sizeof p) return -1;
    off_t at = LENGTH_BYTES, end = LENGTH_BYTES + (off_t)n;
    while (at < end)
        if (sendfile(fd, from, &at, (size_t)(end - at)) <= 0) return -1;
    return write(fd, "   ", spaces) == (ssize_t)spaces ? end : -1;
}

/* All of `from` in memory, sealed, with `spaces` behind the header; -1 with errno. */
static int seal_copy(int from, off_t size, size_t spaces) {
    int fd = memfd_create("noised-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    off_t at = spaces ? copy_header(fd, from, spaces) : 0;
    ssize_t n = at < 0 ? -1 : 1;
    while (n > 0 && at < size) n = sendfile(fd, from, &at, (size_t)(size - at));
    if (n == 0) errno = EIO; /* cut short meanwhile */
    if (n > 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Private, for a sealed file may not be mapped shared. Nothing is ever written, so they are the file's pages anyway. */
static int map_descriptor(SafeFile *f, const char *path, int fd, size_t size, Err *err) {
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        err_set(err, "%s: cannot map %zu bytes: %s", path, size, strerror(errno));
        close(fd);
        return -1;
    }
    f->map = map;
    f->map_bytes = size;
    return map_guard_open(&f->guard, map, size, fd, err);
}

static int map_file(SafeFile *f, const char *path, bool copy, Err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(err, "%s: %s", path, strerror(errno));
    struct stat st;
    size_t lacks = 0;
    if (fstat(fd, &st) < 0) {
        err_set(err, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        err_set(err, "%s: not a regular file", path);
    } else if (st.st_size <= LENGTH_BYTES) {
        err_set(err, "%s: %lld bytes are no safetensors file", path, (long long)st.st_size);
    } else if ((lacks = header_lacks(fd, st.st_size)) || copy) {
        int sealed = seal_copy(fd, st.st_size, lacks);
        if (sealed >= 0) {
            close(fd);
            return map_descriptor(f, path, sealed, (size_t)st.st_size + lacks, err);
        }
        err_set(err, "%s: cannot copy %lld bytes into memory: %s", path, (long long)st.st_size, strerror(errno));
    } else {
        return map_descriptor(f, path, fd, (size_t)st.st_size, err);
    }
    close(fd);
    return -1;
}

size_t safe_header_bytes(const SafeFile *f) {
    uint64_t n = read_length(f->map);
    return n > SIZE_MAX - LENGTH_BYTES ? SIZE_MAX : LENGTH_BYTES + (size_t)n;
}

static int parse_mapping(SafeFile *f, Err *err) {
    const char *text = (const char *)f->map + LENGTH_BYTES;
    size_t header = safe_header_bytes(f);
    if (header - LENGTH_BYTES > SAFE_HEADER_MAX)
        return err_set(err, "a header of %zu bytes, at most %d", header - LENGTH_BYTES, SAFE_HEADER_MAX);
    if (header > f->map_bytes)
        return err_set(err, "a header of %zu bytes in a file of %zu", header - LENGTH_BYTES, f->map_bytes);
    if (*text != '{') return err_set(err, "the header does not begin with {");
    cJSON *root = json_parse(text, header - LENGTH_BYTES, HEADER_DEPTH, HEADER_VALUES, err);
    if (!root) return -1;
    const unsigned char *data = (const unsigned char *)f->map + header;
    size_t data_bytes = f->map_bytes - header;
    int rc = parse_header(f, root, data, data_bytes, err);
    cJSON_Delete(root);
    if (rc || check_coverage(f, data, data_bytes, err)) return -1;
    qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, safe_tensor_by_name);
    return 0;
}

/* ---- the data ---- */

/* The first element that is NaN or infinite, all exponent bits set; n when there is none. A piece at a time, which the
 * compiler makes vectors of, and only in the piece that has one it is looked for. */
static size_t first_wild_16(const uint16_t *x, size_t n, uint16_t exponent) {
    size_t at = 0, m;
    for (unsigned wild = 0; at < n; at += m) {
        m = MIN(n - at, (size_t)SCAN);
        for (size_t i = 0; i < m; i++) wild |= (x[at + i] & exponent) == exponent;
        if (wild) break;
    }
    while (at < n && (x[at] & exponent) != exponent) at++;
    return at;
}

static size_t first_wild_32(const uint32_t *x, size_t n, uint32_t exponent) {
    size_t at = 0, m;
    for (unsigned wild = 0; at < n; at += m) {
        m = MIN(n - at, (size_t)SCAN);
        for (size_t i = 0; i < m; i++) wild |= (x[at + i] & exponent) == exponent;
        if (wild) break;
    }
    while (at < n && (x[at] & exponent) != exponent) at++;
    return at;
}

static int check_finite(const SafeTensor *t, Err *err) {
    size_t n = t->bytes / dtype_size(t->dtype), i = n;
    if (t->dtype == DTYPE_F32) i = first_wild_32(t->data, n, 0x7f800000);
    if (t->dtype == DTYPE_BF16) i = first_wild_16(t->data, n, 0x7f80);
    if (t->dtype == DTYPE_F16) i = first_wild_16(t->data, n, 0x7c00);
    return i == n ? 0 : err_set(err, "%s holds NaN or infinity, first at element %zu of %zu", t->name, i, n);
}

static int check_data(SafeFile *f, Err *err) {
    size_t header = safe_header_bytes(f);
    char digest[SHA256_HEX];
    f->proof = proof_make((const unsigned char *)f->map + header, f->map_bytes - header);
    proof_hex(f->proof, digest);
    if (!safe_intact(f)) return err_set(err, "was changed while it was read");
    if (f->metadata_sha256 && strcmp(digest, f->metadata_sha256))
        return err_set(err, "the data has sha256 %s, but its header says %s", digest, f->metadata_sha256);
    for (int i = 0; i < f->n; i++)
        if (check_finite(&f->tensors[i], err)) return -1;
    return 0;
}

/* ---- life ---- */

typedef enum Opening { OPEN_MAP, OPEN_COPY, OPEN_UNREAD } Opening;

static int open_as(SafeFile *f, const char *path, Opening way, Err *err) {
    Err why;
    *f = (SafeFile){0};
    if (map_file(f, path, way == OPEN_COPY, err) == 0) {
        if (parse_mapping(f, &why) == 0 && (way == OPEN_UNREAD || check_data(f, &why) == 0)) return 0;
        err_set(err, "%s: %s", path, why.msg);
    }
    safe_close(f);
    return -1;
}

int safe_open(SafeFile *f, const char *path, Err *err) { return open_as(f, path, OPEN_MAP, err); }

int safe_open_copy(SafeFile *f, const char *path, Err *err) { return open_as(f, path, OPEN_COPY, err); }

int safe_open_unread(SafeFile *f, const char *path, Err *err) { return open_as(f, path, OPEN_UNREAD, err); }

void safe_close(SafeFile *f) {
    for (int i = 0; i < f->n; i++) free(f->tensors[i].name);
    free(f->tensors);
    free(f->metadata_step);
    free(f->metadata_sha256);
    free(f->metadata_parts);
    proof_free(f->proof);
    map_guard_close(&f->guard);
    if (f->map) munmap(f->map, f->map_bytes);
    *f = (SafeFile){0};
}

void safe_condemn(const SafeFile *f) { map_guard_condemn(&f->guard); }

bool safe_intact(const SafeFile *f) {
    int64_t changed;
    MapState state = map_guard_look(&f->guard, &changed);
    if (state != MAP_TOUCHED) return state == MAP_INTACT;
    if (!proof_holds(f->proof)) {
        map_guard_condemn(&f->guard);
        return false;
    }
    map_guard_accept(&f->guard, changed);
    return true;
}

const char *safe_file_name(const SafeTensor *t) { return t->theirs ? t->theirs : t->name; }

const SafeTensor *safe_find(const SafeFile *f, const char *name) {
    SafeTensor key = {.name = (char *)name};
    return f->n ? bsearch(&key, f->tensors, (size_t)f->n, sizeof *f->tensors, safe_tensor_by_name) : NULL;
}
