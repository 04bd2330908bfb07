#include "weights/bind.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"
#include "weights/import/gpt2.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 320, ALIGN = 64 };

/* Where a parameter's elements come from: one tensor, or two of half the rows each; scales when they are I8. */
typedef struct Source {
    const SafeTensor *part[2], *scale[2];
    int n;
} Source;

typedef struct Binder {
    const Model *model;
    Shards *shards;
    Source *sources; /* [params.n] */
    bool *used;      /* [shards->n] */
    int n_missing;
    char missing[NAME_BYTES]; /* the first */
    unsigned char *owned;     /* NULL while bytes are only counted */
    size_t owned_used;
} Binder;

static void note_missing(Binder *b, const char *name) {
    char theirs[NAME_BYTES];
    bool counts = gpt2_name(b->shards, name, theirs, sizeof theirs);
    if (counts && b->n_missing++ == 0) memcpy(b->missing, theirs, sizeof theirs);
}

static const SafeTensor *use(Binder *b, const char *name) {
    const SafeTensor *t = shards_find(b->shards, name);
    if (t)
        b->used[t - b->shards->tensors] = true;
    else
        note_missing(b, name);
    return t;
}

static void use_part(Binder *b, Source *s, const char *name) {
    char scale[NAME_BYTES];
    const SafeTensor *t = s->part[s->n] = use(b, name);
    snprintf(scale, sizeof scale, "%s_scale", name);
    if (t && ((t->dtype == DTYPE_I8 && !t->is_mask) || (t->dtype == DTYPE_I4 && shards_find(b->shards, scale))))
        s->scale[s->n] = use(b, scale);
    s->n++;
}

static void resolve(Binder *b, Source *s, const char *name) {
    static const char joined[] = "mlp.gate_up_proj.";
    const char *at = strstr(name, joined);
    char gate[NAME_BYTES], up[NAME_BYTES];
    if (at && !shards_find(b->shards, name)) {
        int n = (int)(at - name);
        snprintf(gate, sizeof gate, "%.*smlp.gate_proj.%s", n, name, at + strlen(joined));
        snprintf(up, sizeof up, "%.*smlp.up_proj.%s", n, name, at + strlen(joined));
        if (shards_find(b->shards, gate) || shards_find(b->shards, up)) {
            use_part(b, s, gate);
            use_part(b, s, up);
            return;
        }
    }
    use_part(b, s, name);
}

/* Tensors that may stand in a file without being a parameter: the rope frequencies that old Llama files carry, which
 * follow from rope_theta, and the head of a tied model, provided that it is what it is tied to. */
static bool is_redundant(const Binder *b, const SafeTensor *t) {
    const Config *c = &b->model->cfg;
    if (c->position == POSITION_ROPE && text_ends(t->name, ".self_attn.rotary_emb.inv_freq")) return true;
    if (!c->tie_embeddings || strcmp(t->name, "lm_head.weight")) return false;
    const SafeTensor *e = shards_find(b->shards, "model.embed_tokens.weight");
    return e && e->dtype == t->dtype && e->bytes == t->bytes && !memcmp(e->data, t->data, t->bytes);
}

/* Gives every parameter its source; all names must match, both ways. */
static int match_names(Binder *b, Err *err) {
    const ParamSet *ps = &b->model->params;
    for (int i = 0; i < ps->n; i++) resolve(b, &b->sources[i], ps->params[i].weight->name);
    int n_unknown = 0;
    const char *unknown = "";
    for (int i = 0; i < b->shards->n; i++) {
        const SafeTensor *t = &b->shards->tensors[i];
        if (b->used[i]) continue;
        if (is_redundant(b, t))
            shards_drop(b->shards, t);
        else if (n_unknown++ == 0)
            unknown = safe_file_name(t);
    }
    const char *tensors = (b->n_missing ? b->n_missing : n_unknown) == 1 ? "tensor" : "tensors";
    if (b->n_missing && n_unknown)
        return err_set(err, "%d %s missing, first %.180s; %d unknown, first %.180s", b->n_missing, tensors, b->missing,
                       n_unknown, unknown);
    if (b->n_missing) return err_set(err, "%d %s missing, first %s", b->n_missing, tensors, b->missing);
    if (n_unknown) return err_set(err, "%d unknown %s, first %s", n_unknown, tensors, unknown);
    return 0;
}

static const char *shape_text(char out[64], const int *dims, int n) {
    size_t used = (size_t)snprintf(out, 64, "[");
    for (int i = 0; i < n; i++) used += (size_t)snprintf(out + used, 64 - used, i ? ",%d" : "%d", dims[i]);
    snprintf(out + used, 64 - used, "]");
    return out;
}

/* The shape that the file should have for the tensor to be `dims`. */
static const char *file_shape(char out[64], const SafeTensor *t, const int *dims, int n) {
    int d[SAFE_DIMS_MAX];
    memcpy(d, dims, (size_t)n * sizeof *d);
    if (t->part_of && n > 0) d[0] *= t->part_of;
    if (t->transposed && n == 2) {
        int swap = d[0];
        d[0] = d[1];
        d[1] = swap;
    }
    return shape_text(out, d, n);
}

static int check_shape(const SafeTensor *t, const int *dims, int n, Err *err) {
    char have[64], want[64];
    if (t->n_dims == n && !memcmp(t->dims, dims, (size_t)n * sizeof *dims)) return 0;
    return err_set(err, "%s is %s, config wants %s", safe_file_name(t), file_shape(have, t, t->dims, t->n_dims),
                   file_shape(want, t, dims, n));
}

