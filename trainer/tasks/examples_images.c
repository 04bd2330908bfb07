/* Images: MNIST's files and safetensors. */
#include "base/files.h"
#include "base/memory.h"
#include "trainer/tasks/examples_reader.h"
#include "weights/safetensors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A file of the IDX format: two zero bytes, 8 for bytes, the number of dimensions, each of them big-endian in four
 * bytes, the data. Fills dims[0..n_dims); the data are behind the header, exactly as many as the dimensions say. */
static uint8_t *idx_read(const char *path, int n_dims, int *dims, Err *err) {
    size_t n, count = 1, header = 4 + 4 * (size_t)n_dims;
    uint8_t *file = (uint8_t *)file_read(path, LINES_FILE_MAX, &n, err), magic[4] = {0, 0, 8, (uint8_t)n_dims};
    if (!file) return NULL;
    if (n < header) {
        err_set(err, "%s: %zu bytes, its header alone has %zu", path, n, header);
        goto fail;
    }
    if (memcmp(file, magic, sizeof magic)) {
        err_set(err, "%s: begins with %02x%02x%02x%02x, bytes in %d dimensions with 000008%02x", path, file[0], file[1],
                file[2], file[3], n_dims, n_dims);
        goto fail;
    }
    for (int k = 0; k < n_dims; k++) {
        const uint8_t *p = file + 4 + 4 * k;
        uint32_t dim = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        if (dim == 0 || dim > INT_MAX || !size_mul(count, dim, &count)) {
            err_set(err, "%s: dimension %d of its header is %u", path, k, dim);
            goto fail;
        }
        dims[k] = (int)dim;
    }
    if (count == n - header) return file;
    err_set(err, "%s: its header promises %zu bytes of data, there are %zu", path, count, n - header);
fail:
    free(file);
    return NULL;
}

/* "train-images-idx3-ubyte" -> "train-labels-idx1-ubyte", in the last part of the path. */
static int label_path(const char *path, char out[PATH_BYTES], Err *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *images = strstr(name, "images");
    if (!images || snprintf(out, PATH_BYTES, "%.*slabels%s", (int)(images - path), path, images + 6) >= PATH_BYTES)
        return err_set(err, "%s: the name has no \"images\" in it, so which file has the labels?", path);
    char *idx = strstr(out + (name - path), "idx3");
    if (idx) idx[3] = '1';
    return 0;
}

int examples_read_idx(Examples *e, const Labels *known, Err *err) {
    char labels_file[PATH_BYTES];
    int dims[3], n_labels;
    if (label_path(e->path, labels_file, err)) return -1;
    uint8_t *file = idx_read(e->path, 3, dims, err);
    if (!file) return -1;
    e->file = (char *)file;
    e->n = dims[0];
    e->channels = 1;
    e->height = dims[1];
    e->width = dims[2];
    e->pixels = file + 16;
    uint8_t *labels = idx_read(labels_file, 1, &n_labels, err);
    if (!labels) return -1;
    int rc = n_labels == e->n ? examples_label_images(e, labels + 8, labels_file, known, err)
                              : err_set(err, "%s has %d labels, %s %d images", labels_file, n_labels, e->path, e->n);
    free(labels);
    return rc;
}

/* Of bytes, all dimensions at least 1. */
static const SafeTensor *find_bytes(const SafeFile *f, const char *path, const char *name, int n_dims,
                                    const char *shape, Err *err) {
    const SafeTensor *t = safe_find(f, name);
    bool good = t && t->is_mask && t->n_dims == n_dims;
    for (int k = 0; good && k < n_dims; k++) good = t->dims[k] > 0;
    if (good) return t;
    if (!t)
        err_set(err, "%s has no tensor \"%s\"", path, name);
    else if (!t->is_mask)
        err_set(err, "%s: %s is %s, must be U8", path, name, dtype_name(t->dtype));
    else
        err_set(err, "%s: %s has %d dimensions, must be %s", path, name, t->n_dims, shape);
    return NULL;
}

static int copy_images(Examples *e, const SafeFile *f, const Labels *known, Err *err) {
    const SafeTensor *images = find_bytes(f, e->path, "images", 4, "[n, channels, height, width]", err);
    const SafeTensor *labels = images ? find_bytes(f, e->path, "labels", 1, "[n]", err) : NULL;
    if (!labels) return -1;
    if (labels->dims[0] != images->dims[0])
        return err_set(err, "%s has %d labels, %d images", e->path, labels->dims[0], images->dims[0]);
    e->file = xmalloc(images->bytes);
    memcpy(e->file, images->data, images->bytes);
    e->pixels = (const uint8_t *)e->file;
    e->n = images->dims[0];
    e->channels = images->dims[1];
    e->height = images->dims[2];
    e->width = images->dims[3];
    return examples_label_images(e, labels->data, e->path, known, err);
}

int examples_read_safetensors(Examples *e, const Labels *known, Err *err) {
    SafeFile f;
    if (safe_open(&f, e->path, err)) return -1;
    int rc = copy_images(e, &f, known, err);
    if (rc == 0 && !safe_intact(&f)) rc = err_set(err, "%s was changed while it was read", e->path);
    safe_close(&f);
    return rc;
}
