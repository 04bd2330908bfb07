#include "server/api/pooling/tasks.h"

#include "base/json_write.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/shape.h"
#include "server/api/foreign.h"
#include "server/api/pooling/probabilities.h"

#include <stdlib.h>
#include <string.h>

#define FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(PoolingRequest, member)
static const Field rows[] = {
    {FIELD(model, FIELD_TEXT), .absent = "the one served",
     .help = "The served model's name or an `--alias` of it; 404 otherwise."},
    {FIELD(noise_samples, FIELD_INT), .low = 1, .high = 1 << 20, .limit = "--max-n", .fallback = 1,
     .help = "How many noise seeds answer: `noise_seed` and those that are derived from it. More than one: the mean "
             "of their probabilities, its `spread` and the `mutual_information` of class and seed in nats."},
    {FIELD(noise_scale, FIELD_FLOAT), .high = 8, .fallback = -1, .absent = "`--noise-scale`",
     .help = "Factor on the noise; 0: none."},
    {FIELD(noise_seed, FIELD_SEED), .absent = "`seed`; without that `--noise-seed`",
     .help = "Noise seed of every input."},
    {FIELD(seed, FIELD_FOLDED), .absent = "drawn", .help = "The same as `noise_seed`: nothing is sampled here."},
    {FIELD(truncate, FIELD_BOOL),
     .help = "Of a text longer than the context its beginning counts, and its answer says `truncated: true`."},
    {FIELD(user, FIELD_TEXT), .absent = "none", .help = "At most 256 bytes. Accepted and ignored."},
};
#undef FIELD

const FieldList task_fields = {.rows = rows, .n = COUNTOF(rows), .also = &foreign_fields};

int task_settle(PoolingRequest *r, const ApiContext *ctx, TaskKind task, TaskKind or_task, ApiError *e) {
    const Config *c = ctx->config;
    if ((c->task != task && c->task != or_task) || config_generates(c))
        return api_fail(e, 400, "wrong_task", NULL, "the model's task is %s, not %s", task_names[c->task],
                        task_names[task]);
    r->kind = &job_logits;
    api_default_noise(ctx, r->seed, &r->noise_seed, &r->noise_scale);
    return 0;
}

bool task_probabilities(Probabilities *p, const Pooling *r, int i, int row) {
    int samples = r->request.noise_samples;
    const float **logits = try_calloc((size_t)samples, sizeof *logits);
    for (int s = 0; s < samples && logits; s++)
        logits[s] = r->jobs[i * samples + s]->values + (size_t)row * (size_t)p->n;
    if (logits) probabilities_of(p, logits, samples);
    free(logits);
    return logits;
}

void task_print_uncertainty(Buffer *out, const Pooling *r, const Probabilities *p) {
    if (r->request.noise_samples == 1) return;
    json_put_floats(out, "spread", p->spread, p->n);
    json_put_float(out, "mutual_information", (float)p->mutual_information);
}

int task_print(Buffer *out, const Pooling *r, int from,
               void (*print)(Buffer *out, const Pooling *r, int i, Probabilities *p)) {
    Probabilities p;
    int i = from;
    if (probabilities_init(&p, config_outputs(r->ctx->api->config))) {
        out->failed = true;
        return from;
    }
    if (from == 0) {
        json_open(out, NULL, '{');
        pooling_print_open(out);
    }
    for (; i < r->request.n_inputs && !out->failed && !pooling_enough(r, out); i++) {
        json_open(out, NULL, '{');
        json_put_int(out, "index", i);
        if (r->request.inputs[i].truncated) json_put_bool(out, "truncated", true);
        print(out, r, i, &p);
        json_close(out, '}');
    }
    if (i == r->request.n_inputs) pooling_print_close(out, r);
    probabilities_free(&p);
    return i;
}
