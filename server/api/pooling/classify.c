/* POST /v1/classify */
#include "base/json_write.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/json/json_reader.h"
#include "model/shape.h"
#include "server/api/completions/prompt.h"
#include "server/api/pooling/image.h"
#include "server/api/pooling/probabilities.h"
#include "server/api/pooling/tasks.h"

#include <string.h>

static const Type picture_type = {.kind = TYPE_MAP, .of = {&api_text_type}},
                  pictures_type = {.kind = TYPE_ARRAY, .low = 1, .of = {&picture_type}},
                  input_type = {.kind = TYPE_ONE_OF, .of = {&api_prompts_type, &picture_type, &pictures_type}};

static const Field rows[] = {
    {.name = "input",
     .kind = FIELD_OTHER,
     .offset = offsetof(PoolingRequest, input),
     .type = &input_type,
     .absent = "required",
     .help = "The texts, or their token ids; of a model that classifies images `{\"image\": "
             "\"data:image/png;base64,…\"}`, one or a list, of the network's size."},
};

const FieldList classify_fields = {.rows = rows, .n = COUNTOF(rows), .also = &task_fields};

static int add_picture(PoolingRequest *r, const cJSON *item, const ApiContext *ctx, ApiError *e) {
    const cJSON *url = json_field(item, "image");
    PoolingInput *input = &r->inputs[r->n_inputs];
    if (!cJSON_IsString(url) || cJSON_GetArraySize(item) != 1)
        return api_fail(e, 400, NULL, "input", "input %d must be {\"image\": \"data:image/png;base64,...\"}",
                        r->n_inputs);
    if (api_image_read(url->valuestring, ctx->config, "input.image", &input->image, e)) return -1;
    input->n = config_image_rows(ctx->config);
    r->n_inputs++;
    return 0;
}

static int settle(PoolingRequest *r, const ApiContext *ctx, ApiError *e) {
    const Config *c = ctx->config;
    if (task_settle(r, ctx, TASK_TEXT_CLASSIFICATION, TASK_IMAGE_CLASSIFICATION, e)) return -1;
    if (c->input.kind == INPUT_PATCHES ? pooling_read_each(r, ctx, add_picture, "pictures", e)
                                       : pooling_read_texts(r, ctx, e))
        return -1;
    for (int i = 0; i < r->n_inputs; i++) r->inputs[i].n_values = config_outputs(c);
    return 0;
}

static void print_class(Buffer *out, const Pooling *r, int i, Probabilities *p) {
    if (!task_probabilities(p, r, i, 0)) {
        out->failed = true;
        return;
    }
    json_put_text(out, "label", labels_name(r->ctx->api->labels, probabilities_best(p)));
    json_put_floats(out, "probs", p->mean, p->n);
    json_put_int(out, "num_classes", p->n);
    task_print_uncertainty(out, r, p);
}

static int print(Buffer *out, const Pooling *r, int from) { return task_print(out, r, from, print_class); }

static const PoolingForm form = {.settle = settle, .print = print};
const AnswerKind classify_answer = POOLING_ANSWER(form);