static int check_scale(const SafeTensor *t, const SafeTensor *scale, Err *err) {
    if (t->dims[1] % INT8_GROUP)
        return err_set(err, "%s is I8 with rows of %d, not a multiple of %d", t->name, t->dims[1], INT8_GROUP);
    if (scale->dtype != DTYPE_F32) return err_set(err, "%s is %s, must be F32", scale->name, dtype_name(scale->dtype));
    return check_shape(scale, (const int[]){t->dims[0], t->dims[1] / INT8_GROUP}, 2, err);
}

/* part: [out, in]. */
static int check_int4(const Param *p, const SafeTensor *t, const SafeTensor *scale, const int part[2], Err *err) {
    int dims[3] = {part[0] / INT4_OUTS, part[1] / INT4_GROUP, INT4_BLOCK};
    if (!p->matrix || p->weight->n_dims != 2)
        return err_set(err, "%s is U8, must be F32, BF16 or F16", safe_file_name(t));
    if (part[0] % INT4_OUTS || part[1] % INT8_GROUP)
        return err_set(err, "%s is U8, but config wants [%d,%d], and codes of 4 bits are of multiples of %d and %d",
                       safe_file_name(t), part[0], part[1], INT4_OUTS, INT8_GROUP);
    if (check_shape(t, dims, 3, err)) return -1;
    if (scale->dtype != DTYPE_F16) return err_set(err, "%s is %s, must be F16", scale->name, dtype_name(scale->dtype));
    return check_shape(scale, (const int[]){dims[0], dims[1], INT4_OUTS}, 3, err);
}

static int check_source(const Param *p, const Source *s, Err *err) {
    const Weight *w = p->weight;
    int dims[3] = {w->dims[0] / s->n, w->dims[1], w->dims[2]};
    for (int k = 0; k < s->n; k++) {
        const SafeTensor *t = s->part[k];
        bool int4 = t->dtype == DTYPE_I4 && s->scale[k];
        if (int4 ? check_int4(p, t, s->scale[k], dims, err) : check_shape(t, dims, w->n_dims, err)) return -1;
        if (t->is_mask && !int4) return err_set(err, "%s is BOOL or U8, must be F32, BF16 or F16", safe_file_name(t));
        if (t->dtype != s->part[0]->dtype)
            return err_set(err, "%s is %s, but %s is %s", safe_file_name(t), dtype_name(t->dtype),
                           safe_file_name(s->part[0]), dtype_name(s->part[0]->dtype));
        if (t->dtype != DTYPE_I8) continue;
        if (!p->matrix) return err_set(err, "%s is I8, must be F32, BF16 or F16", safe_file_name(t));
        if (check_scale(t, s->scale[k], err)) return -1;
    }
    return 0;
}

static void *take_owned(Binder *b, size_t bytes) {
    void *p = b->owned ? b->owned + b->owned_used : NULL;
    b->owned_used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

/* The bytes of one or two tensors as one run: borrowed when it is one, else copied. */
static void *join_bytes(Binder *b, const SafeTensor *const part[2], int n) {
    if (n == 1) return (void *)part[0]->data; /* read-only by contract, as Weight.data says */
    unsigned char *out = take_owned(b, part[0]->bytes + part[1]->bytes);
    if (!out) return NULL;
    memcpy(out, part[0]->data, part[0]->bytes);
    memcpy(out + part[0]->bytes, part[1]->data, part[1]->bytes);
    return out;
}

static void bind_param(Binder *b, const Param *p, const Source *s) {
    Weight *w = p->weight;
    w->dtype = s->part[0]->dtype;
    w->data = join_bytes(b, s->part, s->n);
    void *scale = s->scale[0] ? join_bytes(b, s->scale, s->n) : NULL;
    w->scale = w->dtype == DTYPE_I8 ? scale : NULL;
    w->scale16 = w->dtype == DTYPE_I4 ? scale : NULL;
    if (p->matrix || w->dtype == DTYPE_F32) return;
    float *converted = take_owned(b, weight_count(w) * sizeof *converted);
    if (!converted) return;
    weight_read(w, 0, weight_count(w), converted);
    w->dtype = DTYPE_F32;
    w->data = converted;
}

static int bind_all(Binder *b, Err *err) {
    const ParamSet *ps = &b->model->params;
    if (match_names(b, err)) return -1;
    for (int i = 0; i < ps->n; i++)
        if (check_source(&ps->params[i], &b->sources[i], err)) return -1;
    for (int i = 0; i < ps->n; i++) bind_param(b, &ps->params[i], &b->sources[i]);
    if (b->owned_used == 0) return 0;
    b->owned = aligned_alloc(ALIGN, b->owned_used);
    if (!b->owned) return err_set(err, "no memory for %zu bytes of converted weights", b->owned_used);
    b->owned_used = 0;
    for (int i = 0; i < ps->n; i++) bind_param(b, &ps->params[i], &b->sources[i]);
    return 0;
}

int bind_model(Model *m, Shards *shards, void **owned, Err *err) {
    Binder b = {.model = m, .shards = shards};
    b.sources = xcalloc((size_t)m->params.n, sizeof *b.sources);
    b.used = xcalloc((size_t)shards->n, sizeof *b.used);
    int rc = bind_all(&b, err);
    free(b.sources);
    free(b.used);
    *owned = b.owned;
    return rc;
}
